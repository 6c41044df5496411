"""Runs that begin where another one ended, ``config.train.start_from``."""

import contextlib
import json
import shutil
from types import SimpleNamespace

import jax.numpy as jnp
import pytest
from experiment_runs import build_experiment, contents, launch, rows_of, strict_json, summary_of
from linear_family import NAME, linear
from test_configs import MODULES

from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.folder import run_folder, workdir
from ebmjax.recipes.run import start_from
from ebmjax.training import Checkpoints


def run(folder, other, **overrides):
    return launch(linear(**{"train.start_from": str(other), **overrides}), NAME, str(folder))


def test_a_run_starts_as_good_as_the_other_ended(finished, tmp_path):
    """Its first monitored row is the other's last, number by number: the seed is the same."""
    before = contents(finished)
    folder = tmp_path / "second"
    assert run(folder, finished) is None
    first, last = rows_of(folder)[0], rows_of(finished)[-1]
    assert first["test_accuracy"] == last["test_accuracy"]
    record = strict_json((folder / "started_from.json").read_text())
    assert record["params_sha256"] == summary_of(finished)["params_sha256"]
    assert record["step"] == last["step"]
    assert (record["taken"], record["anew"]) == (["params", "seen"], ["optimizer"])
    assert contents(finished) == before


@pytest.mark.parametrize(
    ("name", "taken"),
    [("jem_digits.py", ["buffer"]), ("igebm_digits.py", ["buffer"]), ("thermo_digits.py", [])],
)
def test_every_family_says_what_it_takes_beside_parameters(name, taken, tmp_path):
    experiment = build_experiment(MODULES[name].get_config("smoke"), tmp_path)
    trained = experiment.state._replace(step=jnp.int32(3))
    with Checkpoints(tmp_path / "checkpoints") as checkpoints:
        checkpoints.save(3, trained, {})
    start = experiment.warm_start(tmp_path / "checkpoints")
    assert (start.step, [*start.taken], [*start.anew]) == (3, taken, [])


def test_a_run_that_has_begun_does_not_need_the_other(finished, tmp_path):
    other, folder = tmp_path / "other", tmp_path / "second"
    shutil.copytree(finished, other)
    run(folder, other)
    shutil.rmtree(other)
    assert run(folder, other) is None


def test_a_run_killed_before_its_first_checkpoint_starts_from_the_other_again(finished, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run(whole, finished)
    shutil.copytree(whole, killed)
    shutil.rmtree(killed / "checkpoints")
    (killed / "summary.json").unlink()
    rows = killed / "metrics.jsonl"  # the first checkpoint is due at step 2
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:2]))
    run(killed, finished)
    assert summary_of(whole)["params_sha256"] == summary_of(killed)["params_sha256"]


def test_what_is_no_run_is_refused_before_anything_is_written(finished, tmp_path):
    folder, empty = tmp_path / "second", tmp_path / "empty"
    empty.mkdir()
    for other in (empty, tmp_path / "nowhere", folder):
        with pytest.raises(ConfigError, match=r"config\.train\.start_from must be the folder of"):
            run(folder, other)
    unsaved = tmp_path / "unsaved"
    unsaved.mkdir()
    shutil.copy(finished / "config.json", unsaved)
    with pytest.raises(ConfigError, match="holds no checkpoint to start from"):
        run(folder, unsaved)
    begun = tmp_path / "begun"  # and killed before its first checkpoint
    workdir.prepare(begun, linear(**{"train.start_from": str(begun)}))
    with pytest.raises(ConfigError, match="must be the folder of another run"):
        run(begun, begun)
    with pytest.raises(ConfigError, match=r"of another network: \.params"):
        run(folder, finished, **{"model.hidden": (2,)})
    assert not folder.exists()


@pytest.mark.parametrize(
    ("ours", "theirs", "name", "is_refused"),
    [
        ((1440, 200), (1440, 0), "points", True),
        ((1440, 200), (1440, 200), "points", False),
        ((1440, 200), (1940, 200), "points", True),
        ((1440, 0), (1440, 0), "points", False),
        ((1440, 200), (1440, 0), "mnist", False),  # other data
    ],
)
def test_images_held_out_must_have_been_held_out_before(ours, theirs, name, is_refused, tmp_path):
    """(max_train, holdout) of two runs."""
    names = ("data.max_train", "data.holdout")
    other = linear(**{"data.name": name, **dict(zip(names, theirs, strict=True))})
    (tmp_path / "config.json").write_text(json.dumps(run_folder.as_json(other)))
    config = linear(**{"train.start_from": str(tmp_path), **dict(zip(names, ours, strict=True))})
    experiment = SimpleNamespace(config=None, warm_start=lambda folder: "started")
    expected = pytest.raises(ConfigError, match="holds out images that the run in")
    with expected if is_refused else contextlib.nullcontext():
        assert start_from.warm_start(config, tmp_path / "new", experiment) == "started"
