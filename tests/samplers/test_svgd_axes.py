"""One particle system spread over mapped axes: the same step, computed once, on any devices."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from spread_systems import spread_over

from ebmjax.samplers import stochastic_svgd as stochastic
from ebmjax.samplers import svgd, svgd_direction, svgd_init

EPS = float(np.finfo(np.float32).eps)
NUM_PARTICLES, DIMENSION, STEP_SIZE = 24, 3, 0.3


def log_density(particle):
    """Skewed, and coupled between the leaves."""
    x = jnp.concatenate([particle["a"][None], particle["b"].ravel()])
    return jnp.sum(1.5 * x - jnp.exp(x)) - 0.2 * jnp.sum(x) ** 2


def cloud():
    """Particles of two leaves around (5, 5, 5), three of them in one place."""
    rows = 5 + np.random.default_rng(0).normal(size=(NUM_PARTICLES, DIMENSION))
    rows[[7, 20]] = rows[0]
    x = jnp.asarray(rows, jnp.float32)
    return {"a": x[:, 0], "b": x[:, 1:].reshape(NUM_PARTICLES, 2, 1)}


def shifted(particle):
    """``log_density`` around the cloud."""
    return log_density(jax.tree.map(lambda leaf: leaf - 5.0, particle))


def bound_on_directions(bandwidth):
    """Largest distance between two orders of the same float32 sums.

    Scores stay below 10 and particles within 3 of their mean, so the n terms of an entry's mean
    are below 10 + 2 * 3 / h^2. Their sum is off by up to n roundings, and each kernel by those of
    its exponent: ten or so of the squared norms of up to 9 d, over 2 h^2.
    """
    terms = 10 + 6 / bandwidth**2
    return (NUM_PARTICLES + 10 * 9 * DIMENSION / (2 * bandwidth**2)) * terms * EPS


def assert_close(got, expected, atol):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=atol), got, expected)


@pytest.mark.parametrize("num_shards", [4, NUM_PARTICLES])
@pytest.mark.parametrize("bandwidth", [None, 0.7])
def test_a_step_of_shards_is_the_step_of_all(num_shards, bandwidth):
    options = {"step_size": STEP_SIZE, "bandwidth": bandwidth}
    whole, spread = svgd(shifted, **options), spread_over(num_shards, svgd, shifted, **options)
    key, state = jax.random.key(0), svgd_init(cloud(), shifted)
    expected, info = jax.jit(whole.step)(key, state)
    got, infos = jax.jit(spread.step)(key, state)
    atol = bound_on_directions(float(info.bandwidth))
    assert_close(got, expected, STEP_SIZE * atol + 16 * EPS)  # positions below 16 are rounded, too
    assert_close(infos.bandwidth, jnp.full(num_shards, info.bandwidth), 4 * EPS)
    assert_close(infos.log_density.ravel(), info.log_density, 100 * EPS)
    norm = jnp.sqrt(jnp.mean(infos.direction_norm**2))  # each member's own
    assert_close(norm, info.direction_norm, np.sqrt(DIMENSION) * atol)


@pytest.mark.parametrize("names", ["shard", ("data", "shard")])
def test_an_axis_that_is_not_mapped(names):
    message = f"^axis_name must name axes that are mapped.*got axis_name={re.escape(repr(names))}"
    with pytest.raises(ValueError, match=message):
        svgd_direction(cloud(), log_density, axis_name=names)
    for make in (svgd, stochastic):
        sampler = make(log_density, step_size=0.1, axis_name=names)
        with pytest.raises(ValueError, match=message):
            jax.jit(sampler.step)(jax.random.key(0), sampler.init(cloud()))
