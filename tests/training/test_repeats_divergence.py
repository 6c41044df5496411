"""A repeat that diverges stops no other: on parameters that count their finite steps."""

import jax.numpy as jnp
import numpy as np
import optax
from repeated_problem import NUM_STEPS, keys, make_plan
from training_problems import ListWriter, chains_data

from ebmjax._records import list_steps, read_record
from ebmjax.training import (
    Checkpoints,
    DivergenceError,
    fit,
    init_state,
    make_train_step,
    stack_states,
)


def diverging(first_bad):
    """One repeat for each entry: its loss is NaN from that step (from 0) on."""

    def gradient_fn(key, params, carry, batch):
        loss = jnp.where(carry["steps"] >= carry["first_bad"], jnp.nan, 1.0)
        return -jnp.ones(()), {**carry, "steps": carry["steps"] + 1.0}, {"loss": loss}

    optimizer = optax.sgd(1.0)
    states = [
        init_state(jnp.zeros(()), optimizer, {"steps": jnp.zeros(1), "first_bad": jnp.full(1, bad)})
        for bad in first_bad
    ]
    return stack_states(states), make_train_step(gradient_fn, optimizer)


def fit_diverging(first_bad, **options):
    state, train_step = diverging(first_bad)
    writer = ListWriter()
    plan = make_plan(num_shards=1, max_consecutive_skips=6)
    try:
        result = fit(keys(), state, train_step, chains_data(), plan, writers=[writer], **options)
    except DivergenceError as error:
        return error, writer
    return result, writer


def test_a_repeat_that_diverges_stops_no_other(tmp_path):
    result, writer = fit_diverging((4.0, 100.0, 19.0), checkpoints=Checkpoints(tmp_path))
    np.testing.assert_array_equal(result.state.params, [4.0, NUM_STEPS, 19.0])
    np.testing.assert_array_equal(result.state.skipped, [19, 0, 4])
    np.testing.assert_array_equal(result.state.consecutive_skipped, [19, 0, 4])
    assert read_record(tmp_path, NUM_STEPS)["user"]["is_diverged"] is False
    assert [row["consecutive_skipped"] for _, row in writer.rows][4:7] == [
        [1, 0, 0],
        [2, 0, 0],
        [3, 0, 0],
    ]


def test_a_run_ends_when_every_repeat_is_stuck(tmp_path):
    first_bad = (4.0, 9.0, 2.0)
    # The second repeat is the last to skip six steps in a row, at the 15th.
    error, writer = fit_diverging(first_bad, checkpoints=Checkpoints(tmp_path))
    assert isinstance(error, DivergenceError)
    assert "the last 6 steps, up to step 15, had no finite update in any of the 3" in str(error)
    assert writer.rows[14][1]["consecutive_skipped"] == [11, 6, 13]
    with Checkpoints(tmp_path) as checkpoints:
        state, _ = checkpoints.restore_latest(diverging(first_bad)[0])
    np.testing.assert_array_equal(state.params, first_bad)
    about = [read_record(tmp_path, step)["user"] for step in list_steps(tmp_path)]
    assert [one["is_diverged"] for one in about] == [False] * (len(about) - 1) + [True]
    assert {one["total_steps"] for one in about} == {NUM_STEPS}
    again, _ = fit_diverging(first_bad, checkpoints=Checkpoints(tmp_path))  # and stays diverged
    assert isinstance(again, DivergenceError)
