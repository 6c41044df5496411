"""Runs that begin where another one ended, ``config.train.start_from``."""

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
from ebmjax.recipes.run.run import Run
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
    ("ours", "theirs", "is_refused"),
    [
        ((1940, 200), (1440, 0), True),  # 200 of the 1440 that there are
        ((1440, 200), (1440, 100), True),
        ((1440, 200), (1440, 200), False),
        ((1940, 200), (1940, 200), False),
        ((1500, 200), (1940, 200), False),
        ((1940, 200), (1940, 199), True),
        ((1440, 0.1), (1440, 144), False),
        ((1440, 144), (1440, 0.09), True),
        ((1000, 100), (900, 90), True),  # other images of each class
        ((1440, 200), (1440, None), True),  # where there is a test split, none
        ((1440, 0), (1440, 0), False),
    ],
)
def test_images_held_out_are_counted_from_those_that_there_are(ours, theirs, is_refused, tmp_path):
    """(max_train, holdout) of two runs on 1440 images."""
    if not is_refused:
        assert started(tmp_path, ours, theirs) == "started"
        return
    with pytest.raises(ConfigError, match=r"holds out images that the run in"):
        started(tmp_path, ours, theirs)


def test_what_a_run_on_other_data_learnt_is_held_out_by_nobody(tmp_path):
    assert started(tmp_path, (1440, 200), (1440, 0), their_data="mnist") == "started"


def started(folder, ours, theirs, their_data="points"):
    """The start of a run on points from another; (max_train, holdout) of both."""
    names = ("data.max_train", "data.holdout")
    other = linear(**{"data.name": their_data, **dict(zip(names, theirs, strict=True))})
    (folder / "config.json").write_text(json.dumps(run_folder.as_json(other)))
    config = linear(**{"train.start_from": str(folder), **dict(zip(names, ours, strict=True))})
    decided = config.copy_and_resolve_references()
    decided.data.max_train = min(ours[0], 1440)
    decided.data.holdout = ours[1] * (decided.data.max_train if ours[1] < 1 else 1)
    run = Run(config, folder / "new")
    run.experiment = SimpleNamespace(config=decided, warm_start=lambda folder: "started")
    return start_from.warm_start(run)
