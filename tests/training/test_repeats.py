"""Repeats: every seed of a run of many takes the steps of its own single run."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from repeated_problem import LEARNING_RATE, NUM_STEPS, SEEDS, initial, keys, make_plan
from training_problems import ListWriter, chains, chains_data, read_rows, split_batch

from ebmjax import training
from ebmjax.data import batch_indices
from ebmjax.training._block import make_block
from ebmjax.training._feed import make_gather
from ebmjax.training._sharding import place_state

EPS = np.finfo(np.float32).eps


def train(seeds=SEEDS, plan=None, **options):
    """All ``seeds`` in one run."""
    writer = ListWriter()
    state = training.stack_states([initial(seed) for seed in seeds])
    plan = plan or make_plan(tuple(seeds))
    result = training.fit(
        keys(seeds), state, chains()[1], chains_data(), plan, writers=[writer], **options
    )
    return result, writer


@pytest.fixture(scope="module")
def together():
    return train()


@pytest.fixture(scope="module")
def alone():
    """The same seeds one after the other, by single runs."""
    runs = []
    for seed in SEEDS:
        writer = ListWriter()
        arguments = (jax.random.key(seed), initial(seed), chains()[1], chains_data())
        runs.append((training.fit(*arguments, make_plan(seed), writers=[writer]), writer))
    return runs


def assert_close(got, expected, atol):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=atol), got, expected)


# As in test_devices: a sum of eight shards is off by at most 8 roundings, which Adam turns into as
# many relative ones of its update. The energies are convex, so that nothing is amplified, and a
# chain is up to ten times as sensitive as a parameter.
ATOL = NUM_STEPS * LEARNING_RATE * 8 * EPS


@pytest.mark.parametrize("index", range(3))
def test_a_repeat_is_the_single_run_of_its_seed(together, alone, index):
    state, expected = training.select_repeat(together[0].state, index), alone[index][0].state
    assert jax.tree.structure(state) == jax.tree.structure(expected)
    assert jax.tree.map(lambda a: a.shape, state) == jax.tree.map(lambda a: a.shape, expected)
    assert jax.tree.map(lambda a: a.dtype, state) == jax.tree.map(lambda a: a.dtype, expected)
    assert_close(state.params, expected.params, ATOL)
    assert_close(state.carry, expected.carry, 10 * ATOL)
    assert int(state.step) == NUM_STEPS
    # Any other seed is far away, and so is where it began.
    for other in (*(run[0].state for i, run in enumerate(alone) if i != index), initial(7)):
        assert optax.tree.norm(optax.tree.sub(state.params, other.params)) > 1000 * ATOL


def test_rows_hold_a_number_for_each_repeat(together, alone):
    rows = together[1].rows
    assert [step for step, _ in rows] == list(range(1, NUM_STEPS + 1))
    for index in range(3):
        for (_, row), (_, expected) in zip(rows, alone[index][1].rows, strict=True):
            assert set(row) == set(expected)
            for name, value in expected.items():
                # Differences of two mean energies, whose slopes are below ten where the chains go,
                # at positions off by 10 ATOL.
                got = row[name][index]
                np.testing.assert_allclose(got, value, rtol=0, atol=200 * ATOL, err_msg=name)
    assert together[0].row == rows[-1][1]
    assert [len(value) for value in together[0].row.values()] == [3] * len(together[0].row)


def test_every_repeat_has_its_own_order_in_every_stream():
    def gradient_fn(key, params, carry, batch):
        return params, carry, {"loss": jnp.zeros(()), "first": batch[0], "second": batch[1]}

    plan = make_plan(batch_size=(16, 8), num_shards=2, total_steps=12)
    optimizer = optax.sgd(0.0)
    state = training.stack_states([training.init_state({"unused": jnp.zeros(())}, optimizer)] * 3)
    writer = ListWriter()
    step = training.make_train_step(gradient_fn, optimizer)
    training.fit(keys(), state, step, np.arange(96.0, dtype=np.float32), plan, writers=[writer])
    for i, (_, row) in enumerate(writer.rows):
        for name, offset, size in (("first", 0, 16), ("second", 2**32, 8)):
            for index, seed in enumerate(SEEDS):
                picked = batch_indices(seed + offset, i, num_examples=96, batch_size=size)
                np.testing.assert_array_equal(row[name][index], picked.reshape(2, -1).mean(0))


def test_the_devices_do_not_matter(together):
    result, _ = together
    on_one, _ = train(devices=jax.devices()[:1])
    assert len(result.state.carry.sharding.device_set) == 8
    assert_close(result.state.params, on_one.state.params, ATOL)
    assert_close(result.state.carry, on_one.state.carry, 10 * ATOL)


def act_as(backend, monkeypatch):
    """Lets ``repeat_step`` choose as it does on ``backend``."""
    monkeypatch.setattr("ebmjax.training._repeats.jax.default_backend", lambda: backend)


def test_a_step_of_all_repeats_at_once_is_one_all_reduce(monkeypatch):
    act_as("gpu", monkeypatch)
    mesh = training.make_mesh(8)
    state = place_state(training.stack_states([initial(seed) for seed in SEEDS]), mesh)
    indices = jnp.zeros((5, 8, 3, 2), jnp.int32)
    block = make_block(chains()[1], mesh)
    batches = make_gather(mesh)(chains_data(), indices)
    text = block.lower(keys(), state, batches).compile().as_text()
    assert re.findall(r" (all-\w+|reduce-scatter|collective-\w+)(?:-start)?\(", text) == [
        "all-reduce"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_the_step_outside_of_fit(backend, monkeypatch):
    """Taken in turns, as on a CPU, and at once."""
    act_as(backend, monkeypatch)
    train_step = chains(axis_name=None)[1]
    alone = jax.jit(train_step)
    states = [initial(seed) for seed in SEEDS]
    batches = [split_batch(jnp.asarray(chains_data()[16 * i : 16 * (i + 1)]), 8) for i in range(3)]
    state, metrics = jax.jit(training.repeat_step(train_step))(
        keys(), training.stack_states(states), jnp.stack(batches, axis=1)
    )
    for index in range(3):
        expected, expected_metrics = alone(
            jax.random.key(SEEDS[index]), states[index], batches[index]
        )
        assert_close(training.select_repeat(state, index).params, expected.params, ATOL)
        # The difference of two mean energies, each below 64 and rounded up to 8 times.
        loss, atol = metrics["loss"][index], 2 * 64 * 8 * EPS
        np.testing.assert_allclose(loss, expected_metrics["loss"], rtol=0, atol=atol)


# Checkpoints


def monitor(state, step):
    return {"mean": [np.asarray(training.select_repeat(state, i).params["mean"]) for i in range(3)]}


def sitting(folder, monitor=monitor):
    writer = training.JsonlWriter(folder / "metrics.jsonl")
    plan = make_plan(monitor_every=10, checkpoint_every=5)
    state = training.stack_states([initial(seed) for seed in SEEDS])
    checkpoints = training.Checkpoints(folder / "checkpoints")
    try:
        return training.fit(
            keys(),
            state,
            chains()[1],
            chains_data(),
            plan,
            checkpoints=checkpoints,
            writers=[writer],
            monitor=monitor,
        )
    finally:
        writer.close()


@pytest.mark.slow
def test_a_broken_off_run_of_repeats_continues_to_the_same_bits(tmp_path):
    def fail(state, step):
        if step == 20:
            raise OSError("no space left on device")
        return monitor(state, step)

    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    expected = sitting(whole)
    with pytest.raises(OSError, match="no space"):
        sitting(broken, fail)
    result = sitting(broken)
    assert result.first_step == 15
    assert training.tree_digest(result.state) == training.tree_digest(expected.state)
    rows = read_rows(broken / "metrics.jsonl")
    assert rows == read_rows(whole / "metrics.jsonl")
    assert np.shape(rows[-1]["mean"]) == (3, 2)
    assert [len(rows[-1][name]) for name in ("loss", "skipped")] == [3, 3]

    with training.Checkpoints(broken / "checkpoints") as checkpoints:
        restored, _ = checkpoints.restore_latest(training.stack_states([initial(0)] * 3))
    for index in range(3):
        digest = training.tree_digest(training.select_repeat(restored, index))
        assert digest == training.tree_digest(training.select_repeat(expected.state, index))
    with (
        training.Checkpoints(broken / "checkpoints") as checkpoints,
        pytest.raises(training.CheckpointMismatchError),
    ):
        checkpoints.restore_latest(training.stack_states([initial(0)] * 2))


def test_a_selected_repeat_outlives_the_next_block():
    kept = []
    train(
        plan=make_plan(monitor_every=5),
        monitor=lambda state, step: kept.append(training.select_repeat(state, 1)) or {},
    )
    assert [int(state.step) for state in kept] == [0, 5, 10, 15, 20, 23]
    assert len({training.tree_digest(state.params) for state in kept}) == 6
