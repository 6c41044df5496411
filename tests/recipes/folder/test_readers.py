"""Readers write nothing: a folder is the same, to the times of its files, after each of them."""

import shutil

import jax
import numpy as np
import pytest
from experiment_runs import command, damage, launch
from linear_family import NAME, linear

from ebmjax import data, recipes
from ebmjax.recipes.folder.run_folder import read_rows, snapshots
from ebmjax.recipes.study.cells import Cell


def listing(folder):
    """Everything below a folder: kind, size, mode, time of the last change and content."""
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        about = path.lstat()
        body = path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = (
            *(about.st_mode, about.st_size, about.st_mtime_ns, about.st_ctime_ns),
            body,
        )
    return found


@pytest.fixture(params=["intact", "damaged, with leftovers"])
def read_only(request, smoke, tmp_path):
    """A finished run that may not be written; its newest checkpoint may be damaged."""
    folder = shutil.copytree(smoke, tmp_path / "runs" / "seed0")
    newest = max((folder / "checkpoints").iterdir(), key=lambda path: int(path.name))
    if request.param != "intact":  # and there is what a process left that was killed while it saved
        shutil.copytree(newest, newest.with_name(f"{newest.name}.orbax-checkpoint-tmp"))
        damage(newest)
    places = [folder, *folder.rglob("*")]
    for path in places:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield folder
    for path in places:
        path.chmod(0o755)


@pytest.mark.slow
def test_who_samples_scores_exports_or_loads_leaves_the_folder_as_it_is(
    read_only, tmp_path, monkeypatch, capsys
):
    before = listing(read_only)
    run = recipes.load(read_only)
    assert run.is_finished == (run.step == 10)
    assert run.sample(jax.random.key(0), 2)["images"].shape == (2, 8, 8, 1)
    for numbers in ({"num": 0}, {"num": 2, "num_steps": 0}):
        with pytest.raises(ValueError, match=rf"{[*numbers][-1]} must be an integer of at least 1"):
            run.sample(jax.random.key(0), **numbers)
    np.savez(tmp_path / "own.npz", images=data.load_digits("test").images[:2])
    for name, out, further in (
        ("sample", "s.png", ["--num=2", "--num_steps=1"]),
        ("score", "s.csv", [f"--data={tmp_path / 'own.npz'}"]),
        ("export", "p.npz", []),
    ):
        command(monkeypatch, name, read_only, tmp_path / out, *further)
        assert (tmp_path / out).exists()
    of_study = Cell(read_only)
    assert of_study.numbers()["steps"] == read_rows(of_study.folder)[-1]["step"] == 10
    assert snapshots(of_study.folder)
    assert listing(read_only) == before


@pytest.mark.parametrize("is_damaged", [False, True])
def test_an_evaluation_writes_its_own_files_and_a_start_none(is_damaged, finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "run")
    if is_damaged:
        damage(folder / "checkpoints" / "10")
    before = listing(folder)
    start = linear(**{"train.start_from": str(folder)})
    assert launch(start, NAME, str(tmp_path / "new")) is None
    assert listing(folder) == before
    launch(linear(), NAME, str(folder), "eval")
    after = listing(folder)
    assert after.keys() - before.keys() == {"evaluation.json"}
    own = (".", "report.html")
    assert {name: after[name] for name in before if name not in own} == {
        name: one for name, one in before.items() if name not in own
    }
