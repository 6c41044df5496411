"""The best state of a run, and the state of another run that a run begins from."""

import json
import math
import shutil

import jax.numpy as jnp
import optax
import pytest
from experiment_runs import (
    build_experiment,
    contents,
    launch,
    report_of,
    rows_of,
    summary_of,
)
from linear_family import NAME, STEPS, accuracy, linear
from test_configs import MODULES

from ebmjax import training
from ebmjax.recipes.config.errors import ConfigError, WorkdirError
from ebmjax.recipes.folder import run_folder
from ebmjax.recipes.run.states import keep_best

CHOSEN = {"train.keep_best": "test_accuracy"}
BEST = CHOSEN | {"evals.checkpoint": "best"}


def state_of(value):
    return training.init_state({"weight": jnp.full(2, value)}, optax.sgd(0.1))


def weight_of(folder):
    """The weight of the one checkpoint in ``folder``, read without the monitor."""
    with training.Checkpoints(folder, is_read_only=True) as kept:
        leaves, _ = kept.read_latest()
    return leaves[".params['weight']"]


def kept_of(folder, values, name="test_accuracy", first=0):
    """The weight that is kept when monitoring at steps first, first + 1, ... gives ``values``."""
    keep = keep_best(lambda state, step: {name: values[step]}, folder, name, {})
    for step in range(first, len(values)):
        keep(state_of(float(step)), step)
    return float(weight_of(folder)[0])


@pytest.mark.parametrize(
    ("name", "values", "step"),
    [
        ("test_accuracy", [0.99, 0.1, 0.7, 0.6], 2),  # none of before training
        ("test_accuracy", [0.0, 0.7, 0.7, 0.6], 1),  # the first of equals
        ("test_accuracy", [0.0, math.nan, 0.2, math.inf], 2),
        ("test_nll", [0.0, 2.0, 0.5, 0.7, math.nan], 2),
        ("sample_kid", [0.0, 0.2, -0.1, 0.1], 2),  # below 0 where it is nothing but noise
    ],
)
def test_the_best_by_the_number_is_kept(name, values, step, tmp_path):
    assert kept_of(tmp_path / "best", values, name) == step


def test_an_interrupted_run_goes_on_from_the_best_before(tmp_path):
    best, values = tmp_path / "best", [0.0, 0.8, 0.5, 0.7, 0.9]
    assert kept_of(best, values[:3]) == 1
    assert kept_of(best, values[:4], first=2) == 1
    assert kept_of(best, values, first=3) == 4
    assert len(list(best.iterdir())) == 1


def test_a_state_of_steps_that_come_again_does_not_count(tmp_path):
    """It is of a trajectory that was lost: on other devices, or from another start."""
    best = tmp_path / "best"
    assert kept_of(best, [0.0, 0.5, 0.9, 0.6]) == 2
    # The step itself, less good, and then a better one.
    assert kept_of(best, [0.0, 0.5, 0.8, 0.85], first=2) == 3
    assert kept_of(best, [0.0, 0.4, 0.3, 0.2]) == 1  # from the beginning


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run whose best state is evaluated on the test split as soon as it has trained."""
    folder = tmp_path_factory.mktemp("best") / "run"
    launch(linear(**BEST | {"evals.use_test_split": True}), NAME, str(folder), "all")
    return folder


def best_row(folder):
    rows = [row for row in rows_of(folder) if row["step"] > 0 and "test_accuracy" in row]
    return max(rows, key=lambda row: row["test_accuracy"])


def test_the_best_state_is_evaluated_on_the_test_split(run):
    report, row = report_of(run), best_row(run)
    assert report["step"] == row["step"] < STEPS
    assert report["split"] == "test"
    assert report["accuracy"] == pytest.approx(accuracy(weight_of(run / "best"), "test"))
    assert row["test_accuracy"] == pytest.approx(accuracy(weight_of(run / "best")))


def test_another_evaluation_may_take_the_newest_state_and_the_held_out_images(run):
    launch(linear(**CHOSEN), NAME, str(run), "eval")
    report, row = report_of(run), rows_of(run)[-1]
    assert (report["step"], report["split"]) == (row["step"], "validation")
    assert report["accuracy"] == pytest.approx(row["test_accuracy"])


def test_of_a_run_that_diverged_the_best_state_is_evaluated(run, tmp_path):
    """Evaluates the best state from before the run diverged."""
    folder = shutil.copytree(run, tmp_path / "run")
    first, *later = sorted((folder / "checkpoints").iterdir(), key=lambda path: int(path.name))
    for path in later:
        shutil.rmtree(path)
    state, about = (
        build_experiment(linear(), folder).state,
        {"config": run_folder.as_json(linear(**BEST))},
    )
    with training.Checkpoints(folder / "checkpoints", about=about) as checkpoints:
        state, meta = checkpoints.restore_latest(state)
        step, many = int(first.name) + 1, jnp.int32(linear().train.max_consecutive_skips)
        state = state._replace(step=jnp.int32(step), consecutive_skipped=many)
        checkpoints.save(step, state, meta | {"is_diverged": True})
    (folder / "evaluation.json").unlink()
    with pytest.raises(
        WorkdirError, match=r"diverged.*only if you name it.*--config.evals.checkpoint=best"
    ):
        launch(linear(**CHOSEN), NAME, str(folder), "eval")
    launch(linear(**BEST), NAME, str(folder), "eval")
    assert report_of(folder)["step"] == best_row(run)["step"]


def test_a_damaged_best_state_says_what_to_do(run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    (step,) = (folder / "best").iterdir()
    shutil.rmtree(step / "meta")
    with pytest.raises(training.CheckpointDamagedError, match=r"/best could .*that folder away"):
        launch(linear(**BEST), NAME, str(folder), "eval")


def start(folder, other, **overrides):
    return launch(linear(**{"train.start_from": str(other), **overrides}), NAME, str(folder))


def test_a_run_starts_as_good_as_the_other_ended(finished, tmp_path, capsys):
    """Its first monitored row is the other's last, number by number: the seed is the same."""
    before = contents(finished)
    assert start(tmp_path / "second", finished) is None
    first, last = rows_of(tmp_path / "second")[0], rows_of(finished)[-1]
    assert first["test_accuracy"] == last["test_accuracy"]
    said = f"Starts from step {last['step']} of {finished}: params, seen; anew: optimizer\n"
    assert said in capsys.readouterr().out
    assert contents(finished) == before


