"""KID, energy distance, precision and recall against plain loops, SciPy and closed forms."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from ebmjax.metrics import _pairs as pairs_module
from ebmjax.metrics import energy_distance, kernel_distance, manifold_scores

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


def make_rows(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def looped_scores(generated, reference, k):
    """The definitions, ball by ball, of rows among which no two distances are equal."""

    def radius(x, rows):
        others = [np.linalg.norm(x - row) for row in rows if row is not x]
        return sorted(others)[k - 1]

    generated, reference = list(generated), list(reference)
    reference_radii = [radius(x, reference) for x in reference]
    generated_radii = [radius(y, generated) for y in generated]
    is_in = np.array(
        [
            [np.linalg.norm(x - y) <= r for x, r in zip(reference, reference_radii, strict=True)]
            for y in generated
        ]
    )
    is_recalled = [
        any(np.linalg.norm(x - y) <= r for y, r in zip(generated, generated_radii, strict=True))
        for x in reference
    ]
    return (
        np.mean([row.any() for row in is_in]),
        np.mean(is_recalled),
        is_in.sum() / (k * len(generated)),
        np.mean([column.any() for column in is_in.T]),
    )


@pytest.mark.parametrize("rows", [1024, 5, 1], ids="{}-rows-at-a-time".format)
@pytest.mark.parametrize("k", [1, 3])
def test_the_scores_are_their_loops(k, rows, monkeypatch):
    """Also with an offset, which would take all digits of distances by squared norms."""
    monkeypatch.setattr(pairs_module, "ROWS", rows)
    generated, reference = 1.0 + make_rows(23, 3, seed=0), make_rows(17, 3, seed=1)
    want = looped_scores(generated, reference, k)
    assert len({0.0, 1.0, *want}) == 6  # they differ, and none is at an end
    # Fractions of whole numbers, by one division here and another there.
    scores = manifold_scores(generated, reference, num_neighbours=k)
    assert scores == pytest.approx(want, rel=1e-12)
    assert manifold_scores(generated + 1e8, reference + 1e8, num_neighbours=k) == scores


@pytest.mark.parametrize("num_forgotten", [100, 50])
def test_a_forgotten_mode_is_lost_to_recall_and_coverage(num_forgotten):
    """Images of one of two distant modes, which are the reference's own: no other ball has any."""
    kept = make_rows(100, 4, seed=0)
    forgotten = make_rows(num_forgotten, 4, seed=1) + 1000.0
    scores = manifold_scores(kept, np.concatenate([kept, forgotten]))
    share = 100 / (100 + num_forgotten)
    assert scores == pytest.approx((1.0, share, 6 / 5, share), rel=1e-12)


def expected_coverage(n, m, k):
    """Expected coverage of m rows by n of the same law: not all k nearest are of the row's own set.

    The k nearest are k of the n + m - 1 others, and m - 1 of those are of its own set.
    """
    return 1 - np.prod([(m - i) / (n + m - i) for i in range(1, k + 1)])


def test_a_collapsed_generator_is_precise_and_recalls_nothing():
    """Its balls are points, and copies lie in them."""
    reference = make_rows(60, 7)
    copies = np.repeat(reference[:1], 40, axis=0)
    apart = np.linalg.norm(reference[:, None] - reference[None], axis=2)
    in_balls = np.sum(apart[:, 0] <= np.sort(apart, axis=1)[:, 5])
    assert 1 < in_balls < 60
    want = (1.0, 1 / 60, in_balls / 5, in_balls / 60)
    assert manifold_scores(copies, reference) == pytest.approx(want, rel=1e-12)
    assert manifold_scores(copies, copies[:20]) == (1.0, 1.0, 20 / 5, 1.0)


def test_the_edge_of_a_ball_belongs_to_it_whatever_the_rounding():
    """Images lie in equal steps along a line, with balls of one step; then all images are zero."""
    line = np.arange(21)[:, None] * make_rows(1, 7)
    reference, generated = line[:20], line[1:]
    scores = manifold_scores(generated, reference, num_neighbours=1)
    # An image and its two neighbours; but the last lack one and two of the reference.
    assert scores == (1.0, 1.0, (18 * 3 + 2 + 1) / 20, 1.0)
    assert manifold_scores(np.zeros((6, 2)), np.zeros((6, 2))) == (1.0, 1.0, 6 / 5, 1.0)


def test_means_over_samples_of_one_law():
    """Lemmas 1 and 2 of Naeem et al.: whatever the law. 5 standard errors of 2000 repeats."""
    k, n, m = 2, 7, 9
    rng = np.random.default_rng(0)
    scores = [
        manifold_scores(rng.normal(size=(n, 2)), rng.normal(size=(m, 2)), num_neighbours=k)
        for _ in range(2000)
    ]
    for values, want in (
        ([one.density for one in scores], 1.0),
        ([one.coverage for one in scores], expected_coverage(n, m, k)),
    ):
        standard_error = np.std(values, ddof=1) / np.sqrt(len(values))
        # One more or less in the place of n, m or k would be off by 4.5 % at least.
        assert abs(np.mean(values) - want) < 5 * standard_error < 0.04 * want
