"""Densities on a grid of the plane: their constants and divergences against closed forms."""

import math

import jax
import numpy as np
import pytest
from scipy import stats

from ebmjax.evaluate import Grid

# Sums over cells of smooth functions that vanish at the border are exact to about
# exp(-2 (pi scale / width)^2), nothing at 50 cells a scale; 6 scales to the border leave 1e-8.
GRID = Grid(half_width=6.0, num=300)
EXACT = 1e-7


def gaussian(mean=(0.0, 0.0), scale=1.0, grid=GRID):
    """Minus energy: without its constant."""
    squares = np.sum((grid.centres - np.asarray(mean)) ** 2, axis=1)
    return (-0.5 * squares / scale**2).reshape(grid.num, grid.num)


def test_normalising_finds_the_constant_of_a_gaussian():
    learned = GRID.normalise(gaussian(scale=0.7) + 123.4)
    expected = stats.multivariate_normal.logpdf(GRID.centres, cov=0.49 * np.eye(2)).reshape(
        300, 300
    )
    np.testing.assert_allclose(learned, expected, atol=EXACT)
    assert GRID.mass(np.exp(learned)) == pytest.approx(1.0, abs=1e-12)


def test_divergences_of_two_gaussians():
    """TV of equal widths at distance d: 2 Phi(d / 2) - 1; KL: d^2 / 2."""
    first = GRID.normalise(gaussian((0.3, -0.4)))
    second = GRID.normalise(gaussian((-0.3, 0.4)))
    # The kink of the absolute difference costs order width^2 = 1.6e-3, times a density of 0.16.
    expected = 2 * stats.norm.cdf(0.5) - 1
    variation = GRID.total_variation(np.exp(first), np.exp(second))
    assert variation == pytest.approx(expected, abs=3e-4)
    assert GRID.kl_divergence(first, second) == pytest.approx(0.5, abs=1e-5)


def test_kl_of_a_density_with_empty_cells():
    """Uniform on a quarter of the grid, against uniform on all of it: log 4."""
    whole = GRID.normalise(np.zeros((300, 300)))
    quarter = np.full((300, 300), -np.inf)
    quarter[:150, :150] = 0.0
    quarter = GRID.normalise(quarter)
    assert GRID.kl_divergence(quarter, whole) == pytest.approx(math.log(4), abs=1e-12)
    assert GRID.total_variation(np.exp(quarter), np.exp(whole)) == pytest.approx(0.75, abs=1e-12)


def test_border_mass_of_a_flat_density_and_of_none():
    assert GRID.border_mass(np.zeros((300, 300))) == pytest.approx(1 - 0.9**2, abs=1e-9)
    inside = (1 - 2 * stats.norm.sf(5.4)) ** 2
    assert GRID.border_mass(gaussian()) == pytest.approx(1 - inside, abs=1e-8)
    assert GRID.border_mass(GRID.centres[:, 0].reshape(300, 300) * 100) > 0.999
    assert GRID.border_mass(np.full((300, 300), np.nan)) == 1.0


def test_smoothed_histogram_is_a_kernel_density_estimate():
    """Against the mean of the kernels, one for each point."""
    points = np.random.default_rng(0).normal(size=(400, 2)) * [1.0, 0.5]
    grid = Grid(half_width=6.0, num=240)
    bandwidth = 0.3
    direct = np.mean(
        [stats.multivariate_normal.pdf(grid.centres, point, bandwidth**2) for point in points],
        axis=0,
    ).reshape(240, 240)
    estimate = grid.histogram(points, bandwidth)
    # Moving a point to the centre of its cell adds a variance of width^2 / 12, 0.2 % of the
    # kernel's; the filter is cut at 4 bandwidths, 3e-4 of the mass.
    assert grid.total_variation(direct, estimate) < 5e-3
    assert grid.mass(estimate) == pytest.approx(1.0, abs=1e-6)


def test_points_outside_and_not_finite_are_missing_mass():
    points = np.array([[0.0, 0.0], [np.nan, 0.0], [7.0, 0.0], [np.inf, 0.0]])
    assert GRID.mass(GRID.histogram(points, 0.2)) == pytest.approx(0.25, abs=1e-6)


def test_draws_from_a_grid_follow_it():
    grid = Grid(half_width=2.0, num=4)
    density = np.arange(16.0).reshape(4, 4)
    with np.errstate(divide="ignore"):
        log_density = np.log(density) - 2000.0  # whose exponential is 0
    draws = grid.draw(jax.random.key(3), log_density, 20_000)
    counts = np.histogram2d(*draws.T, bins=4, range=[(-2.0, 2.0)] * 2)[0].ravel()
    assert counts[0] == 0
    expected = 20_000 * density.ravel() / density.sum()
    assert stats.chisquare(counts[1:], expected[1:]).pvalue > 2 * stats.norm.sf(5)
    places = (draws + 2.0) % 1.0
    assert stats.kstest(places.ravel(), "uniform").pvalue > 2 * stats.norm.sf(5)
