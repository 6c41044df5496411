"""Particles of all logical shards as one system, in the training of a joint energy model."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from joint_problems import (
    DIM,
    EPS,
    SHAPE,
    image_data,
    joint_objective,
    negatives,
    quadratic,
    quadratic_logits,
    trainable,
)
from scipy.spatial.distance import pdist

from ebmjax.losses import joint_log_density, nearest_neighbour_entropy
from ebmjax.samplers import run_chain, svgd
from ebmjax.training import Plan, fit, make_train_step

KEY = jax.random.key(7)
NUM_SHARDS, NUM_PARTICLES, NUM_STEPS = 4, 12, 3
SVGD = functools.partial(svgd, step_size=0.5)


def problem():
    """(state, train_step) whose particles are all that the buffers hold."""
    draw = negatives(
        sampler=SVGD,
        num_steps=NUM_STEPS,
        num_samples=NUM_PARTICLES // NUM_SHARDS,
        is_interacting=True,
        axis_name=("data", "shard"),
    )
    optimizer = optax.sgd(0.05)
    state, gradient_fn = trainable(
        quadratic(),
        draw,
        joint_objective(),
        optimizer,
        num_shards=NUM_SHARDS,
        buffer_size=NUM_PARTICLES,
    )
    return state, make_train_step(gradient_fn, optimizer)


def train(num_devices):
    state, train_step = problem()
    plan = Plan(total_steps=1, batch_size=(16, 8), num_shards=NUM_SHARDS)
    devices = jax.devices()[:num_devices]
    return state, fit(KEY, state, train_step, image_data(num=96), plan, devices=devices)


def particles(state):
    return np.asarray(state.carry.buffer.positions).reshape(NUM_PARTICLES, *SHAPE)


def moved_together(state):
    """Positions of all particles of ``state`` after a step as one system."""

    def log_density(x):
        return joint_log_density(quadratic_logits(state.params, {}, x)[0])

    sampler = SVGD(log_density)
    start = sampler.init(jnp.asarray(particles(state)))
    return run_chain(KEY, start, sampler.step, NUM_STEPS)[0].particles


# Particles below 5 through three steps of directions that are sums of 12 terms below 10, each sum
# off by 12 roundings; energies are convex, so nothing is amplified by more than a small factor.
ATOL = 2 * NUM_STEPS * 0.5 * 12 * 10 * EPS


@pytest.mark.slow
@pytest.mark.parametrize("num_devices", [1, 4])
def test_a_step_moves_the_particles_of_all_shards_as_one_system(num_devices):
    before, result = train(num_devices)
    expected = moved_together(before)
    np.testing.assert_allclose(particles(result.state), expected, rtol=0, atol=ATOL)
    assert np.max(np.abs(expected - particles(before))) > 1000 * ATOL
    entropy = nearest_neighbour_entropy(jnp.asarray(expected))
    # DIM times a mean of logarithms of distances, each off by twice the square root of DIM.
    nearest = pdist(np.reshape(expected, (NUM_PARTICLES, DIM))).min()
    atol = DIM * 2 * np.sqrt(DIM) * ATOL / nearest
    np.testing.assert_allclose(result.row["negative_entropy"], entropy, rtol=0, atol=atol)
    assert int(result.state.skipped) == 0
