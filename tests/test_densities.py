"""Densities: the sign, temperature, box, compositions; targets against numerical integration."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, softmax
from scipy.stats import norm

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


def normal(mean: float, scale: float) -> Any:
    """The log density of N(mean, scale^2), normalised."""
    return lambda x: -0.5 * ((x - mean) / scale) ** 2 - jnp.log(scale) - 0.5 * jnp.log(2 * jnp.pi)


@pytest.mark.parametrize("powers", [(1.0, 1.0), (0.5, 2.0), (1.0, -0.3)])
def test_a_product_of_gaussians_is_a_gaussian(powers: tuple[float, float]) -> None:
    """Precisions add, times their powers; a negative power is a negation."""
    means = np.array([1.0, -2.0]), np.array([0.5, 3.0])
    covariances = np.array([[2.0, 0.6], [0.6, 0.5]]), np.array([[1.0, -0.2], [-0.2, 3.0]])
    parts = [
        densities.gaussian(*map(jnp.asarray, pair)) for pair in zip(means, covariances, strict=True)
    ]
    both = densities.product([part.log_density_fn for part in parts], powers)
    if powers == (1.0, 1.0):  # the default
        both = densities.product([part.log_density_fn for part in parts])

    precisions = [w * np.linalg.inv(c) for w, c in zip(powers, covariances, strict=True)]
    precision = precisions[0] + precisions[1]
    assert np.linalg.eigvalsh(precision).min() > 0  # so it is normalisable
    mean = np.linalg.solve(precision, precisions[0] @ means[0] + precisions[1] @ means[1])
    points = np.random.default_rng(0).normal(size=(50, 2)) * 3
    offsets = points - mean
    exact = -0.5 * np.einsum("ni,ij,nj->n", offsets, precision, offsets)
    found = jax.vmap(both)(jnp.asarray(points, jnp.float32))
    centre = float(both(jnp.asarray(mean, jnp.float32)))
    # Sums of a few numbers below 100, each rounded to float32.
    np.testing.assert_allclose(found - centre, exact, rtol=1e-5, atol=1e-4)
    score = jax.grad(both)(jnp.asarray(points[0], jnp.float32))
    np.testing.assert_allclose(score, -precision @ offsets[0], rtol=1e-4, atol=1e-5)


def test_a_mixture_is_the_weighted_sum_at_every_point() -> None:
    laws, weights = [(-2.0, 0.5), (1.0, 1.5), (4.0, 0.2)], (0.2, 2.0, 0.7)
    found = densities.mixture([normal(*law) for law in laws], weights)
    x = np.linspace(-12, 12, 201)
    logs = np.stack([norm.logpdf(x, *law) for law in laws])
    exact = np.log(np.array(weights) @ np.exp(logs))
    np.testing.assert_allclose(jax.vmap(found)(jnp.asarray(x)), exact, rtol=1e-5, atol=1e-5)
    equal = densities.mixture([normal(*law) for law in laws])
    exact = np.log(np.sum(np.exp(logs[:, 100])))
    np.testing.assert_allclose(equal(jnp.float32(x[100])), exact, rtol=1e-5)


@pytest.mark.parametrize("weight", [0.0, 1.0, 2.5])
def test_guidance_by_a_linear_classifier_of_gaussians(weight: float) -> None:
    """Two Gaussians of equal scale and Bayes' classifier of them: at weight 1 one of the two."""
    m = 1.2
    either = densities.mixture([normal(-m, 1.0), normal(m, 1.0)], [0.5, 0.5])
    found = densities.guide(either, lambda x: jnp.stack([-m * x, m * x]), 1, weight)
    x = np.linspace(-5, 5, 101)
    of_either = np.logaddexp(norm.logpdf(x, -m), norm.logpdf(x, m)) + np.log(0.5)
    exact = of_either + weight * np.log(expit(2 * m * x))
    if weight == 1.0:
        np.testing.assert_allclose(exact, norm.logpdf(x, m) + np.log(0.5))
    np.testing.assert_allclose(jax.vmap(found)(jnp.asarray(x)), exact, rtol=1e-5, atol=1e-5)


def test_guidance_by_a_linear_classifier_of_many_classes() -> None:
    """A Gaussian, and any linear logits: the score is the Gaussian's and the classifier's."""
    weights = np.array([[1.0, 0.0], [0.0, 2.0], [-1.0, 1.0]])
    target = densities.gaussian(jnp.zeros(2), jnp.eye(2))
    x, label, weight = jnp.array([0.4, -0.7]), jnp.int32(2), 1.5
    found = densities.guide(target.log_density_fn, lambda x: weights @ x, label, weight)
    probabilities = softmax(weights @ np.asarray(x))
    exact = -np.asarray(x) + weight * (weights[2] - probabilities @ weights)
    np.testing.assert_allclose(jax.grad(found)(x), exact, rtol=1e-5)


def test_numbers_of_compositions_may_be_traced() -> None:
    def value(a: jax.Array) -> jax.Array:
        one, two = normal(0.0, 1.0), normal(1.0, 2.0)
        both = densities.product([one, two], [1.0, a])
        return both(0.5) + densities.mixture([one, two], [1.0, a])(0.5)

    np.testing.assert_allclose(jax.jit(value)(jnp.float32(0.7)), value(jnp.float32(0.7)), rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: densities.product([]), "powers must be one for each of at least one density"),
        (lambda: densities.product([energy], [1.0, 2.0]), "got 2 for 1"),
        (lambda: densities.product([energy], [jnp.ones(2)]), "powers must be a scalar"),
        (lambda: densities.mixture([energy, energy], [1.0]), "weights must be one for each"),
        (lambda: densities.mixture([energy], [0.0]), "weights must be positive and finite"),
        (lambda: densities.guide(energy, energy, 0, 1.0)(POSITION), "logits_fn must return log"),
        (lambda: densities.guide(energy, lambda x: x["a"], 2, 1.0)(POSITION), "label must"),
        (lambda: densities.guide(energy, lambda x: x["a"], -1, 1.0)(POSITION), "label must"),
        (lambda: densities.guide(energy, lambda x: x["a"], 0, jnp.ones(2)), "weight must be a sc"),
    ],
)
def test_compositions_refuse(make: Any, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        make()


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
