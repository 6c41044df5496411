"""KID and energy distance against plain loops, SciPy and closed forms."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from ebmjax.metrics import _pairs as pairs_module
from ebmjax.metrics import energy_distance, kernel_distance

EPS = np.finfo(np.float64).eps


def make_features(n, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + rng.normal(size=d)


def looped_kernel_distance(a, b, kernel):
    """The definition, pair by pair."""

    def mean(pairs):
        return np.mean([kernel(x, y) for x, y in pairs])

    within = mean(itertools.permutations(a, 2)) + mean(itertools.permutations(b, 2))
    return within - 2 * mean(itertools.product(a, b))


def cubic(x, y):
    return (x @ y / len(x) + 1) ** 3


def gaussian(bandwidth):
    return lambda x, y: np.exp(-np.sum((x - y) ** 2) / (2 * bandwidth**2))


@pytest.mark.parametrize("rows", [1024, 4, 1], ids="{}-rows-at-a-time".format)
@pytest.mark.parametrize("kernel", ["polynomial", "rbf"])
def test_kernel_distance_is_its_double_loop(kernel, rows, monkeypatch):
    monkeypatch.setattr(pairs_module, "ROWS", rows)
    a, b = make_features(11, 3, seed=0), make_features(7, 3, seed=1)
    if kernel == "polynomial":
        kwargs, kernel_fn = {}, cubic
    else:
        kwargs, kernel_fn = {"bandwidth": 1.7}, gaussian(1.7)
    want = looped_kernel_distance(a, b, kernel_fn)
    largest = max(kernel_fn(x, x) for x in [*a, *b])
    got = kernel_distance(a, b, kernel=kernel, **kwargs)
    # Sums of at most 121 kernels, each of a few roundings.
    assert got == pytest.approx(want, abs=121 * 4 * EPS * largest)


def test_median_bandwidth():
    a, b = make_features(9, 3, seed=0), make_features(8, 3, seed=1)
    distances = [np.linalg.norm(x - y) for x, y in itertools.combinations([*a, *b], 2)]
    want = kernel_distance(a, b, kernel="rbf", bandwidth=np.median(distances))
    assert kernel_distance(a, b, kernel="rbf") == pytest.approx(want, rel=1e-10)


def expected_gaussian_kernel(shift, bandwidth):
    """E exp(-(x - y)^2 / (2 h^2)) for x ~ N(shift, 1), y ~ N(0, 1)."""
    total = bandwidth**2 + 2
    return bandwidth / np.sqrt(total) * np.exp(-(shift**2) / (2 * total))


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_kernel_distance_is_unbiased(shift):
    """At five rows, where a V-statistic is far off: 5 standard errors of 2000 repeats."""
    rng = np.random.default_rng(0)
    estimates = [
        kernel_distance(
            rng.normal(shift, 1, (5, 1)), rng.normal(0, 1, (5, 1)), kernel="rbf", bandwidth=0.8
        )
        for _ in range(2000)
    ]
    same, other = expected_gaussian_kernel(0, 0.8), expected_gaussian_kernel(shift, 0.8)
    standard_error = np.std(estimates, ddof=1) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - 2 * (same - other)) < 5 * standard_error
    bias_with_the_diagonal = 2 * (1 - same) / 5
    assert bias_with_the_diagonal > 20 * standard_error


def test_samples_far_from_zero_are_as_far_apart_as_those_near_it():
    """Their differences are exact, and so is the mean that distances do not notice."""
    a, b = np.round(100 * np.random.default_rng(0).normal(size=(2, 64, 3)))
    expected = kernel_distance(a, b, kernel="rbf")
    np.testing.assert_allclose(kernel_distance(a + 1e8, b + 1e8, kernel="rbf"), expected, rtol=1e-9)


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
