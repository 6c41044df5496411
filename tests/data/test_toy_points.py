"""Toy points: their densities against scipy, their draws against their densities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ebmjax.data import (
    circle_means,
    gaussian_mixture_log_density,
    gaussian_mixture_points,
    ring_log_density,
    ring_points,
)

NUM = 20_000
FIVE_SIGMA = 2 * stats.norm.sf(5)
MEANS = np.array([[1.0, 0.0], [-1.0, 0.5], [0.0, -2.0]])
WEIGHTS = np.array([1.0, 2.0, 5.0])  # not normalised, not symmetric
MIXTURE = {"means": MEANS, "scale": 0.3, "weights": WEIGHTS}
# The inner ring is narrow: many of its distances are folded at the origin.
RINGS = {"radii": np.array([0.2, 2.5]), "scale": 0.2, "weights": np.array([3.0, 1.0])}
# Relative, of a float32 log density: eps times the largest term, (distance / scale)^2 / 2 < 200.
FLOAT_ERROR = 200 * np.finfo(np.float32).eps * 4


def test_means_on_a_circle():
    means = np.asarray(circle_means(4, 10.0))
    np.testing.assert_allclose(means, [[10, 0], [0, 10], [-10, 0], [0, -10]], atol=1e-5)


def test_mixture_density_is_scipys():
    places = np.random.default_rng(0).uniform(-3, 3, (50, 2))
    shares = WEIGHTS / WEIGHTS.sum()
    expected = np.log(
        sum(
            share * stats.multivariate_normal.pdf(places, mean, 0.3**2)
            for share, mean in zip(shares, MEANS, strict=True)
        )
    )
    density = jax.jit(jax.vmap(lambda x: gaussian_mixture_log_density(x, **MIXTURE)))
    np.testing.assert_allclose(density(jnp.asarray(places)), expected, atol=FLOAT_ERROR)


def test_ring_density_integrates_to_one_in_polar_coordinates():
    """Integrates over the radius at two angles: the density depends on the radius alone."""
    for angle in (0.0, 2.0):
        direction = jnp.array([np.cos(angle), np.sin(angle)])
        density = jax.jit(lambda r, d=direction: jnp.exp(ring_log_density(r * d, **RINGS)))
        step = 0.002
        radii = step * (np.arange(2500) + 0.5)
        values = 2 * np.pi * radii * np.asarray(jax.vmap(density)(jnp.asarray(radii)))
        # The midpoint rule errs by step^2 / 24 times the change of slope between the ends, which
        # is 0 at both: the folded integrand is even. What is left is float32's, below 1e-5.
        assert step * values.sum() == pytest.approx(1.0, abs=1e-5)


def test_mixture_draws_have_the_moments_of_the_mixture():
    points = np.asarray(gaussian_mixture_points(jax.random.key(0), NUM, **MIXTURE), np.float64)
    shares = WEIGHTS / WEIGHTS.sum()
    mean = shares @ MEANS
    covariance = (MEANS - mean).T @ np.diag(shares) @ (MEANS - mean) + 0.09 * np.eye(2)
    assert points.shape == (NUM, 2)
    standard_error = np.sqrt(np.diag(covariance) / NUM)
    assert np.all(np.abs(points.mean(axis=0) - mean) < 5 * standard_error)
    # Of each component's share, by the nearest mean: they are 7 scales apart and more.
    nearest = np.argmin(np.linalg.norm(points[:, None] - MEANS, axis=-1), axis=1)
    counts = np.bincount(nearest, minlength=3)
    assert stats.chisquare(counts, NUM * shares).pvalue > FIVE_SIGMA
    offsets = (points - MEANS[nearest]) / 0.3
    for coordinate in offsets.T:
        assert stats.kstest(coordinate, "norm").pvalue > FIVE_SIGMA


def test_ring_draws_follow_radius_and_angle():
    points = np.asarray(ring_points(jax.random.key(1), NUM, **RINGS), np.float64)
    distance = np.linalg.norm(points, axis=1)
    angle = np.arctan2(points[:, 1], points[:, 0])

    def cumulative(r):
        terms = [
            share * (stats.norm.cdf(r, radius, 0.2) - stats.norm.cdf(-r, radius, 0.2))
            for share, radius in zip([0.75, 0.25], RINGS["radii"], strict=True)
        ]
        return sum(terms)

    assert stats.kstest(distance, cumulative).pvalue > FIVE_SIGMA
    assert stats.kstest(angle, stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > FIVE_SIGMA


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"scale": 0.0}, "scale must be positive and finite, got scale=0.0"),
        ({"means": np.zeros(3)}, r"means must have shape \(components, d\), got shape \(3,\)"),
        ({"means": np.zeros((3, 1))}, r"position must be one point .*jax.vmap"),
        ({"weights": [1.0, 2.0]}, "weights must be one for each of the 3 means"),
        ({"weights": [1.0, -2.0, np.nan]}, "weights must be zero or more"),
    ],
)
def test_a_mixture_that_is_none(changes, expected):
    with pytest.raises(ValueError, match=expected):
        gaussian_mixture_log_density(jnp.zeros(2), **(MIXTURE | changes))


@pytest.mark.parametrize("changes", [{"radii": [-1.0, 1.0]}, {"num": 0}, {"weights": [1.0]}])
def test_rings_that_are_none(changes):
    with pytest.raises(ValueError, match=f"{next(iter(changes))} must be"):
        ring_points(jax.random.key(0), **({"num": 3} | RINGS | changes))
