"""The mixing of chains whose density is known."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import evaluate, samplers

mixing = jax.jit(evaluate.mixing, static_argnums=(1, 2), static_argnames="num_steps")


def normal(x):
    return -0.5 * jnp.sum(jnp.square(x))


@pytest.mark.parametrize(("step_size", "is_mixed"), [(1.0, True), (1e-4, False)])
def test_chains_that_hardly_move_do_not_mix(step_size, is_mixed):
    """1,000 steps of 1e-4 travel 0.4 of the distance of 2 between neighbouring starts."""
    starts = jnp.linspace(-7.0, 7.0, 8)[:, None, None]
    found = mixing(
        jax.random.key(0),
        partial(samplers.mala, step_size=step_size),
        normal,
        starts,
        num_steps=1000,
    )
    assert found.keys() == {"rhat_energy", "rhat_pixel", "acceptance", "squared_distance"}
    assert (found["rhat_pixel"] < 1.1) == (found["rhat_energy"] < 1.1) == is_mixed
    assert 0.5 < found["acceptance"] <= 1.0


@pytest.mark.slow
def test_a_chain_at_nan_leaves_no_median():
    """One pixel of one chain is lost half way; the median over the other pixels would be good."""

    def breaks(x):
        return normal(x) + jnp.where(jnp.sum(jnp.abs(x)) > 1e3, jnp.nan, 0.0) * x[0]

    starts = jax.random.normal(jax.random.key(1), (8, 5)).at[3, 0].set(2e3)
    sampler_fn = partial(samplers.sgld, step_size=0.5)
    found = mixing(jax.random.key(0), sampler_fn, breaks, starts, num_steps=400)
    assert np.isnan(found["rhat_pixel"])
    healthy = mixing(jax.random.key(0), sampler_fn, normal, starts.at[3].set(0.0), num_steps=400)
    assert healthy["rhat_pixel"] < 1.1


def test_descent_reports_the_distance_and_no_acceptance():
    """Each step halves the distance: to 1/2 after five, the first kept, 1/16 after eight."""
    found = mixing(
        jax.random.key(0),
        partial(samplers.gradient_descent, step_size=0.5),
        normal,
        jnp.array([[16.0], [-16.0]]),
        num_steps=8,
    )
    assert np.isnan(found["acceptance"])
    assert found["squared_distance"] == (0.5 - 0.0625) ** 2


@pytest.mark.slow
def test_chains_that_draw_a_velocity_at_their_start():
    """All from one place, so that what they move apart by in two short steps is their velocities.

    The squared distance between the first and the last draw is (49 h)^2 of a unit velocity.
    """
    step = 1e-8
    sampler = partial(samplers.underdamped_langevin, step_size=step, friction=1e-9)
    flat = lambda x: 0.0 * jnp.sum(x)  # noqa: E731
    found = mixing(jax.random.key(0), sampler, flat, jnp.zeros((400, 2)), num_steps=100)
    expected = 49**2 * 2 * step
    error = 5 * math.sqrt(2 / 800)  # of the mean of 800 squared normals, relative to it
    assert abs(found["squared_distance"] / expected - 1) < error
