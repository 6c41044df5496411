"""Writes into large arrays of a shard: what they change, what they leave and what they cost."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ebmjax import training
from ebmjax.samplers import ReplayBuffer
from ebmjax.training._block import make_block
from ebmjax.training._sharding import place_state
from ebmjax.training._state import apply_writes

KEY = jax.random.key(0)
SHARD = {"buffer": jnp.arange(10.0).reshape(5, 2), "count": jnp.int32(3)}


def test_the_slots_are_overwritten_and_nothing_else():
    write = training.SlotWrite(jnp.array([4, 1]), jnp.array([[40.0, 41.0], [10.0, 11.0]]))
    after = apply_writes(SHARD, {"buffer": write, "count": jnp.int32(4)})
    expected = [[0, 1], [10, 11], [4, 5], [6, 7], [40, 41]]
    np.testing.assert_array_equal(after["buffer"], expected)
    assert after["count"] == 4


def test_a_step_that_does_not_count_leaves_every_bit():
    write = training.SlotWrite(jnp.array([4, 1]), jnp.full((2, 2), jnp.nan))
    after = apply_writes(SHARD, {"buffer": write, "count": jnp.int32(4)}, is_kept=False)
    np.testing.assert_array_equal(after["buffer"], SHARD["buffer"])
    assert after["count"] == 3


def test_values_take_the_dtype_and_a_tree_its_slots():
    tree = ReplayBuffer((jnp.zeros((3, 2), jnp.bfloat16), jnp.zeros(3)))
    new = ReplayBuffer(training.write_slots(jnp.array([2]), (jnp.ones((1, 2)), jnp.ones(1))))
    first, second = apply_writes(tree, new).positions
    assert first.dtype == jnp.bfloat16
    np.testing.assert_array_equal(first[:, 0].astype(float), second)


def training_step(num_slots, num_written=4):
    """Chains in the slots of a buffer, four of which a step moves."""

    def gradient_fn(key, params, carry, batch):
        slots = jax.random.choice(key, num_slots, (num_written,), replace=False)
        ends = carry[slots] + 1.0
        loss = jnp.where(jnp.any(batch < 0), jnp.nan, 0.0)
        return params, training.write_slots(slots, ends), {"loss": loss}

    state = training.init_state(jnp.ones(2), optax.sgd(0.1), jnp.zeros((2, num_slots, 64)))
    return state, training.make_train_step(gradient_fn, optax.sgd(0.1), axis_name=None)


@pytest.mark.parametrize("is_sound", [True, False])
def test_a_training_step_writes_the_slots_of_every_shard_or_none(is_sound):
    state, train_step = training_step(num_slots=16)
    after, metrics = train_step(KEY, state, jnp.full((2, 1), 1.0 if is_sound else -1.0))
    moved = np.any(np.asarray(after.carry) != 0, axis=2).sum(axis=1)
    np.testing.assert_array_equal(moved, [4, 4] if is_sound else [0, 0])
    assert metrics["skipped"] == (0 if is_sound else 1)


def test_the_memory_of_a_step_does_not_grow_with_the_buffer():
    """A block of compiled steps touches 4 slots of 64 numbers in each of 2 shards. Slots to choose
    from are one number each; a copy of the buffer would be 64."""

    def temporary_bytes(num_slots):
        state, train_step = training_step(num_slots)
        mesh = training.make_mesh(2, jax.devices()[:1])
        block = make_block(train_step, mesh)
        compiled = block.lower(KEY, place_state(state, mesh), jnp.ones((3, 2, 1, 1))).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    few, many = temporary_bytes(1_000), temporary_bytes(10_000)
    buffer_growth = 2 * 9_000 * 64 * 4
    assert many - few < buffer_growth / 4
