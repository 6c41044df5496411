"""Any number of devices: the same trajectory and one all-reduce."""

import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import NamedSharding
from training_problems import (
    chains,
    regression,
    regression_data,
    regression_gradient,
    regression_loss,
    regression_state,
)

from ebmjax import training
from ebmjax.training._feed import host_rows
from ebmjax.training._sharding import OVER_SHARDS, place_state
from ebmjax.training._step import make_block

KEY = jax.random.key(5)
EPS = np.finfo(np.float32).eps
PLAN = training.Plan(
    total_steps=200, batch_size=16, num_shards=8, steps_per_dispatch=50, log_every=50
)


def train(num_devices, plan=PLAN):
    state, train_step, data = chains(plan.num_shards)
    return training.fit(KEY, state, train_step, data, plan, devices=jax.devices()[:num_devices])


@pytest.fixture(scope="module")
def on_one_device():
    return train(1)


def assert_close(got, expected, atol):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=atol), got, expected)


@pytest.mark.slow
@pytest.mark.parametrize("num_devices", [2, 4, 8])
def test_noisy_persistent_chains_do_not_notice_the_devices(on_one_device, num_devices):
    result = train(num_devices)
    assert len(result.state.carry.sharding.device_set) == num_devices
    # The devices only change the order in which eight shards are summed. A sum of eight is off by
    # at most 8 roundings, which Adam turns into as many relative ones of its update of 0.02 a
    # step. The energies are convex, so what came before is not amplified; a chain may be ten
    # times as sensitive as a parameter, because it starts and stays up to ten times as far out.
    atol = 200 * 0.02 * 8 * EPS
    assert_close(result.state.params, on_one_device.state.params, atol)
    assert_close(result.state.carry, on_one_device.state.carry, 10 * atol)
    assert int(result.state.skipped) == 0
    moved = optax.tree.norm(optax.tree.sub(result.state.params, chains()[0].params))
    assert moved > 1000 * atol


@pytest.mark.parametrize(
    ("num_shards", "num_devices", "used"),
    [(8, 8, 8), (8, 7, 4), (8, 3, 2), (6, 8, 6), (12, 8, 6), (7, 4, 1), (1, 8, 1), (16, 8, 8)],
)
def test_the_mesh_takes_the_most_devices_that_divide_the_shards(num_shards, num_devices, used):
    mesh = training.make_mesh(num_shards, jax.devices()[:num_devices])
    assert dict(mesh.shape) == {"data": used}
    assert list(mesh.devices) == jax.devices()[:used]


def batches_of(data, indices, mesh):
    return jax.device_put(host_rows(data, indices), NamedSharding(mesh, OVER_SHARDS))


def test_the_sharded_gradient_is_that_of_the_whole_batch():
    # Under shard_map with its replication check on, this very step is 8 times too large.
    optimizer = optax.sgd(1.0)
    state, data = regression_state(optimizer), regression_data()
    train_step = training.make_train_step(regression_gradient, optimizer)
    mesh = training.make_mesh(8)
    block = make_block(train_step, mesh)
    indices = np.arange(96).reshape(1, 8, 12)
    new_state, metrics = block(KEY, place_state(state, mesh), batches_of(data, indices, mesh), None)
    expected = jax.grad(regression_loss)(state.params, data)
    rtol = 2 * 96 * EPS  # two orders of summing 96 terms
    for name in expected:
        np.testing.assert_allclose(-new_state.params[name], expected[name], rtol=rtol)
    np.testing.assert_allclose(metrics["gradient_norm"][0], optax.tree.norm(expected), rtol=rtol)


def test_the_step_is_the_same_under_pmap_and_shard_map():
    state, train_step, data = regression()
    batch = jax.tree.map(lambda leaf: leaf.reshape(8, 1, 12, *leaf.shape[1:]), data)
    under_pmap, _ = jax.pmap(train_step, axis_name="data", in_axes=(None, None, 0))(
        KEY, state, batch
    )
    mesh, rows, whole = training.make_mesh(8), jax.P("data"), jax.P()
    step = jax.shard_map(
        lambda batch: train_step(KEY, state, batch)[0].params,
        mesh=mesh,
        in_specs=rows,
        out_specs=whole,
        check_vma=False,
    )
    under_shard_map = jax.jit(step)(batch)
    for name, expected in under_shard_map.items():
        got = under_pmap.params[name]
        assert got.shape == (8, *expected.shape)
        # The sum over eight devices may be taken in another order.
        np.testing.assert_allclose(got, np.broadcast_to(expected, got.shape), rtol=8 * EPS)


def collectives(train_step, state, data, *, steps=5):
    """Names of the collectives in the compiled text of one block on eight devices."""
    mesh = training.make_mesh(8)
    indices = np.zeros((steps, 8, 2), np.int32)
    block = make_block(train_step, mesh)
    arguments = (KEY, place_state(state, mesh), batches_of(data, indices, mesh), None)
    text = block.lower(*arguments).compile().as_text()
    assert " while(" in text  # the steps are a loop, so what is counted is that of one step
    return re.findall(r" (all-\w+|reduce-scatter|collective-\w+)(?:-start)?\(", text)


def test_a_step_of_mixed_precision_is_one_all_reduce():
    def gradient_fn(key, params, carry, batch):
        del key

        def loss_fn(params):
            hidden = batch["x"].astype(jnp.bfloat16) @ params["weight"]
            return jnp.mean((hidden.astype(jnp.float32) + params["bias"] - batch["y"]) ** 2)

        loss, gradients = jax.value_and_grad(loss_fn)(params)
        return gradients, carry, {"loss": loss, "count": jnp.int32(3), "is_odd": jnp.array([True])}

    optimizer = optax.adam(0.1)
    params = {"weight": jnp.zeros(3, jnp.bfloat16), "bias": jnp.zeros(())}
    train_step = training.make_train_step(gradient_fn, optimizer)
    state, data = training.init_state(params, optimizer), regression_data()
    assert collectives(train_step, state, data) == ["all-reduce"]

    plan = training.Plan(total_steps=4, batch_size=16, num_shards=8, steps_per_dispatch=2)
    result = training.fit(KEY, state, train_step, data, plan)
    assert result.state.params["weight"].dtype == jnp.bfloat16
    assert result.row["count"] == 3
    assert result.row["is_odd"] == [1.0]


@pytest.mark.parametrize(
    ("platform", "flags", "options"),
    [
        ("gpu", "", {"xla_gpu_deterministic_ops": True}),
        ("gpu", "--xla_gpu_deterministic_ops=false", None),
        ("cpu", "", None),
        ("tpu", "", None),
    ],
)
def test_steps_of_a_gpu_are_compiled_to_repeat_their_bits(platform, flags, options, monkeypatch):
    """``jax.jit`` gets the options; a name that the compiler does not know is an error of its."""
    monkeypatch.setenv("XLA_FLAGS", flags)
    given = []
    monkeypatch.setattr(jax, "jit", lambda function, **named: given.append(named))
    mesh = SimpleNamespace(devices=np.array([SimpleNamespace(platform=platform)]))
    monkeypatch.setattr(jax, "shard_map", lambda function, **named: function)
    make_block.__wrapped__(lambda *arguments: None, mesh)
    assert given == [{"donate_argnums": 1, "compiler_options": options}]
