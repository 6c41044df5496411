"""The tilted Langevin sampler: its Gaussian, its stationary law, its acceptance."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.samplers import (
    factor_gaussian_start,
    fit_factor_gaussian,
    tilted_langevin,
    tilted_langevin_init,
    tilted_langevin_step,
)

SHAPE = (2, 3, 1)
IMAGES = np.random.default_rng(0).normal(size=(40, 6)) @ np.diag([2.0, 1.0, 0.5, 0.3, 0.2, 0.1])
IMAGES = IMAGES.reshape(40, *SHAPE)


def covariance_of(base):
    """The covariance that ``base`` stands for, column by column."""
    columns = [base.apply(lambda v: v, row.reshape(SHAPE)).ravel() for row in np.eye(6)]
    return np.stack(columns, axis=1)


def test_all_directions_give_the_covariance_of_the_images():
    base = fit_factor_gaussian(IMAGES, 6, jitter=0.01)
    expected = np.cov(IMAGES.reshape(40, 6).T, bias=True) + 0.01 * np.eye(6)
    np.testing.assert_allclose(covariance_of(base), expected, rtol=1e-5, atol=1e-6)


def test_few_directions_keep_the_total_variance_and_the_largest_ones():
    base = fit_factor_gaussian(IMAGES, 2, jitter=1e-9)
    found, expected = covariance_of(base), np.cov(IMAGES.reshape(40, 6).T, bias=True)
    np.testing.assert_allclose(np.trace(found), np.trace(expected), rtol=1e-5)
    largest = np.linalg.eigvalsh(found)[-2:]
    np.testing.assert_allclose(largest, np.linalg.eigvalsh(expected)[-2:], rtol=1e-5)


def test_fewer_images_than_pixels_give_the_same_as_by_the_large_matrix():
    few = IMAGES[:4]
    base = fit_factor_gaussian(few, 6, jitter=0.01)
    expected = np.cov(few.reshape(4, 6).T, bias=True)
    values, vectors = np.linalg.eigh(expected)
    kept = vectors[:, -3:] * values[-3:] @ vectors[:, -3:].T + 0.01 * np.eye(6)
    assert base.directions.shape == (6, 3)
    np.testing.assert_allclose(covariance_of(base), kept, rtol=1e-4, atol=1e-6)


def test_functions_of_the_covariance_agree():
    base = fit_factor_gaussian(IMAGES, 3)
    x = jnp.asarray(IMAGES[0], jnp.float32)
    once = base.apply(jnp.sqrt, base.apply(jnp.sqrt, x))
    np.testing.assert_allclose(once, base.apply(lambda v: v, x), rtol=1e-4, atol=1e-5)
    inverse = base.apply(jnp.reciprocal, base.apply(lambda v: v, x))
    np.testing.assert_allclose(inverse, x, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_chains_have_the_law_of_the_tilted_gaussian(temperature):
    """f(x) = a . x moves the mean by Sigma a / T and keeps the covariance.

    A step h = 2 epsilon T is an autoregression in the Gaussian's own coordinates, whose variance is
    1 / (1 - h / 4), h = 0.2. 5 standard errors over 2,000 independent chains.
    """
    base = fit_factor_gaussian(IMAGES, 6, jitter=0.01)
    slope = temperature * jnp.array([0.2, -0.5, 0.3, 1.0, 0.0, 2.0]).reshape(SHAPE)
    step_size, num = 0.1 / temperature, 2000
    sampler = tilted_langevin(
        lambda x: jnp.vdot(slope, x), base=base, step_size=step_size, temperature=temperature
    )
    keys = jax.random.split(jax.random.key(1), num)

    @jax.jit
    def run(key):
        state = sampler.init(base.mean)
        step = sampler.step
        return jax.lax.scan(lambda s, k: (step(k, s)[0], None), state, jax.random.split(key, 60))[0]

    found = np.asarray(jax.vmap(run)(keys).position).reshape(num, 6)
    spread = covariance_of(base) / (1 - 0.1 * 2 / 4)
    mean = np.asarray(base.mean + base.apply(lambda v: v, slope) / temperature).ravel()
    error = np.sqrt(np.diag(spread) / num)
    assert np.all(np.abs(found.mean(axis=0) - mean) < 5 * error)
    variances = found.var(axis=0)
    assert np.all(np.abs(variances / np.diag(spread) - 1) < 5 * np.sqrt(2 / num))


def test_the_acceptance_is_that_of_metropolis_and_hastings():
    """The densities of the move and of its way back are written out."""
    base = fit_factor_gaussian(IMAGES, 6, jitter=0.01)
    temperature, step_size = 0.5, 0.3
    curve = lambda x: -0.05 * jnp.sum(x**4)  # noqa: E731
    start = base.mean + 0.3 * jnp.asarray(IMAGES[1], jnp.float32)
    state = tilted_langevin_init(start, curve)
    options = {"base": base, "step_size": step_size, "temperature": temperature}
    new, info = tilted_langevin_step(jax.random.key(3), state, curve, **options)
    sigma = covariance_of(base).astype(float)

    def off(state):
        return np.asarray(state.position - base.mean, float).ravel()

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
    assert -3 < ratio < -0.01  # else many a wrong ratio would pass
    np.testing.assert_allclose(info.acceptance_prob, min(1.0, np.exp(ratio)), rtol=1e-3)


@pytest.mark.parametrize("name", ["step_size", "temperature"])
def test_numbers_out_of_range_are_refused(name):
    base = fit_factor_gaussian(IMAGES, 2)
    options = {"base": base, "step_size": 0.1, "temperature": 1.0, name: 0.0}
    state = tilted_langevin_init(jnp.zeros(SHAPE), lambda x: -jnp.sum(x**2))
    with pytest.raises(ValueError, match=f"{name} must be positive"):
        tilted_langevin_step(jax.random.key(0), state, lambda x: -jnp.sum(x**2), **options)


def test_a_gaussian_needs_two_images():
    with pytest.raises(ValueError, match=r"len\(images\) must be an integer of at least 2"):
        fit_factor_gaussian(IMAGES[:1])


def test_starts_have_the_moments_of_their_class():
    """5 standard errors of 4,000 draws."""
    bases = [fit_factor_gaussian(images, 3) for images in (IMAGES[:20], 2.0 + IMAGES[20:])]
    start_fn = factor_gaussian_start(jax.tree.map(lambda *rows: jnp.stack(rows), *bases))
    keys = jax.random.split(jax.random.key(5), 4000)
    for label, base in enumerate(bases):
        found = np.asarray(jax.vmap(start_fn, (0, None))(keys, jnp.int32(label))).reshape(-1, 6)
        variance = np.diag(covariance_of(base))
        error = np.sqrt(variance / 4000)
        assert np.all(np.abs(found.mean(axis=0) - np.ravel(base.mean)) < 5 * error)
        assert np.all(np.abs(found.var(axis=0) / variance - 1) < 5 * np.sqrt(2 / 4000))
