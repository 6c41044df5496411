"""Extrapolation in the number of images, against NumPy's least squares and an exact bias."""

import numpy as np
import pytest
from scipy.special import gammaln

from ebmjax.metrics import (
    extrapolate_to_infinity,
    feature_moments,
    frechet_distance,
)
from ebmjax.metrics._generation import fit_in_inverse_size

EPS = np.finfo(np.float64).eps
SIZES = np.array([1000, 1389, 1778, 2167, 2556, 2944, 3333, 3722, 4111, 4500])


def test_extrapolation_finds_the_intercept_of_a_line():
    # A line is recovered up to rounding times the leverage of the origin, here below 2.
    values = 12.5 + 3000 / SIZES
    assert extrapolate_to_infinity(SIZES, values) == pytest.approx(12.5, rel=100 * EPS)
    assert extrapolate_to_infinity([10, 40], [5.0, 2.0]) == pytest.approx(1.0, rel=100 * EPS)


def test_fit_is_numpys_least_squares():
    values = 12.5 + 3000 / SIZES + np.random.default_rng(0).normal(size=10)
    slope, intercept = np.polyfit(1 / SIZES, values, 1)
    # polyfit solves a system whose condition number is near 10.
    assert fit_in_inverse_size(list(SIZES), values) == pytest.approx((intercept, slope), rel=1e-11)


@pytest.mark.parametrize(
    ("sizes", "values", "message"),
    [
        ([100, 100], [1.0, 2.0], "at least two different"),
        ([0, 100], [1.0, 2.0], "positive"),
        ([100, 200], [1.0], "one for each value"),
        ([100, 200], [1.0, np.nan], "finite"),
    ],
)
def test_extrapolation_names_bad_points(sizes, values, message):
    with pytest.raises(ValueError, match=message):
        extrapolate_to_infinity(sizes, values)


def test_extrapolated_frechet_distance_loses_its_bias():
    """FID of N(0, 1) from N draws to itself: 1/N + 2 - 2 c4(N), which is 1.5/N + O(1/N^2)."""
    rng = np.random.default_rng(0)
    sizes = [20, 40, 80]
    truth = np.zeros(1), np.eye(1)

    def fid(subset):
        return frechet_distance(*feature_moments(subset), *truth)

    num = 300
    values = np.array([[fid(rng.normal(size=(n, 1))) for n in sizes] for _ in range(num)])
    c4 = [np.sqrt(2 / (n - 1)) * np.exp(gammaln(n / 2) - gammaln((n - 1) / 2)) for n in sizes]
    want = 1 / np.array(sizes) + 2 - 2 * np.array(c4)
    standard_errors = values.std(0, ddof=1) / np.sqrt(num)
    assert np.all(np.abs(values.mean(0) - want) < 5 * standard_errors)
    intercepts = np.array([extrapolate_to_infinity(sizes, row) for row in values])
    standard_error = intercepts.std(ddof=1) / np.sqrt(num)
    # What is left is the curve of the exact values, far below the bias at the largest size.
    curvature = extrapolate_to_infinity(sizes, want)
    assert abs(intercepts.mean() - curvature) < 5 * standard_error
    assert abs(curvature) < want[-1] / 20
