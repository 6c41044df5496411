"""Densities: the sign, the temperature, the box, and targets against numerical integration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import densities

POSITION = {"a": jnp.array([0.5, -0.2]), "b": jnp.float32(1.0)}


def energy(position: dict[str, jax.Array]) -> jax.Array:
    return jnp.sum(position["a"] ** 2) + 3.0 * position["b"]


def test_from_energy_flips_the_sign_once() -> None:
    log_density_fn = densities.from_energy(energy)
    assert log_density_fn(POSITION) == -energy(POSITION)
    score = jax.grad(log_density_fn)(POSITION)
    np.testing.assert_allclose(score["a"], [-1.0, 0.4], rtol=1e-6)
    np.testing.assert_allclose(score["b"], -3.0)


def test_tempered() -> None:
    flat = densities.tempered(energy, 4.0)
    np.testing.assert_allclose(flat(POSITION), energy(POSITION) / 4.0)
    values = jax.jit(jax.vmap(lambda t: densities.tempered(energy, t)(POSITION)))(
        jnp.array([1.0, 2])
    )
    np.testing.assert_allclose(values[0], 2 * values[1])
    with pytest.raises(ValueError, match=r"^temperature must be positive and finite, got temp.*=0"):
        densities.tempered(energy, 0.0)


def test_power_posterior_runs_from_prior_to_posterior() -> None:
    def log_prior(x: jax.Array) -> jax.Array:
        return -0.5 * x**2

    def log_likelihood(x: jax.Array) -> jax.Array:
        return -2.0 * (x - 1.0) ** 2

    x = jnp.float32(0.3)
    for power, expected in ((0.0, -0.045), (1.0, -0.045 - 0.98), (0.25, -0.045 - 0.245)):
        value = densities.power_posterior(log_prior, log_likelihood, power)(x)
        np.testing.assert_allclose(value, expected, rtol=1e-5)


def test_a_temperature_of_several_numbers_is_none() -> None:
    with pytest.raises(ValueError, match=r"temperature must be a scalar, got shape \(2,\)"):
        densities.tempered(jnp.sum, jnp.ones(2))


def test_within_box() -> None:
    restricted = densities.within_box(energy, -0.3, 1.0)
    assert restricted({"a": jnp.array([0.5, -0.2]), "b": jnp.float32(1.0)}) == energy(POSITION)
    assert restricted({"a": jnp.array([0.5, -0.3]), "b": jnp.float32(1.0)}) > -jnp.inf
    assert restricted({"a": jnp.array([0.5, -0.4]), "b": jnp.float32(1.0)}) == -jnp.inf
    assert restricted({"a": jnp.array([0.5, -0.2]), "b": jnp.float32(1.1)}) == -jnp.inf
    inside = jax.grad(restricted)(POSITION)
    np.testing.assert_array_equal(inside["a"], jax.grad(energy)(POSITION)["a"])
    with pytest.raises(ValueError, match=r"^low must be below high, got low=1.0 and high=-0.3"):
        densities.within_box(energy, 1.0, -0.3)


def grid_moments(log_density: np.ndarray, grid: np.ndarray) -> tuple[float, float]:
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    mean = weights @ grid
    return mean, weights @ (grid - mean) ** 2


def test_gaussian_moments() -> None:
    covariance = jnp.array([[2.0, 0.6], [0.6, 0.5]])
    target = densities.gaussian(jnp.array([1.0, -2.0]), covariance)
    axes = np.linspace(-9, 11, 201), np.linspace(-6, 2, 201)
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    log_density = np.asarray(jax.vmap(target.log_density_fn)(points), np.float64)
    weights = np.exp(log_density)
    weights /= weights.sum()
    mean = weights @ points
    np.testing.assert_allclose(mean, target.mean, atol=1e-5)
    found = (points - mean).T @ (weights[:, None] * (points - mean))
    np.testing.assert_allclose(found, covariance, atol=1e-4)
    np.testing.assert_array_equal(target.variance, jnp.diagonal(covariance))


@pytest.mark.parametrize("concentration", [0.8, 1.5, 4.0])
def test_log_gamma_moments(concentration: float) -> None:
    target = densities.log_gamma(concentration)
    grid = np.linspace(-30.0, 5.0, 7001)
    log_density = np.asarray(jax.vmap(target.log_density_fn)(grid), np.float64)
    mean, variance = grid_moments(log_density, grid)
    # Float32 log densities of size 30 are known to 4e-6.
    np.testing.assert_allclose(target.mean, mean, atol=2e-5)
    np.testing.assert_allclose(target.variance, variance, rtol=5e-5)


def test_log_gamma_coordinates_are_independent() -> None:
    both = densities.log_gamma(jnp.array([0.8, 2.0]))
    apart = [densities.log_gamma(c).log_density_fn(x) for c, x in ((0.8, 0.3), (2.0, -1.0))]
    np.testing.assert_allclose(both.log_density_fn(jnp.array([0.3, -1.0])), sum(apart), rtol=1e-6)
    assert both.mean.shape == both.variance.shape == (2,)
