"""Joint energy models under fit: any number of devices, exact resume, and that they learn."""

import functools
import os
import signal

import jax
import numpy as np
import optax
import pytest
from joint_problems import (
    EPS,
    NUM_CLASSES,
    centred,
    image_data,
    joint_objective,
    negatives,
    trainable,
)
from training_problems import ListWriter, split_batch

from ebmjax.data import ImageData
from ebmjax.samplers import sgld
from ebmjax.training import Checkpoints, Plan, fit, make_train_step, tree_digest

KEY = jax.random.key(7)


@functools.cache
def everything_at_once():
    """Running statistics, class-conditional noisy chains, SAM and a smoothing that adapts."""
    draw = negatives(
        sampler=functools.partial(sgld, step_size=0.05),
        num_steps=2,
        num_samples=2,
        num_classes=NUM_CLASSES,
        reinit_prob=0.2,
    )
    objective = joint_objective(
        is_conditional=True, rho=0.1, smoothing_ratio=1.0, batch_axis=("data", "shard")
    )
    optimizer = optax.sgd(0.05)
    state, gradient_fn = trainable(
        centred(), draw, objective, optimizer, num_shards=4, buffer_size=4 * 12
    )
    return state, make_train_step(gradient_fn, optimizer)


PLAN = Plan(
    total_steps=12,
    batch_size=(16, 8),
    num_shards=4,
    steps_per_dispatch=3,
    monitor_every=6,
    checkpoint_every=6,
)


def sitting(num_devices, monitor=lambda state, step: {}, **options):
    state, train_step = everything_at_once()
    devices = jax.devices()[:num_devices]
    data = image_data(num=96)
    return fit(KEY, state, train_step, data, PLAN, monitor=monitor, devices=devices, **options)


@pytest.fixture(scope="module")
def on_one_device():
    return sitting(1)


@pytest.mark.slow
@pytest.mark.parametrize("num_devices", [pytest.param(2, marks=pytest.mark.slow), 4])
def test_the_devices_do_not_change_the_trajectory(on_one_device, num_devices):
    result = sitting(num_devices)
    assert len(result.state.carry.buffer.positions.sharding.device_set) == num_devices
    # Devices change how many shards are computed side by side and the order in which four are
    # summed: per step some 50 roundings of gradients below 10, times the rate of 0.05. Chains see
    # parameters through a drift of 0.05 times their change and keep what they saw for 12 steps of
    # two moves; energies are convex, so nothing is amplified.
    atol = 12 * 0.05 * 50 * 10 * EPS
    for part in ("params", "carry"):
        got, expected = getattr(result.state, part), getattr(on_one_device.state, part)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=2 * atol), got, expected
        )
    start = everything_at_once()[0]
    moved = optax.tree.norm(optax.tree.sub(result.state.params, start.params))
    assert moved > 1000 * atol
    assert int(result.state.skipped) == 0
    for shards in (start.carry, result.state.carry):  # every shard has chains of its own
        positions = np.asarray(shards.buffer.positions)
        assert len(np.unique(positions)) == positions.size
    (smoothing,) = set(result.state.carry.smoothing.tolist())  # of all shards
    assert abs(smoothing - 1.0) > 0.05


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_bit_for_bit(tmp_path):
    def stop(state, step):
        if step == 6:
            os.kill(os.getpid(), signal.SIGTERM)
        return {}

    whole, first, second = sitting(2), ListWriter(), ListWriter()
    stopped = sitting(2, stop, checkpoints=Checkpoints(tmp_path), writers=[first])
    assert (stopped.signum, int(stopped.state.step)) == (signal.SIGTERM, 6)
    resumed = sitting(2, checkpoints=Checkpoints(tmp_path), writers=[second])
    assert resumed.first_step == 6
    assert tree_digest(resumed.state) == tree_digest(whole.state)
    assert tree_digest(stopped.state) != tree_digest(whole.state)
    assert resumed.row == whole.row
    assert [step for step, _ in first.rows + second.rows] == list(range(13))


@functools.cache
def guarded():
    """(state, jitted train_step, batch) of two shards, with a limit on the loss."""
    optimizer = optax.adam(0.1)
    state, gradient_fn = trainable(
        centred(), negatives(), joint_objective(), optimizer, num_shards=2, buffer_size=16
    )
    # With images within 1 and precisions below 2 energies stay below 2 * 4 * 4 nats.
    train_step = make_train_step(gradient_fn, optimizer, max_abs_loss=100.0, axis_name=None)
    data = image_data()
    batch = (ImageData(data.images[:12], data.labels[:12]), data)
    return state, jax.jit(train_step), split_batch(batch, 2)


@pytest.mark.slow
def test_a_step_that_succeeds_moves_chains_and_statistics():
    state, train_step, batch = guarded()
    after, metrics = train_step(KEY, state, batch)
    assert int(metrics["skipped"]) == 0
    for part in ("buffer", "statistics"):
        assert tree_digest(getattr(after.carry, part)) != tree_digest(getattr(state.carry, part))


@pytest.mark.parametrize("poison", ["label", "infinite_chain", "far_chain"])
def test_a_step_that_fails_leaves_chains_and_statistics_alone(poison):
    state, train_step, (labelled, unlabelled) = guarded()
    if poison == "label":
        labels = labelled.labels.copy()
        labels[1, 0] = NUM_CLASSES
        labelled = labelled._replace(labels=labels)
    else:
        far = 1e30 if poison == "infinite_chain" else 100.0
        positions = state.carry.buffer.positions.at[1, 3].set(far)
        buffer = state.carry.buffer._replace(positions=positions)
        state = state._replace(carry=state.carry._replace(buffer=buffer))
    after, metrics = train_step(KEY, state, (labelled, unlabelled))
    assert int(metrics["skipped"]) == int(after.skipped) == 1
    assert np.isfinite(metrics["loss"]) == (poison == "far_chain")
    assert tree_digest(after[1:4]) == tree_digest(state[1:4])
