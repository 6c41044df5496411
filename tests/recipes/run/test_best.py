"""The best state of a run: which one is kept, what is evaluated of it, and what is refused."""

import math
import shutil

import jax.numpy as jnp
import optax
import pytest
from experiment_runs import build_experiment, launch, strict_json
from linear_family import NAME, STEPS, accuracy, linear

from ebmjax import training
from ebmjax.recipes.config import checks
from ebmjax.recipes.config.errors import ConfigError, WorkdirError
from ebmjax.recipes.folder import run_folder
from ebmjax.recipes.folder.workdir import read_rows
from ebmjax.recipes.run import best

CHOSEN = {"train.keep_best": "test_accuracy"}
BEST = CHOSEN | {"evals.checkpoint": "best"}


def state_of(value):
    return training.init_state({"weight": jnp.full(2, value)}, optax.sgd(0.1))


def kept_of(folder, values, name="test_accuracy", first=0):
    """The weight that is kept when monitoring at steps first, first + 1, ... gives ``values``."""
    keep = best.KeepBest(lambda state, step: {name: values[step]}, folder, name, state_of(0.0))
    for step in range(first, len(values)):
        keep(state_of(float(step)), step)
    return float(best.restore(folder, state_of(0.0)).params["weight"][0])


@pytest.mark.parametrize(
    ("name", "values", "step"),
    [
        ("test_accuracy", [0.99, 0.1, 0.7, 0.6], 2),  # none of before training
        ("test_accuracy", [0.0, 0.7, 0.7, 0.6], 1),  # the first of equals
        ("test_accuracy", [0.0, math.nan, 0.2, math.inf], 2),
        ("test_nll", [0.0, 2.0, 0.5, 0.7, math.nan], 2),
        ("test_brier", [0.0, 0.7, 0.2, 0.4], 2),
        ("test_ece", [0.0, 0.3, 0.1, 0.2], 2),
        ("sample_fid", [0.0, 30.0, 20.0, 10.0], 3),
        ("sample_kid", [0.0, 0.2, -0.1, 0.1], 2),  # below 0 where it is nothing but noise
        ("sample_is", [9.0, 2.0, 5.0, 3.0], 2),
    ],
)
def test_the_best_by_the_number_is_kept(name, values, step, tmp_path):
    assert kept_of(tmp_path, values, name) == step


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("test_accuracy", [0.0, 0.8, 0.5, 0.7, 0.9]),
        ("sample_fid", [0.0, 20.0, 30.0, 25.0, 10.0]),
    ],
)
def test_an_interrupted_run_goes_on_from_the_best_before(name, values, tmp_path):
    assert kept_of(tmp_path, values[:3], name) == 1
    assert kept_of(tmp_path, values[:4], name, first=2) == 1
    assert kept_of(tmp_path, values, name, first=3) == 4
    assert len(list((tmp_path / "best").iterdir())) == 1


