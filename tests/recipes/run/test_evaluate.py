"""The state that a reader of a run takes, and what is said of it."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import optax
import pytest
from experiment_runs import contents, damage, digits

from ebmjax import training
from ebmjax.recipes.config.errors import WorkdirError
from ebmjax.recipes.folder.run_folder import as_json, find_saved
from ebmjax.recipes.run.run import Run

TOTAL = 40

DATA = {"x": np.arange(3.0)}


def state_of(step):
    """A state whose weights are its step."""
    state = training.init_state({"weight": jnp.full(2, float(step))}, optax.sgd(0.1))
    return state._replace(step=jnp.int32(step))


def saved(folder, step, is_diverged=False):
    """Saves the checkpoint of a run that has come to ``step``."""
    meta = {"data": training.digest_data(DATA), "total_steps": TOTAL, "is_diverged": is_diverged}
    with training.Checkpoints(
        folder / "checkpoints", about={"config": as_json(digits())}
    ) as checkpoints:
        checkpoints.save(step, state_of(step), meta)


def restored(folder, asked=None, data=DATA):
    """The weight of the state that is used, what is said of it, and whether it is the outcome."""
    run = Run(digits(), folder)
    run.experiment = SimpleNamespace(state=state_of(0), data=data)
    state, used = run.open(asked)
    assert int(state.step) == used.step == float(state.params["weight"][0])
    return used.step, str(find_saved(folder, digits(), asked)), used.is_end


@pytest.mark.parametrize(("newest", "kind"), [(TOTAL, "finished"), (20, "unfinished")])
def test_a_run_is_taken_at_its_end_or_at_a_saved_step_and_said_to_be_one(newest, kind, tmp_path):
    for step in (10, newest):
        saved(tmp_path, step)
    assert restored(tmp_path) == (newest, f"{kind}: step {newest} of 40", newest == TOTAL)
    assert restored(tmp_path, 10) == (10, f"{kind}: step 10 of 40", False)


def test_a_step_that_was_not_saved_names_those_that_were(tmp_path):
    for step in (10, 20):
        saved(tmp_path, step)
    with pytest.raises(WorkdirError, match=r"no checkpoint of step 15\. It has .* steps 10, 20\."):
        find_saved(tmp_path, digits(), 15)
    with pytest.raises(WorkdirError, match=r"holds no best state"):
        find_saved(tmp_path, digits(**{"evals.checkpoint": "best"}))
    assert find_saved(tmp_path, digits(**{"evals.checkpoint": "best"}), 10).step == 10


def test_a_run_that_diverged_is_taken_only_at_a_step_that_is_named(tmp_path):
    saved(tmp_path, 10)
    saved(tmp_path, 19, is_diverged=True)
    with pytest.raises(
        WorkdirError, match=r"diverged, by step 19 of 40\. .* --step= one of 10, 19"
    ):
        restored(tmp_path)
    assert restored(tmp_path, 10) == (10, "diverged at step 19: step 10 of 40", False)


def test_a_damaged_newest_checkpoint_is_passed_over_unless_it_is_named(tmp_path, capsys):
    for step in (10, 20, TOTAL):
        saved(tmp_path, step)
    newest = tmp_path / "checkpoints" / str(TOTAL)
    damage(newest)
    before = contents(tmp_path)
    assert restored(tmp_path) == (20, "finished: step 40 of 40", False)
    assert "checkpoint 40 is damaged; step 20 is used" in capsys.readouterr().out
    with pytest.raises(training.CheckpointDamagedError, match=r"Checkpoint 40 .*read back"):
        restored(tmp_path, TOTAL)
    assert contents(tmp_path) == before
    (newest / "meta" / "metadata").unlink()
    assert restored(tmp_path) == (20, "unfinished: step 20 of 40", False)


def test_a_run_on_other_data_is_not_evaluated(tmp_path):
    """Its distances would be from data that it has not seen."""
    saved(tmp_path, TOTAL)
    with pytest.raises(training.CheckpointMismatchError, match=r"data\['x'\] was float64\(3,"):
        restored(tmp_path, data={"x": np.arange(4.0)})
