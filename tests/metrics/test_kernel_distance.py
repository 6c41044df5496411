"""KID against plain loops and closed forms."""

import itertools

import jax
import numpy as np
import pytest

from ebmjax.metrics import _kernel_distance as kernel_module
from ebmjax.metrics import kernel_distance, kernel_distance_subsets

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
    monkeypatch.setattr(kernel_module, "ROWS", rows)
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


def test_cubic_kernel_distance_is_unbiased():
    """The exact distance of N(m, 1) and N(0, 1) comes from their moments."""
    m = 0.5
    rng = np.random.default_rng(1)
    estimates = [
        kernel_distance(rng.normal(m, 1, (6, 1)), rng.normal(0, 1, (4, 1))) for _ in range(2000)
    ]
    # (xy + 1)^3 = sum of binomials: the distance is sum_k C(3, k) (E x^k - E y^k)^2.
    want = 3 * m**2 + 3 * (m**2) ** 2 + (m**3 + 3 * m) ** 2
    standard_error = np.std(estimates, ddof=1) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - want) < 5 * standard_error


def test_subsets_are_disjoint_and_their_standard_error_is_one():
    """One odd row among equal ones lies in exactly one of the subsets that use every row."""
    num_subsets, subset_size, odd = 4, 5, 2.0
    a, b = np.zeros((20, 1)), np.ones((20, 1))
    a[3] = odd
    got = kernel_distance_subsets(
        jax.random.key(0), a, b, num_subsets=num_subsets, subset_size=subset_size
    )
    # Within a all kernels are 1, within b 8; between, 1 but (odd + 1)^3 for the odd row.
    drop = 2 * ((odd + 1) ** 3 - 1) / subset_size
    assert got.mean == pytest.approx(7 - drop / num_subsets, rel=1e-12)
    # One of four values differs by `drop`: variance drop^2 / 4, over four values.
    assert got.standard_error == pytest.approx(drop / num_subsets, rel=1e-12)


def test_subsets_follow_the_key_and_agree_with_the_whole():
    a, b = make_features(300, 2, seed=0), make_features(320, 2, seed=1)
    draws = [
        kernel_distance_subsets(
            jax.random.key(k), a, b, num_subsets=6, subset_size=50, kernel="rbf"
        )
        for k in (0, 0, 1)
    ]
    assert draws[0] == draws[1] != draws[2]
    whole = kernel_distance(a, b, kernel="rbf")
    # A standard error from six subsets has five degrees of freedom: P(|t_5| > 10) is 2e-4, and
    # the whole is known better than they are.
    assert abs(draws[0].mean - whole) < 10 * draws[0].standard_error


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"kernel": "linear"}, "'polynomial' or 'rbf'"),
        ({"bandwidth": 1.0}, "only kernel='rbf'"),
        ({"kernel": "rbf", "bandwidth": 0.0}, "bandwidth must be positive"),
        ({"features_b": np.zeros((4, 3))}, "one extractor"),
        ({"features_b": np.zeros((1, 2))}, "features_b must have shape"),
        ({"features_a": np.full((4, 2), np.nan)}, "features_a must be finite"),
    ],
)
def test_kernel_distance_names_bad_arguments(kwargs, message):
    arguments = {"features_a": np.zeros((4, 2)), "features_b": np.ones((4, 2))} | kwargs
    with pytest.raises(ValueError, match=message):
        kernel_distance(**arguments)


@pytest.mark.parametrize(
    ("num_subsets", "subset_size", "message"),
    [(1, 2, "num_subsets"), (2, 1, "subset_size"), (3, 4, "need 12 rows a side, got 20 and 10")],
)
def test_subsets_name_bad_arguments(num_subsets, subset_size, message):
    with pytest.raises(ValueError, match=message):
        kernel_distance_subsets(
            jax.random.key(0),
            np.zeros((20, 2)),
            np.zeros((10, 2)),
            num_subsets=num_subsets,
            subset_size=subset_size,
        )


def test_a_median_distance_of_zero_asks_for_a_bandwidth():
    with pytest.raises(ValueError, match=r"^features_a and features_b must differ.*give a bandwid"):
        kernel_distance(np.zeros((5, 1)), np.zeros((5, 1)), kernel="rbf")


def test_samples_far_from_zero_are_as_far_apart_as_those_near_it():
    """Their differences are exact, and so is the mean that distances do not notice."""
    a, b = np.round(100 * np.random.default_rng(0).normal(size=(2, 64, 3)))
    expected = kernel_distance(a, b, kernel="rbf")
    np.testing.assert_allclose(kernel_distance(a + 1e8, b + 1e8, kernel="rbf"), expected, rtol=1e-9)
