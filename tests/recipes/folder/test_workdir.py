import json
import subprocess

import numpy as np
import pytest
from experiment_runs import contents, launch
from linear_family import NAME, linear

from ebmjax.recipes.config.errors import WorkdirError
from ebmjax.recipes.folder import run_folder
from ebmjax.recipes.folder.run_folder import only_process


def again(folder):
    return launch(linear(), NAME, str(folder))


def test_a_new_folder_is_made_with_its_parents(tmp_path):
    for _ in range(2):  # the same configuration: welcome back
        run_folder.prepare(tmp_path / "a" / "b", linear())
    assert {path.name for path in (tmp_path / "a" / "b").iterdir()} == {"config.json", "plots"}


@pytest.mark.parametrize("left", [None, "config.123.json"])
def test_an_empty_folder_and_one_left_by_a_kill_at_the_first_write_are_taken(left, tmp_path):
    if left:
        (tmp_path / left).write_text('{"data": {"na')
    run_folder.prepare(tmp_path, linear())
    assert json.loads((tmp_path / "config.json").read_text())["data"]["name"] == "points"


def refusal(folder, config=None):
    """The message; nothing may have changed in the folder's parent."""
    before = contents(folder.parent)
    with pytest.raises(WorkdirError) as caught:
        run_folder.prepare(folder, config or linear())
    assert contents(folder.parent) == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["file", "file/run"])
def test_a_file_in_the_way(name, tmp_path):
    (tmp_path / "file").write_text("precious")
    folder = tmp_path / name
    assert refusal(folder).startswith(f"--workdir {folder} cannot be used: Not a directory.")


@pytest.mark.parametrize("name", ["", "new", "new/run"])
def test_a_folder_that_cannot_be_written_is_refused_before_data_are_read(
    name, tmp_path, monkeypatch, capsys
):
    def refuse(**_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(run_folder.tempfile, "TemporaryFile", refuse)
    with pytest.raises(WorkdirError, match=r"cannot be used: Read-only file system. Name a folder"):
        again(tmp_path / name)
    assert not contents(tmp_path)
    assert capsys.readouterr().out == ""


def test_a_folder_of_other_things(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "cat.png").touch()
    assert "holds files but no config.json" in refusal(folder)


def test_the_folder_of_another_configuration(tmp_path):
    folder = tmp_path / "run"
    run_folder.prepare(folder, linear())
    message = refusal(folder, linear(**{"loss.exponent": 1.0, "model.hidden": (8,)}))
    assert message.startswith(f"--workdir {folder} belongs to a run with another configuration: ")
    assert "loss.exponent was 2.0 and is now 1.0" in message
    assert "model.hidden was [1] and is now [8]" in message
    assert "num_epochs" not in message


def test_snapshots_come_in_the_order_of_their_steps(tmp_path):
    assert run_folder.snapshots(tmp_path) == []
    for step in (200, 10, 9, 1_000_000):
        run_folder.save_snapshot(tmp_path, step, {"at": step})
    (tmp_path / "monitor" / "notes.npz").touch()
    (tmp_path / "monitor" / "000011.npz").mkdir()
    found = run_folder.snapshots(tmp_path)
    assert [int(np.load(path)["at"]) for path in found] == [9, 10, 200, 1_000_000]
    assert (tmp_path / "monitor" / "000200.npz").exists()


def test_the_revision_is_the_commit_and_whether_files_changed(tmp_path, monkeypatch):
    def git(*arguments):
        options = ("-c", "user.name=a", "-c", "user.email=a@b")
        done = subprocess.run(
            ["git", *options, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    code = tmp_path / "ebmjax" / "code.py"
    code.parent.mkdir()
    code.write_text("1")
    monkeypatch.setattr(run_folder, "PACKAGE", code.parent)
    assert run_folder.revision() is None  # no checkout
    git("init")
    git("add", "ebmjax")
    git("commit", "-m", "Code")
    git("tag", "-a", "v1", "-m", "Version")
    assert run_folder.revision() == git("rev-parse", "HEAD")
    code.write_text("2")
    assert run_folder.revision() == git("rev-parse", "HEAD") + "-dirty"
    with monkeypatch.context() as patch:
        patch.setattr(run_folder, "PACKAGE", code.parent / "in" / "another")
        assert run_folder.revision() is None  # a checkout, of something else
    monkeypatch.setenv("PATH", "")
    assert run_folder.revision() is None  # no git


def test_a_folder_that_another_process_trains_in(tmp_path):
    folder = tmp_path / "run"
    run_folder.prepare(folder, linear())
    with only_process(folder):
        before = contents(folder)
        with pytest.raises(WorkdirError, match=f"--workdir {folder} is in use: another process"):
            again(folder)
        assert contents(folder) == before
    with only_process(folder):  # the lock is gone with the first
        pass