def test_a_state_of_steps_that_come_again_does_not_count(tmp_path):
    """It is of a trajectory that was lost: on other devices, or from another start."""
    assert kept_of(tmp_path, [0.0, 0.5, 0.9, 0.6]) == 2
    # The step itself, less good, and then a better one.
    assert kept_of(tmp_path, [0.0, 0.5, 0.8, 0.85], first=2) == 3
    assert kept_of(tmp_path, [0.0, 0.4, 0.3, 0.2]) == 1  # from the beginning


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({"data.holdout": 0}, r"by the images that it is judged by: .*holdout=0\.2"),
        ({"train.keep_best": "loss"}, "config.train.keep_best must be one of"),
        ({"train.keep_best": "", "evals.checkpoint": "best"}, "config.evals.checkpoint='best'"),
    ],
)
def test_choices_that_cannot_be_made(overrides, expected):
    with pytest.raises(ConfigError, match=expected):
        checks.check_kept(linear(**CHOSEN | overrides), checks.IS_HIGHER_BETTER)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run whose best state is evaluated on the test split as soon as it has trained."""
    folder = tmp_path_factory.mktemp("best") / "run"
    launch(linear(**BEST | {"evals.use_test_split": True}), NAME, str(folder), "all")
    return folder


def best_row(folder):
    rows = [row for row in read_rows(folder) if row["step"] > 0 and "test_accuracy" in row]
    return max(rows, key=lambda row: row["test_accuracy"])


def report_of(folder):
    return strict_json((folder / "evaluation.json").read_text())


def kept_weight(folder):
    """Tests the checkpoint in ``best/`` without the monitor."""
    with training.Checkpoints(folder / "best") as kept:
        leaves, _ = kept.read_latest()
    return leaves[".params['weight']"]


def test_the_best_state_is_evaluated_on_the_test_split(run):
    report, row = report_of(run), best_row(run)
    assert report["step"] == row["step"] < STEPS
    assert report["split"] == "test"
    assert report["accuracy"] == pytest.approx(accuracy(kept_weight(run), "test"))
    assert row["test_accuracy"] == pytest.approx(accuracy(kept_weight(run)))


def test_another_evaluation_may_take_the_newest_state_and_the_held_out_images(run):
    launch(linear(**CHOSEN), NAME, str(run), "eval")
    report, row = report_of(run), read_rows(run)[-1]
    assert (report["step"], report["split"]) == (row["step"], "validation")
    assert report["accuracy"] == pytest.approx(row["test_accuracy"])


def ended(run, folder, diverged):
    """A copy of the run that has stopped in its middle, or that diverged there."""
    shutil.copytree(run, folder)
    first, *later = sorted((folder / "checkpoints").iterdir(), key=lambda path: int(path.name))
    for path in later:
        shutil.rmtree(path)
    if diverged:
        state = build_experiment(linear(), folder).state
        about = run_folder.identity(linear(**BEST))
        with training.Checkpoints(folder / "checkpoints", about=about) as checkpoints:
            state, meta = checkpoints.restore_latest(state)
            step = int(first.name) + 1
            many = jnp.int32(linear().train.max_consecutive_skips)
            state = state._replace(step=jnp.int32(step), consecutive_skipped=many)
            checkpoints.save(step, state, meta | {"is_diverged": True})
    (folder / "evaluation.json").unlink()


def test_of_a_run_that_diverged_the_best_state_is_evaluated(run, tmp_path):
    """Evaluates the best state from before the run diverged."""
    folder = tmp_path / "run"
    ended(run, folder, diverged=True)
    with pytest.raises(
        WorkdirError, match=r"diverged.*only if you name it.*--config.evals.checkpoint=best"
    ):
        launch(linear(**CHOSEN), NAME, str(folder), "eval")
    launch(linear(**BEST), NAME, str(folder), "eval")
    assert report_of(folder)["step"] == best_row(run)["step"]


@pytest.mark.parametrize("chosen", [CHOSEN, BEST], ids=["newest", "best"])
def test_an_unfinished_run_is_evaluated_and_is_said_to_be_one(chosen, run, tmp_path, capsys):
    folder = tmp_path / "run"
    ended(run, folder, diverged=False)
    launch(linear(**chosen), NAME, str(folder), "eval")
    first, *_ = capsys.readouterr().out.splitlines()
    steps = {"newest": "step 6 of 10", "best": "the best state, of step 4 of 10"}
    assert first == f"unfinished: {steps[linear(**chosen).evals.checkpoint]}"
    assert report_of(folder)["is_finished"] is False
    assert report_of(run)["is_finished"] is True


def test_a_damaged_best_state_says_what_to_do(run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    (step,) = (folder / "best").iterdir()
    shutil.rmtree(step / "meta")
    with pytest.raises(WorkdirError, match=r"/best holds a best state that cannot be .*Delete"):
        launch(linear(**BEST), NAME, str(folder), "eval")


def test_a_start_that_has_seen_the_held_out_images_is_refused(run, tmp_path):
    start = CHOSEN | {"train.start_from": str(run)}
    with pytest.raises(ConfigError, match="images that the run in"):
        launch(linear(**start, **{"data.holdout": 5}), NAME, str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()
    assert launch(linear(**start), NAME, str(tmp_path / "run")) is None
