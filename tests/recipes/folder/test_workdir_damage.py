"""A run's folder that is damaged, incomplete or full: one message, and nothing is lost."""

import errno
import re
import shutil
from pathlib import Path

import pytest
from experiment_runs import contents, damage, launch, summary_of
from linear_family import LINEAR, NAME, linear, points

from ebmjax._user_function import definitions
from ebmjax.recipes.config.errors import WorkdirError, WriteError
from ebmjax.recipes.report import of_run
from ebmjax.recipes.run.run import BROKE_OFF, Run, explain_writes
from ebmjax.training import CheckpointAccessError, CheckpointMismatchError, DivergenceError


def again(folder):
    return launch(linear(), NAME, str(folder))


@pytest.fixture
def copied(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


def test_a_damaged_newest_checkpoint_costs_two_steps_and_no_bit(finished, copied):
    damage(copied / "checkpoints" / "10")
    (copied / "summary.json").unlink()
    assert again(copied) is None
    assert summary_of(copied)["params_sha256"] == summary_of(finished)["params_sha256"]
    ours, theirs = contents(copied), contents(finished)
    assert ours["metrics.jsonl"] == theirs["metrics.jsonl"]
    assert {name for name in ours if re.fullmatch(r"checkpoints/\d+", name)} == {
        f"checkpoints/{step}" for step in (6, 8, 10)
    }


def test_a_finished_run_that_lost_its_checkpoints_is_not_trained_again(copied):
    shutil.rmtree(copied / "checkpoints")
    before = contents(copied)
    with pytest.raises(WorkdirError, match=r"holds a finished run, but no checkpoint"):
        again(copied)
    assert contents(copied) == before


@pytest.mark.parametrize(
    ("error", "expected", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), WriteError, "run could not be written"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), WriteError, "quota exceeded.*Make room"),
        (CheckpointAccessError(errno.EROFS, "A checkpoint."), WriteError, "^A checkpoint.$"),
        (CheckpointAccessError(errno.EMFILE, "Too many."), CheckpointAccessError, "Too many"),
        (FileNotFoundError(errno.ENOENT, "weights"), FileNotFoundError, "weights"),
    ],
)
def test_a_disk_that_takes_no_more_ends_a_run_in_one_message(error, expected, message):
    with pytest.raises(expected, match=message), explain_writes(Path("run")):
        raise error
    assert issubclass(WriteError, BROKE_OFF)


def test_a_report_that_cannot_be_written_hides_no_other_error(copied, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    def diverge(*_):
        raise DivergenceError("it diverged")

    monkeypatch.setattr(of_run, "write", full)
    with pytest.raises(WriteError, match="No space left on device"):
        again(copied)
    for fails, error in ((full, WriteError), (diverge, DivergenceError)):
        monkeypatch.setattr(Run, "finish", fails)
        with pytest.raises(error, match=r"No space left|it diverged"):
            again(copied)


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_other_data_than_a_run_began_with_are_refused_whole(mode, copied, monkeypatch):
    def other(config):
        found = points(config)
        found["x"][7] += 1
        return found

    monkeypatch.setitem(definitions(LINEAR).build.__globals__, "points", other)
    before = contents(copied)
    message = r"Checkpoint 10 .* data\['x'\] has the same shape, float32\(20,\)"
    with pytest.raises(CheckpointMismatchError, match=message):
        launch(linear(), NAME, str(copied), mode)
    assert contents(copied) == before
