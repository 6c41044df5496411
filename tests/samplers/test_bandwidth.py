"""The median rules against numpy's median over scipy's pairwise distances."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from ebmjax.samplers._bandwidth import median_rule
from ebmjax.samplers._svgd import squared_distances


def median_bandwidth(squared, rule=None):
    return median_rule(squared, rule)[0]


compiled_rule = jax.jit(median_bandwidth, static_argnums=1)
both_rules = pytest.mark.parametrize("rule", [None, "median"])


def by_numpy(pair_distances, num_particles, rule=None):
    length = 1.0 if rule == "median" else np.sqrt(2 * np.log(num_particles))
    return float(np.median(pair_distances) / length)


def symmetric(pair_values, dtype):
    return jnp.asarray(squareform(np.asarray(pair_values, dtype)))


# 1, 3, 6, 10, 15, 21, 28 pairs: odd counts have one median, even counts the mean of two.
@pytest.mark.parametrize("num_particles", [2, 3, 4, 5, 6, 7, 8, 60])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@both_rules
def test_is_the_median(num_particles, dtype, rule):
    with jax.enable_x64(dtype == np.float64):
        generator = np.random.default_rng(num_particles)
        distances = pdist(generator.normal(size=(num_particles, 3)))
        # Scales that exercise every bit of the exponent.
        for scale in (1e-12, 1.0, 1e12):
            squared = np.asarray((scale * distances) ** 2, dtype)
            bandwidth = compiled_rule(symmetric(squared, dtype), rule)
            assert bandwidth.dtype == dtype
            expected = by_numpy(np.sqrt(squared.astype(np.float64)), num_particles, rule)
            # Two roots, a sum, a square, a division and a root: below eight roundings.
            np.testing.assert_allclose(bandwidth, expected, rtol=8 * np.finfo(dtype).eps)


@pytest.mark.parametrize("num_particles", [4, 5, 8])
def test_ties(num_particles):
    """Distances from {1, 2, 3}: the median falls within a run of equal values, or between two."""
    num_pairs = num_particles * (num_particles - 1) // 2
    for seed in range(20):
        distances = np.random.default_rng(seed).integers(1, 4, num_pairs).astype(np.float32)
        bandwidth = compiled_rule(symmetric(distances**2, np.float32))
        np.testing.assert_allclose(bandwidth, by_numpy(distances, num_particles), rtol=1e-6)


@pytest.mark.parametrize(
    "distances", [[0.0, 0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 2.0, 3.0, 4.0]]
)
def test_zeros_below_the_median_and_in_the_middle(distances):
    bandwidth = compiled_rule(symmetric(np.square(distances), np.float32))
    np.testing.assert_allclose(bandwidth, by_numpy(np.array(distances), 4), rtol=1e-6)


@both_rules
def test_root_mean_square_where_the_median_is_zero(rule):
    distances = np.array([0.0, 0.0, 0.0, 0.0, 3.0, 4.0])
    bandwidth = compiled_rule(symmetric(distances**2, np.float32), rule)
    expected = by_numpy(np.sqrt(np.mean(distances**2)), 4, rule)
    np.testing.assert_allclose(bandwidth, expected, rtol=1e-6)


@pytest.mark.parametrize("num_particles", [1, 2, 5])
@both_rules
def test_one_where_all_coincide(num_particles, rule):
    assert median_bandwidth(jnp.zeros((num_particles, num_particles)), rule) == 1.0


def bandwidth_of(x, rule):
    return median_bandwidth(squared_distances(x), rule)


slope_of_bandwidth = jax.jit(jax.grad(bandwidth_of), static_argnums=1)


@pytest.mark.parametrize("num_particles", [2, 4, 5])
@both_rules
def test_derivative(num_particles, rule):
    """Against central differences in float64, whose error is about 1e-6^2 + 1e-16 / 1e-6."""
    with jax.enable_x64(True):
        x = jnp.asarray(np.random.default_rng(1).normal(size=(num_particles, 2)))

        shifts = 1e-6 * jnp.eye(x.size).reshape(x.size, *x.shape)
        of_each = jax.jit(jax.vmap(partial(bandwidth_of, rule=rule)))
        up, down = of_each(x[None] + shifts), of_each(x[None] - shifts)
        numeric = np.reshape((up - down) / 2e-6, x.shape)
        assert np.any(numeric != 0)
        np.testing.assert_allclose(slope_of_bandwidth(x, rule), numeric, atol=1e-8)


def test_derivative_is_finite_where_particles_coincide():
    x = jnp.array([[0.0], [0.0], [0.0], [0.0], [2.0]])
    for particles in (x, x[:4], x[:1]):
        assert np.all(np.isfinite(slope_of_bandwidth(particles, None)))
