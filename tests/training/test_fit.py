"""The training loop: rows, blocks, streams, what ends it and what is skipped."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from training_problems import ListWriter, chains, regression, regression_gradient

from ebmjax.data import batch_indices
from ebmjax.training import (
    Checkpoints,
    DivergenceError,
    Plan,
    check_fits,
    fit,
    init_state,
    make_train_step,
    tree_digest,
)
from ebmjax.training._stops import CAUSES, SkipWatch

KEY = jax.random.key(1)
EPS = np.finfo(np.float32).eps


def make_plan(**changes):
    return Plan(**({"total_steps": 23, "batch_size": 16, "steps_per_dispatch": 5} | changes))


def run(plan, problem=regression, **options):
    state, train_step, data = problem()
    writer = ListWriter()
    return fit(KEY, state, train_step, data, plan, writers=[writer], **options), writer


def test_rows_hold_what_the_step_reports():
    # One step after the other, by hand and without fit; each has a key of its own.
    def gradient_fn(key, *arguments):
        gradients, carry, metrics = regression_gradient(key, *arguments)
        return gradients, carry, {**metrics, "draw": jax.random.uniform(key)}

    plan = make_plan(total_steps=6)
    _, writer = run(plan, lambda: regression(gradient_fn=gradient_fn))
    state, _, data = regression()
    train_step = jax.jit(regression(gradient_fn=gradient_fn, axis_name=None)[1])
    for i in range(6):
        picked = batch_indices(plan.data_seed, i, num_examples=96, batch_size=16)
        batch = jax.tree.map(lambda a, picked=picked: a[None, picked], data)
        state, metrics = train_step(jax.random.fold_in(KEY, i), state, batch)
        step, row = writer.rows[i]
        assert step == i + 1
        for name, value in metrics.items():
            # Means of 16 terms of one sign, fused otherwise, and 6 steps that contract.
            np.testing.assert_allclose(row[name], value, rtol=6 * 16 * EPS, err_msg=name)
    assert len({row["draw"] for _, row in writer.rows}) == 6


def test_streams_are_independent_orders_of_the_same_examples():
    def gradient_fn(key, params, carry, batch):
        return params, carry, {"loss": jnp.zeros(()), "first": batch[0], "second": batch[1]}

    plan = make_plan(total_steps=12, batch_size=(16, 8), num_shards=2)
    optimizer = optax.sgd(0.0)
    step = make_train_step(gradient_fn, optimizer)
    writer = ListWriter()
    state = init_state({"unused": jnp.zeros(())}, optimizer)
    fit(KEY, state, step, np.arange(96.0, dtype=np.float32), plan, writers=[writer])
    for i, (_, row) in enumerate(writer.rows):
        # The mean over two shards of what each saw, (examples of a shard,).
        for name, seed, size in (("first", 0, 16), ("second", 2**32, 8)):
            picked = batch_indices(seed, i, num_examples=96, batch_size=size)
            np.testing.assert_array_equal(row[name], picked.reshape(2, -1).mean(0))


def test_monitored_rows_join_the_rows_of_their_steps():
    monitored = []

    def monitor(state, step):
        assert int(state.step) == step
        monitored.append(step)
        return {"device": jnp.float32(step), "vector": jnp.arange(2), "host": np.float64(0.5)}

    plan = make_plan(log_every=4, monitor_every=10)
    result, writer = run(plan, monitor=monitor)
    assert monitored == [0, 10, 20, 23]
    assert [s for s, _ in writer.rows] == [0, 4, 8, 10, 12, 16, 20, 23]
    for step, row in writer.rows:
        assert ("loss" in row) == (step > 0)
        assert ("device" in row) == (step in monitored)
        if step in monitored:
            assert (row["device"], row["vector"], row["host"]) == (step, [0, 1], 0.5)
            assert {type(row[n]) for n in ("device", "host")} == {float}
    assert result.row["device"] == 23


def test_rows_come_one_block_late():
    written = {}
    writer = ListWriter()

    def monitor(state, step):
        written[step] = len(writer.rows)
        return {}

    state, train_step, data = regression()
    plan = make_plan(total_steps=20, monitor_every=5)
    fit(KEY, state, train_step, data, plan, writers=[writer], monitor=monitor)
    # After a block is dispatched, the rows of the one before it are written; one row is that of
    # step 0.
    assert written == {0: 0, 5: 1, 10: 6, 15: 11, 20: 16}
    assert len(writer.rows) == 21


@pytest.mark.slow
@pytest.mark.parametrize("problem", [regression, chains])
def test_dispatches_of_any_length_take_the_same_steps(problem):
    num_shards = 8 if problem is chains else 1
    results = [
        run(make_plan(steps_per_dispatch=n, num_shards=num_shards), problem)[0] for n in (1, 5, 23)
    ]
    for result in results[1:]:
        # The same arithmetic, perhaps fused otherwise: as in test_devices, at most 8 roundings a
        # step of Adam's updates, of up to 0.1; a chain is ten times as sensitive.
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=23 * 0.1 * 8 * EPS * 10),
            (result.state.params, result.state.carry),
            (results[0].state.params, results[0].state.carry),
        )


def diverging_gradient(first_bad):
    """Finite up to the ``first_bad``-th step; params count the finite ones."""

    def gradient_fn(key, params, carry, batch):
        gradients, carry, metrics = regression_gradient(key, params, carry, batch)
        is_bad = carry >= first_bad
        metrics["loss"] = jnp.where(is_bad, jnp.nan, metrics["loss"])
        return gradients, carry + 1.0, metrics

    return gradient_fn


def diverging(first_bad=7.0):
    """The regression, with a loss that is NaN for good from step ``first_bad + 1`` on."""
    state, train_step, data = regression(gradient_fn=diverging_gradient(first_bad))
    return state._replace(carry=jnp.zeros(1)), train_step, data


@pytest.mark.parametrize("checkpoint_every", [0, 5])
@pytest.mark.parametrize("total_steps", [100, 19])
def test_a_diverged_run_says_so_and_keeps_what_was_finite(tmp_path, checkpoint_every, total_steps):
    state, train_step, data = diverging()
    plan = make_plan(
        total_steps=total_steps, max_consecutive_skips=12, checkpoint_every=checkpoint_every
    )
    writer = ListWriter()

    def sitting():
        checkpoints = Checkpoints(tmp_path)
        return fit(KEY, state, train_step, data, plan, checkpoints=checkpoints, writers=[writer])

    with pytest.raises(DivergenceError, match="the last 12 steps, up to step 19") as error:
        sitting()
    assert "Since step 8: the loss was not finite." in str(error.value)
    # Every step up to the end of the block in which, or at most one after which, it was noticed.
    steps = [step for step, _ in writer.rows]
    assert steps == list(range(1, len(steps) + 1))
    assert 19 <= len(steps) <= 25
    assert [row["skipped"] for _, row in writer.rows[:19]] == [0] * 7 + list(range(1, 13))

    seven, _ = run(make_plan(total_steps=7, steps_per_dispatch=7))
    with Checkpoints(tmp_path) as checkpoints:
        kept, _ = checkpoints.restore_latest(state)
    assert int(kept.step) == len(steps)
    np.testing.assert_allclose(kept.params["weight"], seven.state.params["weight"], rtol=64 * EPS)

    with pytest.raises(DivergenceError, match=f"up to step {len(steps)}") as again:
        sitting()  # and stays diverged
    for one in (error.value, again.value):
        assert (one.first_skipped, one.reason) == (8, "the loss was not finite")
        assert one.signum is None
    assert [step for step, _ in writer.rows] == steps
    assert writer.starts == [0, len(steps)]


def test_what_does_not_fit_is_found_without_running():
    state, train_step, data = regression()
    before = tree_digest(state)
    check_fits(KEY, state, train_step, data, make_plan())
    assert tree_digest(state) == before  # nothing was donated either
    with pytest.raises(ValueError, match="batch_size=97 with num_examples=96"):
        check_fits(KEY, state, train_step, data, make_plan(batch_size=97))
    with pytest.raises(TypeError, match="contracting dimensions"):
        check_fits(KEY, state, train_step, {**data, "x": data["x"][:, :2]}, make_plan())


def test_what_was_looked_at_before_is_not_traced_again():
    """Tracing a large model takes seconds, and a run waits for it."""
    state, train_step, data = regression()
    num_traces = 0

    def counted(*arguments):
        nonlocal num_traces
        num_traces += 1
        return train_step(*arguments)

    plan = make_plan(total_steps=20)  # four blocks of one length
    check_fits(KEY, state, counted, data, plan)
    fit(KEY, state, counted, data, plan)
    assert num_traces == 1


def test_every_run_reads_anew_what_its_step_reads():
    """A number that is bound anew between two runs of one step, as in a notebook."""
    scale = 1.0

    def scaled(*arguments):
        gradients, carry, metrics = regression_gradient(*arguments)
        return gradients, carry, {**metrics, "scale": jnp.asarray(scale)}

    state, train_step, data = regression(gradient_fn=scaled)
    for scale in (1.0, 3.0):
        assert fit(KEY, state, train_step, data, make_plan(total_steps=5)).row["scale"] == scale


def row(cause=0, consecutive=0, skipped=0):
    return {"skip_cause": cause, "consecutive_skipped": consecutive, "skipped": skipped}


@pytest.mark.parametrize("cause", CAUSES)
def test_a_divergence_says_what_was_not_finite_and_since_when(cause):
    watch = SkipWatch(3, 10, 0, 0)
    watch(11, row())
    watch(12, row(cause, consecutive=1))
    watch(13, row(3, consecutive=2))  # what came first is told
    assert watch.divergence is None
    watch(14, row(3, consecutive=3))
    assert (watch.divergence.step, watch.divergence.first_skipped) == (14, 12)
    assert f"Since step 12: {CAUSES[cause]}." in str(watch.divergence)
