"""Which checkpoints --mode=eval takes, and what it says of the others."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import optax
import pytest
from experiment_runs import digits, strict_json

from ebmjax import training
from ebmjax.recipes.core.evaluate import evaluate, restore
from ebmjax.recipes.core.fields import WorkdirError
from ebmjax.recipes.core.workdir import as_json

LIMIT, TOTAL = 12, 40


DATA = {"x": np.arange(3.0)}


def restored(folder, step, skipped, data=DATA):
    """``restore`` of a run whose newest checkpoint is of ``step``; ``skipped`` of each repeat."""
    skipped = jnp.int32(skipped)
    state = training.init_state({"weight": jnp.ones(2)}, optax.sgd(0.1))
    state = state._replace(consecutive_skipped=jnp.zeros_like(skipped))
    saved = state._replace(step=jnp.int32(step), consecutive_skipped=skipped)
    with training.Checkpoints(folder / "checkpoints") as checkpoints:
        checkpoints.save(step, saved, {"data": training.digest_data(DATA)})
    plan = training.Plan(total_steps=TOTAL, batch_size=1, max_consecutive_skips=LIMIT)
    return restore(folder, digits(), SimpleNamespace(state=state, plan=plan, data=data))


def test_a_finished_run_is_taken_even_if_its_last_steps_were_skipped(tmp_path):
    assert int(restored(tmp_path, TOTAL, LIMIT - 1).step) == TOTAL


def test_a_run_on_other_data_is_not_evaluated(tmp_path):
    """Its distances would be from data that it has not seen."""
    with pytest.raises(training.CheckpointMismatchError, match=r"data\['x'\] was float64\(3,"):
        restored(tmp_path, TOTAL, 0, data={"x": np.arange(4.0)})


def test_repeats_are_evaluated_though_one_of_them_diverged(tmp_path):
    assert int(restored(tmp_path, TOTAL, [LIMIT, 0]).step) == TOTAL


def test_a_report_says_of_which_evaluation_it_is(tmp_path):
    config = digits(**{"eval.num_test": 7})
    state = training.init_state({"weight": jnp.ones(2)}, optax.sgd(0.1))
    evaluate(tmp_path, config, SimpleNamespace(evaluate=lambda state: {"answer": 42}), state)
    report = strict_json((tmp_path / "evaluation.json").read_text())
    assert report["eval"] == as_json(config)["eval"]
    assert (report["answer"], report["eval"]["num_test"], report["split"]) == (42, 7, "test")


@pytest.mark.parametrize("step", [19, TOTAL - 1])
def test_an_unfinished_run_is_to_be_continued(step, tmp_path):
    with pytest.raises(WorkdirError, match=rf"of step {step} of 40\. Continue it"):
        restored(tmp_path, step, LIMIT - 1)


@pytest.mark.parametrize("step", [19, TOTAL])
def test_a_run_that_diverged_cannot_be_continued(step, tmp_path):
    message = rf"diverged: the last 12 steps, up to step {step} of 40, .* Train in another workdir"
    with pytest.raises(WorkdirError, match=message) as error:
        restored(tmp_path, step, LIMIT)
    assert "Continue it" not in str(error.value)
