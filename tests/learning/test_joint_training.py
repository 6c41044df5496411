"""Joint energy models under fit: any number of devices."""

import functools

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

from ebmjax.samplers import sgld
from ebmjax.training import Plan, fit, make_train_step

KEY = jax.random.key(7)


@functools.cache
def everything_at_once():
    """Running statistics, class-conditional noisy chains and SAM."""
    draw = negatives(
        sampler=functools.partial(sgld, step_size=0.05),
        num_steps=2,
        num_samples=2,
        num_classes=NUM_CLASSES,
        reinit_prob=0.2,
    )
    objective = joint_objective(is_conditional=True, rho=0.1, batch_axis=("data", "shard"))
    optimizer = optax.sgd(0.05)
    state, gradient_fn = trainable(
        centred(), draw, objective, optimizer, num_shards=4, buffer_size=4 * 12
    )
    return state, make_train_step(gradient_fn, optimizer)


PLAN = Plan(total_steps=12, batch_size=(16, 8), num_shards=4, steps_per_dispatch=3)


def sitting(num_devices):
    state, train_step = everything_at_once()
    devices = jax.devices()[:num_devices]
    data = image_data(num=96)
    return fit(KEY, state, train_step, data, PLAN, devices=devices)


@pytest.mark.slow
def test_the_devices_do_not_change_the_trajectory():
    on_one_device, result = sitting(1), sitting(4)
    assert len(result.state.carry.buffer.positions.sharding.device_set) == 4
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
