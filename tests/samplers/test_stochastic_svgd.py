"""Stochastic SVGD: its drift and noise by automatic differentiation, its law by simulation."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import assert_mean, assert_moments, run_replicas
from spread_systems import spread_over

from ebmjax import densities
from ebmjax.samplers import stochastic_svgd

BANDWIDTH, WEIGHT = 0.9, 0.2


def log_density(x):
    """Skewed, and coupled between coordinates."""
    return jnp.sum(1.5 * x - jnp.exp(x)) - 0.2 * jnp.sum(x) ** 2


def mobility(particles, bandwidth=BANDWIDTH):
    """D(X) of the derivation, (n d, n d), written from its definition."""
    num_particles, dimension = particles.shape
    differences = particles[:, None, :] - particles[None, :, :]
    squared = jnp.sum(differences**2, axis=-1)
    if bandwidth in (None, "median"):
        distances = jnp.sqrt(squared[jnp.triu_indices(num_particles, 1)])
        length = 1.0 if bandwidth == "median" else jnp.sqrt(2 * jnp.log(num_particles))
        bandwidth = jnp.median(distances) / length
    elif callable(bandwidth):
        bandwidth = bandwidth(squared)
    kernel = jnp.exp(-squared / (2 * bandwidth**2))
    return jnp.kron(kernel + WEIGHT * jnp.eye(num_particles), jnp.eye(dimension)) / num_particles


def exact_drift(particles, temperature, bandwidth=BANDWIDTH):
    """D grad log pi + T div D, the divergence row by row from the whole Jacobian of D."""
    shape, flat = particles.shape, particles.ravel()

    def flat_mobility(flat):
        return mobility(flat.reshape(shape), bandwidth)

    scores = jax.vmap(jax.grad(log_density))(particles).ravel()
    jacobian = jax.jacfwd(flat_mobility)(flat)  # (a, b, c): dD_ab / dX_c
    divergence = jnp.einsum("abb->a", jacobian)
    return (flat_mobility(flat) @ scores + temperature * divergence).reshape(shape)


def drift_and_noise(key, particles, temperature, bandwidth=BANDWIDTH, make=stochastic_svgd):
    """Takes two steps of different size with one key apart: eps b + sqrt(2 eps T / n) eta.

    The noise is that over sqrt(2 eps T), whose covariance is the mobility.
    """

    def displacement(step_size):
        sampler = make(
            log_density,
            step_size=step_size,
            bandwidth=bandwidth,
            temperature=temperature,
            langevin_weight=WEIGHT,
        )
        after, _ = sampler.step(key, sampler.init(particles))
        return after.particles - particles

    once, four_times = displacement(1.0), displacement(4.0)
    drift = (four_times - 2 * once) / 2
    return drift, (once - drift) / jnp.sqrt(2 * temperature)


@pytest.mark.parametrize(
    ("num_particles", "dimension", "bandwidth"),
    [(1, 2, BANDWIDTH), (3, 2, BANDWIDTH), (2, 1, None), (3, 2, "median"), (6, 3, None)],
)
def test_drift_is_that_of_the_derivation(num_particles, dimension, bandwidth):
    """A rule's bandwidth is differentiated too; odd and even numbers of pairs."""
    with jax.enable_x64(True):
        particles = jax.random.normal(jax.random.key(0), (num_particles, dimension), jnp.float64)
        expected = jax.jit(exact_drift, static_argnums=2)(particles, 1.3, bandwidth)
        key = jax.random.key(1)
        drift, _ = jax.jit(drift_and_noise, static_argnums=3)(key, particles, 1.3, bandwidth)
        np.testing.assert_allclose(drift, expected, rtol=1e-11, atol=1e-11)


def test_noise_has_the_covariance_of_the_mobility():
    particles = jnp.array([[0.0, 0.1], [0.6, -0.3], [-0.2, 1.0]])
    keys = jax.random.split(jax.random.key(2), 20_000)
    _, noise = jax.jit(jax.vmap(drift_and_noise, in_axes=(0, None, None)))(keys, particles, 1.3)
    rows = np.asarray(noise, np.float64).reshape(len(keys), 6)
    assert_mean(rows, 0.0)
    assert_mean(rows[:, :, None] * rows[:, None, :], mobility(particles))
    # Of each particle alone it is Gaussian, given the waves too.
    assert_mean(rows**4, 3 * ((1 + WEIGHT) / 3) ** 2)
    assert_mean(rows**6, 15 * ((1 + WEIGHT) / 3) ** 3)


