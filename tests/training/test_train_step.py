"""One training step: its update, what it skips, the slots that it writes."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from training_problems import (
    chains,
    regression,
    regression_data,
    regression_gradient,
    regression_loss,
    regression_state,
    split_batch,
)

from ebmjax import training
from ebmjax.samplers import ReplayBuffer
from ebmjax.training import init_state, make_train_step, tree_digest
from ebmjax.training._sharding import place_state
from ebmjax.training._state import apply_writes
from ebmjax.training._step import make_block

KEY = jax.random.key(3)
# Two sums of 96 float32 terms of mixed sign, in different orders: each is off by at most
# 96 eps times the terms' scale. The gradients' own scale is that of the terms (well above 0.1).
RTOL = 2 * 96 * np.finfo(np.float32).eps


def full_batch(num_shards):
    return split_batch(jax.tree.map(jnp.asarray, regression_data()), num_shards)


@pytest.mark.parametrize("num_shards", [1, 4, 8])
def test_the_update_follows_the_gradient_of_the_whole_batch(num_shards):
    optimizer = optax.sgd(1.0)
    state = regression_state(optimizer)
    train_step = make_train_step(regression_gradient, optimizer, axis_name=None)
    new_state, metrics = train_step(KEY, state, full_batch(num_shards))

    data = regression_data()
    x, y = data["x"].astype(float), data["y"].astype(float)  # by hand, at zero parameters
    by_hand = {"weight": -2 * x.T @ y / len(y), "bias": -2 * y.mean()}
    for name, gradient in by_hand.items():
        np.testing.assert_allclose(-new_state.params[name], gradient, rtol=RTOL)
    np.testing.assert_allclose(metrics["loss"], np.mean(y**2), rtol=RTOL)
    norm = np.sqrt(sum(np.sum(np.square(g)) for g in by_hand.values()))
    np.testing.assert_allclose(metrics["gradient_norm"], norm, rtol=RTOL)


def test_every_shard_has_its_own_key():
    def gradient_fn(key, params, carry, batch):
        return jax.tree.map(jnp.zeros_like, params), jax.random.normal(key), {"loss": jnp.zeros(())}

    state = init_state({"w": jnp.zeros(1)}, optax.sgd(1.0), jnp.zeros(6))
    train_step = make_train_step(gradient_fn, optax.sgd(1.0), axis_name=None)
    drawn = train_step(KEY, state, jnp.zeros((6, 1)))[0].carry
    expected = [jax.random.normal(jax.random.fold_in(KEY, i)) for i in range(6)]
    assert np.array_equal(drawn, expected)
    assert len(set(np.asarray(drawn).tolist())) == 6


def poisoned(where, value):
    """A step that meets something not finite in one shard of its second batch."""
    state, _, data = chains(num_shards=4)

    def gradient_fn(key, params, carry, batch):
        poison = jnp.where(batch[0, 0] > 1e6, value, 0.0)
        loss = jnp.sum(params["mean"] ** 2)
        gradients = jax.tree.map(jnp.ones_like, params)
        if where == "loss":
            loss = loss + poison
        if where == "gradient":
            gradients["mean"] = gradients["mean"].at[0].add(poison)
        return gradients, carry + 1.0, {"loss": loss}

    train_step = make_train_step(gradient_fn, optax.adam(0.1), axis_name=None)
    good = jnp.asarray(split_batch(data[:16], 4))
    return state, jax.jit(train_step), good, good.at[2, 0, 0].set(1e7)


BAD = [(where, value) for where in ("loss", "gradient") for value in (np.nan, np.inf, -np.inf)]


# The square of 1e30 is infinite, and so would Adam's second moment be for good.
@pytest.mark.parametrize(("where", "value"), [*BAD, ("gradient", 1e30)])
def test_what_is_not_finite_changes_only_the_counters(where, value):
    state, train_step, good, bad = poisoned(where, value)
    state, metrics = train_step(KEY, state, good)
    kept = tree_digest(state[1:4])

    for count in (1, 2):
        state, metrics = train_step(KEY, state, bad)
        assert tree_digest(state[1:4]) == kept
        assert int(state.step) == 1 + count
        assert int(metrics["skipped"]) == int(state.skipped) == count
        assert int(metrics["consecutive_skipped"]) == int(state.consecutive_skipped) == count
        assert int(metrics["skip_cause"]) == {"loss": 1, "gradient": 2}[where]

    state, metrics = train_step(KEY, state, good)
    assert tree_digest(state[1:4]) != kept
    assert (int(state.skipped), int(state.consecutive_skipped)) == (2, 0)
    assert (int(metrics["skipped"]), int(metrics["consecutive_skipped"])) == (2, 0)
    state, _ = train_step(KEY, state, bad)
    assert (int(state.skipped), int(state.consecutive_skipped)) == (3, 1)


def test_parameters_do_not_overflow_on_a_finite_gradient():
    optimizer = optax.sgd(3e38)
    state = regression_state(optimizer)
    train_step = make_train_step(regression_gradient, optimizer, axis_name=None)
    new_state, metrics = train_step(KEY, state, full_batch(1))
    assert np.isfinite(metrics["gradient_norm"])
    assert (int(metrics["skipped"]), int(metrics["skip_cause"])) == (1, 4)
    assert tree_digest(new_state.params) == tree_digest(state.params)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_loss_beyond_the_limit_is_skipped(sign):
    def gradient_fn(key, params, carry, batch):
        gradients, carry, metrics = regression_gradient(key, params, carry, batch)
        return gradients, carry, {"loss": sign * metrics["loss"]}

    optimizer = optax.sgd(0.1)
    state = regression_state(optimizer)
    loss = float(np.mean(regression_data()["y"] ** 2))
    for limit, skipped in ((0.9 * loss, 1), (1.1 * loss, 0)):
        train_step = make_train_step(gradient_fn, optimizer, max_abs_loss=limit, axis_name=None)
        new_state, metrics = train_step(KEY, state, full_batch(2))
        assert (int(metrics["skipped"]), int(metrics["skip_cause"])) == (skipped, 3 * skipped)
        assert (tree_digest(new_state.params) == tree_digest(state.params)) == bool(skipped)


@pytest.mark.parametrize("of_type", [jnp.asarray, bool])
@pytest.mark.parametrize("is_held", [True, False])
def test_a_held_step_moves_the_chains_alone(is_held, of_type):
    loss = {}

    def hold_fn(metrics):
        loss["seen"] = metrics["loss"]
        return of_type(is_held)

    state, train_step, data = chains(num_shards=4, axis_name=None, hold_fn=hold_fn)
    new_state, metrics = train_step(KEY, state, split_batch(data[:16], 4))
    assert float(metrics["is_held"]) == is_held
    assert loss["seen"] == metrics["loss"]  # the average over shards
    assert (tree_digest(new_state.params) == tree_digest(state.params)) == is_held
    assert (tree_digest(new_state.opt_state) == tree_digest(state.opt_state)) == is_held
    assert tree_digest(new_state.carry) != tree_digest(state.carry)
    assert (int(new_state.step), int(new_state.skipped)) == (1, 0)
    assert int(new_state.consecutive_skipped) == 0


def test_gradient_metrics_see_the_averaged_gradient():
    state, train_step, _ = regression(
        axis_name=None, gradient_metrics_fn=lambda gradients: {"bias_gradient": gradients["bias"]}
    )
    _, metrics = train_step(KEY, state, full_batch(8))
    expected = jax.grad(regression_loss)(state.params, regression_data())["bias"]
    np.testing.assert_allclose(metrics["bias_gradient"], expected, rtol=RTOL)


def test_init_state_gives_definite_dtypes():
    state = init_state({"a": 1.0, "b": jnp.asarray(2.0)}, optax.sgd(1.0), carry=[0.5])
    leaves = jax.tree.leaves((state.params, state.carry))
    assert [leaf.dtype for leaf in leaves] == [jnp.float32] * 3
    assert not any(leaf.weak_type for leaf in leaves)


def constant_gradient(key, params, carry, batch):
    del key, batch
    return jax.tree.map(jnp.ones_like, params), carry, {"loss": jnp.float32(1.0)}


@pytest.mark.parametrize(
    ("sizes", "dtype"), [([70_000], jnp.float16), ([256] + [1] * 32, jnp.bfloat16)]
)
def test_the_gradient_norm_of_half_precision_is_taken_in_float32(sizes, dtype):
    """70 000 squares of 1 overflow float16, a step to skip; bfloat16 cannot add a 1 to 256."""
    params = [jnp.zeros(size, dtype) for size in sizes]
    train_step = make_train_step(constant_gradient, optax.sgd(0.5), axis_name=None)
    state, metrics = train_step(KEY, init_state(params, optax.sgd(0.5)), jnp.zeros((1, 2)))
    # A sum of integers below 2^24 is exact, its root correctly rounded.
    np.testing.assert_array_equal(metrics["gradient_norm"], np.sqrt(np.float32(sum(sizes))))
    assert int(metrics["skipped"]) == 0
    assert float(state.params[0][0]) == -0.5


KEY = jax.random.key(0)
SHARD = {"buffer": jnp.arange(10.0).reshape(5, 2), "count": jnp.int32(3)}


def test_the_slots_are_overwritten_and_nothing_else():
    write = training.write_slots(jnp.array([4, 1]), jnp.array([[40.0, 41.0], [10.0, 11.0]]))
    after = apply_writes(SHARD, {"buffer": write, "count": jnp.int32(4)})
    expected = [[0, 1], [10, 11], [4, 5], [6, 7], [40, 41]]
    np.testing.assert_array_equal(after["buffer"], expected)
    assert after["count"] == 4


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
        compiled = block.lower(
            KEY, place_state(state, mesh), jnp.ones((3, 2, 1, 1)), None
        ).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    few, many = temporary_bytes(1_000), temporary_bytes(10_000)
    buffer_growth = 2 * 9_000 * 64 * 4
    assert many - few < buffer_growth / 4
