"""The tilted Langevin sampler: its Gaussian, its stationary law, its acceptance."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from ebmjax.samplers import (
    _tilted_langevin,
    fit_factor_gaussian,
    tilted_langevin,
    tilted_langevin_init,
    tilted_langevin_step,
)

SHAPE = (2, 3, 1)
IMAGES = np.random.default_rng(0).normal(size=(40, 6)) @ np.diag([2.0, 1.0, 0.5, 0.3, 0.2, 0.1])
IMAGES = IMAGES.reshape(40, *SHAPE)


def times_covariance(base, x, index=0):
    """The covariance of one Gaussian times ``x``."""
    one = base.one(index)
    return one.colour(*one.whiten(jnp.asarray(x, jnp.float32), 1.0))


def covariance_of(base, index=0):
    """The covariance that one Gaussian stands for, column by column."""
    columns = [times_covariance(base, row.reshape(SHAPE), index).ravel() for row in np.eye(6)]
    return np.stack(columns, axis=1)


def test_fewer_images_than_pixels_give_the_same_as_by_the_large_matrix():
    few = IMAGES[:4]
    base = fit_factor_gaussian(few, num_directions=6, jitter=0.01)
    expected = np.cov(few.reshape(4, 6).T, bias=True)
    values, vectors = np.linalg.eigh(expected)
    kept = vectors[:, -3:] * values[-3:] @ vectors[:, -3:].T + 0.01 * np.eye(6)
    assert base.directions.shape == (6, 3)
    np.testing.assert_allclose(covariance_of(base), kept, rtol=1e-4, atol=1e-6)


def test_each_class_has_its_own_moments_and_its_own_points():
    labels = np.repeat([0, 1], 20)
    images = IMAGES * np.where(labels, 1.5, 1.0).reshape(40, 1, 1, 1)
    base = fit_factor_gaussian(images, labels, num_directions=6, jitter=0.01)
    for label in (0, 1):
        own = images[labels == label].reshape(20, 6)
        expected = np.cov(own.T, bias=True) + 0.01 * np.eye(6)
        np.testing.assert_allclose(covariance_of(base, label), expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(np.ravel(base.mean[label]), own.mean(axis=0), rtol=1e-5)
    points = np.concatenate([images, 2.0 * images])
    found = jax.vmap(base.find_likeliest)(jnp.asarray(points, jnp.float32))
    logs = [
        multivariate_normal(np.ravel(base.mean[label]), covariance_of(base, label)).logpdf(
            points.reshape(80, 6)
        )
        for label in (0, 1)
    ]
    np.testing.assert_array_equal(found, np.argmax(logs, axis=0))
    densities = np.asarray(jax.vmap(base.log_densities)(jnp.asarray(points, jnp.float32)))
    np.testing.assert_allclose(densities, np.transpose(logs), rtol=2e-4)
    assert 0.2 < np.mean(found) < 0.8


@pytest.mark.parametrize("counts", [(20, 20), (37, 3)])
def test_the_density_of_the_mixture_is_scipys(counts):
    """It lacks the constant of six coordinates, and a class weighs as many images as it has."""
    base = fit_factor_gaussian(IMAGES, np.repeat([0, 1], counts), num_directions=3)
    x = jnp.asarray(IMAGES[25], jnp.float32)
    parts = [
        count
        / 40
        * multivariate_normal(np.ravel(base.mean[k]), covariance_of(base, k)).pdf(x.ravel())
        for k, count in enumerate(counts)
    ]
    found = float(base.log_density(x))
    assert found == pytest.approx(np.log(sum(parts)), rel=1e-4)


def test_directions_take_no_more_numbers_than_allowed(monkeypatch):
    monkeypatch.setattr(_tilted_langevin, "MAX_ENTRIES", 24)
    base = fit_factor_gaussian(IMAGES, np.repeat([0, 1], 20))
    assert base.directions.shape == (6, 4)


@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_chains_have_the_law_of_the_tilted_gaussian(temperature):
    """f(x) = a . x moves the mean by Sigma a / T and keeps the covariance.

    5 standard errors over 2,000 independent chains of 60 steps. A move halves a distance from the
    mean. If none were taken back, variances would be 4/3 as large.
    """
    base = fit_factor_gaussian(IMAGES, num_directions=6, jitter=0.01)
    slope = temperature * jnp.array([0.2, -0.5, 0.3, 1.0, 0.0, 2.0]).reshape(SHAPE)
    step_size, num = 0.5 / temperature, 2000
    sampler = tilted_langevin(
        lambda x: jnp.vdot(slope, x), base=base, step_size=step_size, temperature=temperature
    )
    keys = jax.random.split(jax.random.key(1), num)

    @jax.jit
    def run(key):
        state = sampler.init(base.mean[0])
        step = sampler.step
        return jax.lax.scan(lambda s, k: (step(k, s)[0], None), state, jax.random.split(key, 60))[0]

    found = np.asarray(jax.vmap(run)(keys).position).reshape(num, 6)
    spread = covariance_of(base)
    mean = np.asarray(base.mean[0] + times_covariance(base, slope) / temperature).ravel()
    error = np.sqrt(np.diag(spread) / num)
    assert np.all(np.abs(found.mean(axis=0) - mean) < 5 * error)
    variances = found.var(axis=0)
    assert np.all(np.abs(variances / np.diag(spread) - 1) < 5 * np.sqrt(2 / num))


def test_the_acceptance_is_that_of_metropolis_and_hastings():
    """The densities of the move and of its way back are written out."""
    base = fit_factor_gaussian(IMAGES, num_directions=6, jitter=0.01)
    temperature, step_size = 0.5, 0.3
    curve = lambda x: -0.05 * jnp.sum(x**4)  # noqa: E731
    start = base.mean[0] + 0.3 * jnp.asarray(IMAGES[1], jnp.float32)
    state = tilted_langevin_init(start, curve)
    options = {"base": base, "step_size": step_size, "temperature": temperature}
    new, info = tilted_langevin_step(jax.random.key(3), state, curve, **options)
    sigma = covariance_of(base).astype(float)

    def off(state):
        return np.asarray(state.position - base.mean[0], float).ravel()

    def log_density(state):
        return state.log_density - 0.5 * temperature * off(state) @ np.linalg.solve(
            sigma, off(state)
        )

    def log_move(there, back):
        drift = step_size * (sigma @ np.asarray(there.score, float).ravel())
        rest = off(back) - off(there) - drift + step_size * temperature * off(there)
        return -0.5 * rest @ np.linalg.solve(2 * step_size * temperature * sigma, rest)

    ratio = (log_density(new) - log_density(state)) / temperature
    ratio += log_move(new, state) - log_move(state, new)
    assert info.is_accepted  # else the new state is the old one
    assert -3 < ratio < -0.01  # else many a wrong ratio would pass
    np.testing.assert_allclose(info.acceptance_prob, min(1.0, np.exp(ratio)), rtol=1e-3)


def test_starts_have_the_moments_of_their_class():
    """5 standard errors of 4,000 draws."""
    images = np.concatenate([IMAGES[:20], 2.0 + IMAGES[20:]])
    base = fit_factor_gaussian(images, np.repeat([0, 1], 20), num_directions=3)
    keys = jax.random.split(jax.random.key(5), 4000)
    for label in (0, 1):
        draws = jax.vmap(base.draw, (0, None))(keys, jnp.int32(label))
        found, variance = np.asarray(draws).reshape(-1, 6), np.diag(covariance_of(base, label))
        error = np.sqrt(variance / 4000)
        assert np.all(np.abs(found.mean(axis=0) - np.ravel(base.mean[label])) < 5 * error)
        assert np.all(np.abs(found.var(axis=0) / variance - 1) < 5 * np.sqrt(2 / 4000))