@pytest.mark.slow
@pytest.mark.parametrize("bandwidth", [BANDWIDTH, None, "median"])
def test_shards_move_as_one_system(bandwidth):
    """The drift is that of all particles together. For the law of the noise see below."""
    num_shards, key = 3, jax.random.key(1)
    make = partial(spread_over, num_shards, stochastic_svgd)
    with jax.enable_x64(True):
        particles = jax.random.normal(jax.random.key(0), (6, 2), jnp.float64)
        expected, _ = jax.jit(drift_and_noise, static_argnums=3)(key, particles, 1.3, bandwidth)
        drift, _ = jax.jit(drift_and_noise, static_argnums=(3, 4))(
            key, particles, 1.3, bandwidth, make
        )
        np.testing.assert_allclose(drift, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_particles", "bandwidth", "make"),
    [
        pytest.param(2, BANDWIDTH, stochastic_svgd, marks=pytest.mark.slow),
        pytest.param(3, BANDWIDTH, stochastic_svgd, marks=pytest.mark.slow),
        pytest.param(2, None, stochastic_svgd, marks=pytest.mark.slow),
        pytest.param(3, None, stochastic_svgd, marks=pytest.mark.slow),
        pytest.param(3, "median", stochastic_svgd, marks=pytest.mark.slow),
        (4, BANDWIDTH, partial(spread_over, 4, stochastic_svgd)),
    ],
)
def test_particles_are_independent_draws(num_particles, bandwidth, make):
    """The product law is kept: skewed marginals, uncorrelated particles, T other than 1.

    Replicas start in the law and run for a time of 4, several relaxation times, with two step
    sizes. Twice the finer mean minus the coarser removes the bias of first order in the step;
    what is left, of order 0.1^2 times a constant near 1, is below one standard error.
    """
    concentration, temperature, num_replicas = 2.0, 1.4, 24_000 // num_particles
    target = densities.log_gamma(jnp.array([concentration / temperature]))
    mean, variance = float(target.mean[0] + np.log(temperature)), float(target.variance[0])
    log_gamma = densities.log_gamma(jnp.array([concentration])).log_density_fn

    def draws(step_size, num_steps):
        start_key, key = jax.random.split(jax.random.key(num_steps))
        shape = (num_replicas, num_particles, 1)
        gamma = jax.random.gamma(start_key, concentration / temperature, shape)
        sampler = make(
            log_gamma,
            step_size=step_size,
            bandwidth=bandwidth,
            temperature=temperature,
            langevin_weight=WEIGHT,
        )
        after, _ = run_replicas(key, sampler, jnp.log(temperature * gamma), num_steps)
        return np.asarray(after, np.float64)[:, :, 0] - mean

    coarse, fine = draws(0.1, 40), draws(0.05, 80)

    def extrapolated(statistic):
        return 2 * statistic(fine) - statistic(coarse)

    assert_mean(extrapolated(lambda x: x), 0.0)
    expected = variance * np.eye(num_particles)  # the covariance between particles is zero
    assert_mean(extrapolated(lambda x: x[:, :, None] * x[:, None, :]), expected)


@pytest.mark.parametrize("num_particles", [3, 10])
def test_a_cloud_of_any_size_moves_by_finite_numbers(num_particles):
    cloud = jax.random.normal(jax.random.key(0), (num_particles, 2))
    sampler = stochastic_svgd(lambda x: 0.0 * jnp.sum(x), step_size=1e-3)
    step = jax.jit(sampler.step)
    for scale in (1e-14, 1e-6, 1e6, 1e14):
        after, _ = step(jax.random.key(1), sampler.init(scale * cloud))
        assert np.isfinite(after.particles).all(), scale


def test_coincident_particles_part():
    """The share of independent dynamics gives each its own noise, of variance 2 eps w / n."""
    step_size = 0.1
    sampler = stochastic_svgd(
        log_density, step_size=step_size, bandwidth=BANDWIDTH, langevin_weight=WEIGHT
    )
    particles = jnp.tile(jnp.array([[0.3], [0.3], [1.0]]), (5000, 1, 1))
    after, _ = run_replicas(jax.random.key(4), sampler, particles, 1)
    gap = after[:, 0, 0] - after[:, 1, 0]
    assert np.all(gap != 0)
    assert_moments(gap, 0.0, 2 * (2 * step_size * WEIGHT / 3))
