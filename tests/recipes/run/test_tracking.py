"""Lines, TensorBoard and services show a run's numbers, each of them once."""

import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from experiment_runs import launch, scalars, tensorboard_events
from linear_family import NAME, STEPS, linear
from PIL import Image

from ebmjax.recipes.config.errors import ConfigError, WorkdirError
from ebmjax.recipes.run import launch as launches
from ebmjax.recipes.run import tracking


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass only when told."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(tracking, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    return clock


def test_lines_tell_rate_and_time_left(clock, capsys):
    lines = tracking.Progress(100)
    lines.write(0, {"test_log_evidence": -3.0})
    clock.now += 3.5
    lines.write(20, {"loss": 12.3456})  # too soon
    assert capsys.readouterr().out == ""
    clock.now += 6.0
    lines.write(25, {"loss": 12.3456})
    # 5 steps in the 6 seconds since the first row, 75 left: what came before was compiling.
    line = "step 25/100  loss 12.35  0.8 steps/s  about 90 s left\n"
    assert capsys.readouterr().out == line
    lines.write(30, {"loss": 1.0, "sample_fid": 39.2})  # measured: always
    lines.write(100, {"loss": float("nan")})  # the last one always, numbers or not
    assert len(capsys.readouterr().out.splitlines()) == 2


def picture(folder, name):
    (folder / "plots").mkdir(exist_ok=True)
    Image.fromarray(np.full((3, 4, 3), 7, np.uint8)).save(folder / "plots" / f"{name}.png")
    return folder / "plots" / f"{name}.png"


def test_tensorboard_gets_finite_numbers_lists_and_pictures(tmp_path):
    picture(tmp_path, "samples_000007")
    writer = tracking.TensorBoardWriter(tmp_path)
    writer.start(0)
    writer.write(0, {"loss": 1.5})
    writer.write(7, {"loss": -2.0, "energies": [0.25, math.nan, 3], "lists": [[0.25]]})
    writer.close()
    ofs = {"loss": -2.0, "energies/0": 0.25, "energies/2": 3.0, "lists/0/0": 0.25}
    assert scalars(tmp_path) == {("loss", 0): 1.5} | {(name, 7): x for name, x in ofs.items()}
    values = [(e.step, v) for e in tensorboard_events(tmp_path) for v in e.summary.value]
    ((step, one),) = [(step, v) for step, v in values if v.HasField("image")]
    assert (step, one.tag, one.image.height, one.image.width) == (7, "samples", 3, 4)


def test_tensorboard_forgets_what_came_after_the_step_a_run_continues_from(tmp_path):
    for number in range(3):  # of one second
        writer = tracking.TensorBoardWriter(tmp_path)
        writer.start(6 * number)
        writer.write(6 * number + 1, {"loss": float(number)})
        writer.close()
    assert len(list(tmp_path.iterdir())) == 3
    events = [e for e in tensorboard_events(tmp_path) if e.session_log.status]
    assert sorted(e.step for e in events) == [0, 7, 13]


class Service:
    """Stands in for wandb: it keeps what it gets."""

    def __init__(self):
        self.began, self.logged, self.ended = [], [], 0
        self.Image = lambda path: ("picture", path)

    def init(self, project, name, config, resume, id=None):
        assert resume == "allow"
        self.began.append(SimpleNamespace(project=project, name=name, config=config, id=id))
        return self

    def log(self, found, step):
        self.logged.append((step, found))

    def finish(self):
        self.ended += 1


@pytest.fixture
def wandb(monkeypatch):
    service = Service()
    monkeypatch.setitem(sys.modules, "wandb", service)
    return service


def test_rows_pictures_and_configuration_are_sent(wandb, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    path = picture(tmp_path, "samples_000008")
    row = {"loss": 1.5, "bad": math.nan, "two": [0.25, 0.5]}
    writer = tracking.ServiceWriter("wandb", tmp_path, {"seed": 0})
    writer.start(0)
    writer.write(8, row)
    writer.close()
    (began,) = wandb.began
    assert (began.project, began.id, began.config) == ("mine", began.name, {"seed": 0})
    sent = {"loss": 1.5, "two/0": 0.25, "two/1": 0.5, "samples": ("picture", str(path))}
    assert wandb.logged == [(8, sent)]
    assert wandb.ended == 1


@pytest.mark.slow
def test_a_run_that_continues_sends_each_row_once(wandb, tmp_path):
    """Also if it was killed past its last checkpoint."""
    launch(linear(), NAME, str(tmp_path / "run"), track="wandb")
    steps = [step for step, _ in wandb.logged]
    assert steps == list(range(STEPS + 1))
    (tmp_path / "run" / "checkpoints" / str(STEPS)).rename(tmp_path / "away")
    (tmp_path / "run" / "summary.json").unlink()
    launch(linear(), NAME, str(tmp_path / "run"), track="wandb")
    assert [step for step, _ in wandb.logged] == steps
    assert len({one.name for one in wandb.began}) == 1


def test_a_service_that_is_not_there_or_refuses_is_one_error(wandb, tmp_path, monkeypatch):
    with pytest.raises(WorkdirError, match="--track needs training"):
        launch(linear(), NAME, str(tmp_path / "run"), "eval", track="wandb")
    monkeypatch.setattr(wandb, "init", lambda id: 1 / 0)
    with pytest.raises(ConfigError, match="--track=wandb could not begin"):
        launch(linear(), NAME, str(tmp_path / "refused"), track="wandb")
    monkeypatch.setattr(launches.Run, "build", lambda self: pytest.fail("built"))
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigError, match=r"--track=wandb needs the package wandb.*pip"):
        launch(linear(), NAME, str(tmp_path / "run"), track="wandb")
    assert not (tmp_path / "run").exists()
