"""KID and energy distance against plain loops."""

import itertools
import math

import numpy as np
import pytest

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


def test_samples_far_from_zero_are_as_far_apart_as_those_near_it():
    """Their differences are exact, and so is the mean that distances do not notice."""
    a, b = np.round(100 * np.random.default_rng(0).normal(size=(2, 64, 3)))
    expected = kernel_distance(a, b, kernel="rbf")
    np.testing.assert_allclose(kernel_distance(a + 1e8, b + 1e8, kernel="rbf"), expected, rtol=1e-9)


def test_three_dimensions_against_a_double_loop():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(7, 3)), rng.normal(0.5, 1.5, size=(5, 3))

    def mean(x, y):
        return sum(math.dist(p, q) for p in x for q in y) / (len(x) * len(y))

    expected = math.sqrt(2 * mean(a, b) - mean(a, a) - mean(b, b))
    assert energy_distance(a, b) == pytest.approx(expected, rel=1e-12)
    assert energy_distance(b, a) == pytest.approx(expected, rel=1e-12)
