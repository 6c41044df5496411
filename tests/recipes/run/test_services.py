"""--track sends rows, pictures and the configuration to a service, each of them once."""

import contextlib
import json
import sqlite3
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from experiment_runs import launch, rows_of, tensorboard_events
from linear_family import NAME, STEPS, linear
from PIL import Image

from ebmjax import training
from ebmjax.recipes.config.errors import ConfigError, WorkdirError
from ebmjax.recipes.run import launch as launches
from ebmjax.recipes.run import services, tracking

ROW = {
    "loss": 1.5,
    "bad": float("nan"),
    "none": None,
    "two": [0.25, 0.5],
    "recovery": {"number": 1},
}


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
        self.logged.append((self.began[-1].name, step, found))

    def finish(self):
        self.ended += 1


@pytest.fixture
def wandb(monkeypatch):
    service = Service()
    monkeypatch.setitem(sys.modules, "wandb", service)
    return service


def picture(folder, name):
    (folder / "plots").mkdir(exist_ok=True)
    Image.fromarray(np.full((3, 4, 3), 7, np.uint8)).save(folder / "plots" / f"{name}.png")
    return folder / "plots" / f"{name}.png"


def test_rows_pictures_and_configuration_are_sent(wandb, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    path = picture(tmp_path, "samples_000008")
    picture(tmp_path, "samples_000018")
    (tmp_path / "metrics.jsonl").touch()
    writer = services.ServiceWriter("wandb", tmp_path, {"seed": 0, "sampler.names": ["sgld"]}, 0)
    writer.start(0)
    writer.write(8, ROW)
    writer.close()
    (began,) = wandb.began
    assert began.config == {"seed": 0, "sampler.names": ["sgld"]}
    assert (began.project, began.id) == ("mine", began.name)
    assert began.name.startswith(tmp_path.name)
    sent = {"loss": 1.5, "two/0": 0.25, "two/1": 0.5, "samples": ("picture", str(path))}
    assert wandb.logged == [(began.name, 8, sent)]
    assert wandb.ended == 1


def test_a_row_that_was_sent_is_not_sent_again(wandb, tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 0, "recovery": {"number": 1}}\n')
    writer = services.ServiceWriter("wandb", tmp_path, {}, 0)
    writer.start(0)
    writer.write(0, {"loss": 1.0})  # the row before had nothing to send
    writer.write(4, {"loss": 2.0})
    path.write_text('{"step": 0, "loss": 1.0}\n{"step": 4, "loss": 2.0}\n')
    again = services.ServiceWriter("wandb", tmp_path, {}, 0)
    again.start(0)
    for step in (0, 2, 4, 6):
        again.write(step, {"loss": float(step)})
    assert [step for _, step, _ in wandb.logged] == [0, 4, 6]
    assert len({name for name, _, _ in wandb.logged}) == 1


@pytest.mark.slow
def test_a_run_that_continues_sends_each_row_once(wandb, tmp_path):
    """Also if it was killed past its last checkpoint; tracked from its second sitting on, all."""
    launch(linear(), NAME, str(tmp_path / "run"), track="wandb")
    steps = [step for _, step, _ in wandb.logged]
    assert steps == list(range(STEPS + 1))
    (tmp_path / "run" / "checkpoints" / str(STEPS)).rename(tmp_path / "away")
    (tmp_path / "run" / "summary.json").unlink()
    launch(linear(), NAME, str(tmp_path / "run"), track="wandb")
    assert [step for _, step, _ in wandb.logged] == steps
    assert len({one.name for one in wandb.began}) == 1
    assert len(rows_of(tmp_path / "run")) == STEPS + 1
    (tmp_path / "run" / services.FILE).unlink()
    launch(linear(), NAME, str(tmp_path / "run"), track="wandb")
    assert [step for name, step, _ in wandb.logged if name == wandb.began[-1].name] == steps


@pytest.mark.slow
def test_a_recovery_is_another_tracked_run(wandb, tmp_path):
    changes = {"loss.breaks_at": 0.8, "train.max_consecutive_skips": 4}
    config = linear("long", **changes, **{"train.on_divergence": "recover"})
    launch(config, NAME, str(tmp_path / "run"), track="wandb")
    names = json.loads((tmp_path / "run" / services.FILE).read_text())
    assert list(names) == ["wandb", "wandb 1"]
    last = [step for name, step, _ in wandb.logged if name == names["wandb 1"]]
    assert last == sorted({*last})
    assert last[0] == 0
    assert last[-1] == 120
    rates = [one.config["optimizer.learning_rate"] for one in wandb.began]
    assert rates[0] > rates[1]


@pytest.mark.slow
def test_a_service_that_fails_does_not_end_the_training(wandb, tmp_path, monkeypatch):
    monkeypatch.setattr(wandb, "log", lambda *_, **__: 1 / 0)
    with pytest.warns(UserWarning, match="--track=wandb ended at step 0: division by zero"):
        assert launch(linear(), NAME, str(tmp_path / "run"), track="wandb") is None
    assert rows_of(tmp_path / "run")[-1]["step"] == STEPS


def test_a_service_that_is_not_there_or_refuses_is_one_error(wandb, tmp_path, monkeypatch):
    with pytest.raises(WorkdirError, match="--track follows training"):
        launch(linear(), NAME, str(tmp_path / "run"), "eval", track="wandb")
    monkeypatch.setattr(wandb, "init", lambda id: 1 / 0)
    with pytest.raises(ConfigError, match="--track=wandb could not begin"):
        launch(linear(), NAME, str(tmp_path / "refused"), track="wandb")
    assert not (tmp_path / "refused" / services.FILE).exists()
    monkeypatch.setattr(launches.Run, "build", lambda self: pytest.fail("built"))
    for module in (None, SimpleNamespace()):  # a folder of that name is a module, too
        monkeypatch.setitem(sys.modules, "wandb", module)
        with pytest.raises(ConfigError, match=r"--track=wandb needs the package wandb.*pip"):
            launch(linear(), NAME, str(tmp_path / "run"), track="wandb")
    with pytest.raises(ConfigError, match="track must be one of wandb, trackio, got 'os'"):
        launch(linear(), NAME, str(tmp_path / "run"), track="os")
    assert not (tmp_path / "run").exists()


def test_only_process_0_needs_the_service(tmp_path, monkeypatch):
    """The others neither import it nor write."""
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setattr(training, "on_first", lambda make: None)
    monkeypatch.setattr(launches.Run, "open", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        launch(linear(), NAME, str(tmp_path / "run"), track="wandb")
    services.ServiceWriter("wandb", tmp_path, {}, 0).close()


@pytest.mark.slow
def test_trackio_keeps_a_run_in_its_local_mode(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    trackio = pytest.importorskip("trackio")
    folder = tmp_path / "run"
    launch(linear(), NAME, str(folder), track="trackio")
    picture(folder, "samples_000011")
    fields = {"seed": 0, "model.hidden": [1], "loss.breaks_at": None}
    writer = services.ServiceWriter("trackio", folder, fields, 0)
    writer.start(STEPS)
    writer.write(STEPS, {"loss": 0.0})  # sent before
    writer.write(STEPS + 1, {"loss": 2.5})
    writer.close()
    (run,) = trackio.Api().runs("ebmjax")
    assert run.name == json.loads((folder / services.FILE).read_text())["trackio"]
    assert run.config["model.hidden"] == [1]
    with contextlib.closing(sqlite3.connect(tmp_path / "trackio" / "ebmjax.db")) as kept:
        steps = [step for (step,) in kept.execute("select step from metrics order by id")]
    assert steps == list(range(STEPS + 2))
    assert len(list((tmp_path / "trackio").rglob("*.png"))) == 1


def test_tensorboard_gets_pictures_and_hyperparameters(tmp_path):
    picture(tmp_path, "samples_000007")
    fields = {"seed": 3, "sampler.names": ["sgld"], "model.hidden": None, "loss.name": "cd"}
    writer = tracking.TensorBoardWriter(tmp_path, fields)
    writer.start(0)
    writer.write(6, {"loss": 1.0})
    writer.write(7, {"loss": 1.0})
    writer.close()
    values = [(e.step, v) for e in tensorboard_events(tmp_path) for v in e.summary.value]
    ((step, one),) = [(step, v) for step, v in values if v.HasField("image")]
    assert (step, one.tag, one.image.height, one.image.width) == (7, "samples", 3, 4)
    plugins = {v.tag: v.metadata.plugin_data for _, v in values if v.tag.startswith("_hparams_")}
    assert {data.plugin_name for data in plugins.values()} == {"hparams"}
    started = plugins["_hparams_/session_start_info"].content
    for text in (b"seed", b"sampler.names", b'["sgld"]', b"loss.name", b"cd"):
        assert text in started
    assert b"sample_fid" in plugins["_hparams_/experiment"].content
