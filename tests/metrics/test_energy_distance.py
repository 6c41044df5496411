"""The energy distance against SciPy in one dimension, a double loop and a closed form."""

import math

import numpy as np
import pytest
from scipy import stats

from ebmjax.metrics import energy_distance


def test_one_dimension_is_scipys():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=37), rng.normal(1.0, 2.0, size=53)
    # SciPy integrates the distribution functions; both are float64 sums of under 5,000 terms.
    expected = stats.energy_distance(a, b)
    assert energy_distance(a[:, None], b[:, None]) == pytest.approx(expected, rel=1e-10)


def test_three_dimensions_against_a_double_loop():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(7, 3)), rng.normal(0.5, 1.5, size=(5, 3))

    def mean(x, y):
        return sum(math.dist(p, q) for p in x for q in y) / (len(x) * len(y))

    expected = math.sqrt(2 * mean(a, b) - mean(a, a) - mean(b, b))
    assert energy_distance(a, b) == pytest.approx(expected, rel=1e-12)
    assert energy_distance(b, a) == pytest.approx(expected, rel=1e-12)


def test_the_same_sample_is_at_distance_zero_and_units_scale_by_the_root():
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(40, 2)), rng.normal(size=(30, 2))
    # A difference of means of order 1, rounded at 1e-16, under a square root.
    assert energy_distance(a, a[::-1]) == pytest.approx(0.0, abs=1e-7)
    assert energy_distance(4 * a + 100, 4 * b + 100) == pytest.approx(
        2 * energy_distance(a, b), rel=1e-9
    )


def test_samples_of_one_law_score_what_the_docstring_says():
    """E D^2 = (1/n + 1/m) E|X - X'|, and E|X - X'| = sqrt(pi) for unit Gaussians of the plane."""
    rng = np.random.default_rng(3)
    squares = [
        energy_distance(rng.normal(size=(20, 2)), rng.normal(size=(30, 2))) ** 2 for _ in range(200)
    ]
    error = np.std(squares) / math.sqrt(len(squares))
    assert np.mean(squares) == pytest.approx((1 / 20 + 1 / 30) * math.sqrt(math.pi), abs=5 * error)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (np.zeros((3, 2)), np.zeros((3, 1)), "both sides need rows of one length"),
        (np.zeros(3), np.zeros((3, 1)), r"samples_a must have shape \(n, d\)"),
        (np.zeros((3, 1)), np.full((3, 1), np.nan), "samples_b must be finite; 3 of 3"),
    ],
)
def test_what_is_refused(a, b, expected):
    with pytest.raises(ValueError, match=expected):
        energy_distance(a, b)
