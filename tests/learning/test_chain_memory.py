"""Memory of samplers in the buffer, from one training step to the next."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from image_problem import PARAMS, learn, learner, live, live_loss, negatives, shard_of
from joint_problems import ATOL, DIM

from ebmjax.learning import ChainKind
from ebmjax.samplers import clamp, psgld, schedule, underdamped_langevin

MEAN, PRECISION = float(PARAMS["means"][0]), float(PARAMS["precision"])
STEP = 0.4
TINY = 1e-12
"""Friction that leaves a rotation almost without noise."""


def kind(make=underdamped_langevin, memory=("velocity",), num_steps=3, **options):
    sampler = partial(make, **({"step_size": STEP} | options))
    return ChainKind(sampler=sampler, num_steps=num_steps, memory=memory)


def still(**options):
    """A plan of noiseless chains of one class; a step moves all 6 slots of its buffer."""
    kinds = {"underdamped": kind(friction=TINY, temperature=1.0, **options)}
    return negatives(kinds=kinds, num_classes=1)


def rows(carry):
    return carry.buffer.positions


def rotated(position, velocity, num_steps):
    """Kick, drift, drift, kick of a parabola, in float64."""
    time = np.sqrt(2 * STEP)
    x, v = np.float64(position) - MEAN, np.float64(velocity)
    for _ in range(num_steps):
        v = v - time / 2 * PRECISION * x
        x = x + time * v
        v = v - time / 2 * PRECISION * x
    return MEAN + x, v


@pytest.mark.slow
@pytest.mark.parametrize("wrapped", ["plain", "clamp", "schedule"])
def test_a_velocity_goes_on_where_it_stopped(wrapped):
    """Two training steps of three moves are six moves, of positions and velocities alike."""
    wrap = {
        "plain": lambda make: make,
        "clamp": lambda make: clamp(make, -50.0, 50.0),
        "schedule": schedule,
    }[wrapped]
    plan = still(make=wrap(underdamped_langevin))
    step = learner(plan)
    _, after, _, before = step(shard_of(plan, 6))
    _, later, _, _ = step(after, jax.random.key(8))
    assert np.std(rows(before).memory["velocity"]) > 0.5
    for carry, num_steps in ((after, 3), (later, 6)):
        position, velocity = rotated(
            rows(before).position, rows(before).memory["velocity"], num_steps
        )
        # The noise of such a friction is sqrt(2 friction time) = 2e-6 of a velocity a move.
        np.testing.assert_allclose(rows(carry).position, position, atol=ATOL + 5 * 6 * 2e-6)
        np.testing.assert_allclose(
            rows(carry).memory["velocity"], velocity, atol=ATOL + 5 * 6 * 2e-6
        )


def assert_moments(draws, mean, variance):
    """Each within 5 of its own standard errors, of independent numbers."""
    draws = np.ravel(np.asarray(draws, np.float64))
    for numbers, expected in ((draws, mean), ((draws - mean) ** 2, variance)):
        assert abs(numbers.mean() - expected) < 5 * numbers.std(ddof=1) / np.sqrt(len(numbers))


@pytest.mark.slow
def test_new_chains_draw_their_velocities():
    """At the start of the run, and where a slot starts anew; each its own."""
    plan = negatives(kinds={"one": kind(temperature=0.3)}, num_classes=1, reinit_prob=1.0)
    carry = shard_of(plan, 3000)
    assert_moments(np.ravel(rows(carry).memory["velocity"]), 0.0, 0.3)
    plan = negatives(
        kinds={"one": kind(temperature=0.3, step_size=1e-10, friction=1e-3, num_steps=1)},
        num_classes=1,
        num_samples=3000,
        reinit_prob=1.0,
    )
    _, after, _, _ = learn(plan, carry)
    velocity = np.ravel(rows(after).memory["velocity"])
    assert_moments(velocity, 0.0, 0.3)
    assert np.abs(np.corrcoef(velocity, np.ravel(rows(carry).memory["velocity"]))[0, 1]) < (
        5 / np.sqrt(3000 * DIM)
    )


@pytest.mark.parametrize("memory", [("second_moment",), ()])
def test_the_second_moment_of_psgld_is_kept_where_it_is_asked_for(memory):
    """Two training steps of one move: V' = a V + (1 - a) s^2 twice, or from 0 each time."""
    options = {"decay": 0.6, "damping": 1.0, "noise_scale": 0.0, "num_steps": 1}
    plan = negatives(kinds={"one": kind(psgld, memory, **options)}, num_classes=1)
    step = learner(plan)
    _, after, _, before = step(shard_of(plan, 6))
    _, later, _, _ = step(after, jax.random.key(8))
    x = np.float64(rows(before).position if memory else rows(before))
    v = np.zeros_like(x)
    for _ in range(2):
        score = -PRECISION * (x - MEAN)
        v = 0.6 * v * bool(memory) + 0.4 * score**2
        x = x + STEP * score / (1.0 + np.sqrt(v))
    np.testing.assert_allclose(rows(later).position if memory else rows(later), x, atol=ATOL)
    if memory:
        np.testing.assert_allclose(rows(later).memory["second_moment"], v, atol=ATOL)


@pytest.mark.slow
def test_live_chains_and_augmented_starts_keep_their_velocities():
    """Differentiated last steps move the position alone; an augmentation too."""
    options = {"friction": TINY, "num_steps": 3}
    plan = negatives(
        kinds={"one": kind(**options)}, num_classes=1, augment=lambda key, x: jnp.full_like(x, MEAN)
    )
    carry = shard_of(plan, 12)
    _, after, _, _ = learn(plan, carry, loss_fn=live_loss, live=live())
    old, new = rows(carry), rows(after)
    is_moved = np.any(old.position != new.position, axis=(1, 2, 3))
    assert np.sum(is_moved) == 6
    _, velocity = rotated(np.full_like(old.position, MEAN), old.memory["velocity"], 2)
    found = new.memory["velocity"][is_moved]
    np.testing.assert_allclose(found, velocity[is_moved], atol=ATOL + 5 * 2 * 2e-6)
