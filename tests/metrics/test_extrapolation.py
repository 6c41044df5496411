"""Extrapolation in the number of images, against NumPy's least squares and an exact bias."""

import jax
import numpy as np
import pytest
from scipy.special import gammaln

from ebmjax.metrics import (
    extrapolate_to_infinity,
    feature_moments,
    fit_in_inverse_size,
    frechet_distance,
    metric_at_sizes,
)

EPS = np.finfo(np.float64).eps
SIZES = np.array([1000, 1389, 1778, 2167, 2556, 2944, 3333, 3722, 4111, 4500])


def test_extrapolation_finds_the_intercept_of_a_line():
    # A line is recovered up to rounding times the leverage of the origin, here below 2.
    values = 12.5 + 3000 / SIZES
    assert extrapolate_to_infinity(SIZES, values) == pytest.approx(12.5, rel=100 * EPS)
    assert extrapolate_to_infinity([10, 40], [5.0, 2.0]) == pytest.approx(1.0, rel=100 * EPS)


def test_fit_is_numpys_least_squares():
    values = 12.5 + 3000 / SIZES + np.random.default_rng(0).normal(size=10)
    (slope, intercept), cov = np.polyfit(1 / SIZES, values, 1, cov=True)
    fit = fit_in_inverse_size(list(SIZES), list(values))
    assert fit.intercept == extrapolate_to_infinity(SIZES, values)
    # polyfit solves a system whose condition number is near 10.
    assert fit == pytest.approx((intercept, slope, np.sqrt(cov[1, 1])), rel=1e-11)


def test_standard_error_is_the_spread_of_the_intercept():
    rng = np.random.default_rng(0)
    fits = [fit_in_inverse_size(SIZES, rng.normal(7, 2, 10)) for _ in range(2000)]
    intercepts = [fit.intercept for fit in fits]
    spread = np.std(intercepts, ddof=1)
    assert abs(np.mean(intercepts) - 7) < 5 * spread / np.sqrt(2000)
    # A standard deviation of 2000 values is known to 1 / sqrt(4000) of itself; the mean of squared
    # standard errors, of 8 degrees of freedom each, to sqrt(2 / 8 / 2000).
    ratio = np.mean([fit.standard_error**2 for fit in fits]) / spread**2
    assert abs(ratio - 1) < 5 * np.hypot(2 / np.sqrt(4000), np.sqrt(2 / 8 / 2000))
    assert np.isnan(fit_in_inverse_size([1, 2], [0.0, 1.0]).standard_error)


@pytest.mark.parametrize(
    ("sizes", "values", "message"),
    [
        ([100], [1.0], "at least two different"),
        ([100, 100], [1.0, 2.0], "at least two different"),
        ([0, 100], [1.0, 2.0], "positive"),
        ([-5, 100], [1.0, 2.0], "positive"),
        ([100, np.inf], [1.0, 2.0], "positive"),
        ([100, 200], [1.0], "one length"),
        ([[100, 200]], [[1.0, 2.0]], "one length"),
        ([100, 200], [1.0, np.nan], "finite"),
    ],
)
def test_extrapolation_names_bad_points(sizes, values, message):
    with pytest.raises(ValueError, match=message):
        extrapolate_to_infinity(sizes, values)


def test_metric_at_sizes_draws_without_replacement_and_anew():
    features = np.arange(20.0).reshape(10, 2)
    seen = []

    def record(subset):
        seen.append(subset[:, 0].astype(int).tolist())
        return subset[:, 0].mean()

    values = metric_at_sizes(jax.random.key(0), record, features, [4, 4, 10])
    assert [len(set(rows)) for rows in seen] == [4, 4, 10]
    assert seen[0] != seen[1]
    assert seen[2] != sorted(seen[2])
    np.testing.assert_array_equal(values, [np.mean(rows) for rows in seen])
    again = metric_at_sizes(jax.random.key(0), record, features, [4, 4, 10])
    np.testing.assert_array_equal(values, again)
    assert not np.array_equal(
        values, metric_at_sizes(jax.random.key(1), record, features, [4, 5, 10])
    )


@pytest.mark.parametrize("sizes", [[1, 3], [3, 11], []])
def test_metric_at_sizes_names_bad_sizes(sizes):
    with pytest.raises(ValueError, match="from 2 to the 10 images"):
        metric_at_sizes(jax.random.key(0), len, np.zeros((10, 2)), sizes)


def test_extrapolated_frechet_distance_loses_its_bias():
    """FID of N(0, 1) from N draws to itself: 1/N + 2 - 2 c4(N), which is 1.5/N + O(1/N^2)."""
    rng = np.random.default_rng(0)
    sizes = [20, 40, 80]
    truth = np.zeros(1), np.eye(1)

    def fid(subset):
        return frechet_distance(*feature_moments(subset), *truth)

    keys = jax.random.split(jax.random.key(0), 300)
    values = np.array([metric_at_sizes(k, fid, rng.normal(size=(80, 1)), sizes) for k in keys])
    c4 = [np.sqrt(2 / (n - 1)) * np.exp(gammaln(n / 2) - gammaln((n - 1) / 2)) for n in sizes]
    want = 1 / np.array(sizes) + 2 - 2 * np.array(c4)
    standard_errors = values.std(0, ddof=1) / np.sqrt(len(keys))
    assert np.all(np.abs(values.mean(0) - want) < 5 * standard_errors)
    intercepts = np.array([extrapolate_to_infinity(sizes, row) for row in values])
    standard_error = intercepts.std(ddof=1) / np.sqrt(len(keys))
    # What is left is the curve of the exact values, far below the bias at the largest size.
    curvature = extrapolate_to_infinity(sizes, want)
    assert abs(intercepts.mean() - curvature) < 5 * standard_error
    assert abs(curvature) < want[-1] / 20