@pytest.mark.parametrize(
    ("name", "taken"),
    [("jem_digits.py", ["buffer"]), ("igebm_digits.py", ["buffer"]), ("thermo_digits.py", [])],
)
def test_every_family_says_what_it_takes_beside_parameters(name, taken, tmp_path):
    experiment = build_experiment(MODULES[name].get_config("smoke"), tmp_path)
    trained = experiment.state._replace(step=jnp.int32(3))
    with training.Checkpoints(tmp_path / "checkpoints") as checkpoints:
        checkpoints.save(3, trained, {})
    found = experiment.warm_start(tmp_path / "checkpoints")
    assert (found.step, [*found.taken], [*found.anew]) == (3, taken, [])


def test_a_run_killed_before_its_first_checkpoint_starts_from_the_other_again(finished, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    start(whole, finished)
    shutil.copytree(whole, killed)
    shutil.rmtree(killed / "checkpoints")
    (killed / "summary.json").unlink()
    rows = killed / "metrics.jsonl"  # the first checkpoint is due at step 2
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:2]))
    start(killed, finished)
    assert summary_of(whole)["params_sha256"] == summary_of(killed)["params_sha256"]


def test_what_is_no_run_is_refused_before_anything_is_written(finished, tmp_path, capsys):
    folder, empty, unsaved = (tmp_path / name for name in ("second", "empty", "unsaved"))
    empty.mkdir()
    unsaved.mkdir()
    shutil.copy(finished / "config.json", unsaved)
    begun = tmp_path / "begun"  # and killed before its first checkpoint
    run_folder.prepare(begun, linear(**{"train.start_from": str(begun)}))
    for other in (empty, tmp_path / "nowhere", unsaved):
        with pytest.raises(ConfigError, match="start_from"):
            start(folder, other)
    with pytest.raises(ConfigError, match="holds no checkpoint to start from"):
        start(begun, begun)
    with pytest.raises(ConfigError, match=r"of another network: \.params"):
        start(folder, finished, **{"model.hidden": (2,)})
    assert not folder.exists()
    assert f"-> {folder}" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("held_out", "theirs", "name", "is_refused"),
    [
        (4, 0, "points", True),
        (4, 4, "points", False),
        (0, 4, "points", False),
        (4, 0, "npz", False),  # other data
    ],
)
def test_images_held_out_must_have_been_held_out_before(
    held_out, theirs, name, is_refused, finished, tmp_path
):
    other = shutil.copytree(finished, tmp_path / "other")
    for step in (other / "checkpoints").iterdir():  # they name the configuration, too
        shutil.rmtree(step)
    config = linear(**{"data.name": name, "data.holdout": theirs})
    (other / "config.json").write_text(json.dumps(run_folder.as_json(config)))
    refusal = "may have learnt from images" if is_refused else "holds no checkpoint to start from"
    with pytest.raises(ConfigError, match=refusal):
        start(tmp_path / "new", other, **{"data.holdout": held_out})
