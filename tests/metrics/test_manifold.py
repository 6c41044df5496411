"""Precision, recall, density and coverage against plain loops and known sets."""

import numpy as np
import pytest

from ebmjax.metrics import _manifold as manifold_module
from ebmjax.metrics import manifold_scores


def make_features(n, d, seed=0):
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
    monkeypatch.setattr(manifold_module, "ROWS", rows)
    generated, reference = 1.0 + make_features(23, 3, seed=0), make_features(17, 3, seed=1)
    want = looped_scores(generated, reference, k)
    assert len({0.0, 1.0, *want}) == 6  # they differ, and none is at an end
    # Fractions of whole numbers, by one division here and another there.
    scores = manifold_scores(generated, reference, num_neighbours=k)
    assert scores == pytest.approx(want, rel=1e-12)
    assert manifold_scores(generated + 1e8, reference + 1e8, num_neighbours=k) == scores


@pytest.mark.parametrize("num_forgotten", [100, 50])
def test_a_forgotten_mode_is_lost_to_recall_and_coverage(num_forgotten):
    """Images of one of two distant modes, which are the reference's own: no other ball has any."""
    kept = make_features(100, 4, seed=0)
    forgotten = make_features(num_forgotten, 4, seed=1) + 1000.0
    scores = manifold_scores(kept, np.concatenate([kept, forgotten]))
    share = 100 / (100 + num_forgotten)
    assert scores == pytest.approx((1.0, share, 6 / 5, share), rel=1e-12)


def expected_coverage(n, m, k):
    """Expected coverage of m rows by n of the same law: not all k nearest are of the row's own set.

    The k nearest are k of the n + m - 1 others, and m - 1 of those are of its own set.
    """
    return 1 - np.prod([(m - i) / (n + m - i) for i in range(1, k + 1)])


def test_a_fresh_sample_of_one_of_two_modes():
    """The scores of that mode alone, of which recall and coverage count half."""
    k, n = 3, 20
    rng = np.random.default_rng(0)
    coverages = []
    for _ in range(400):
        generated, kept, forgotten = rng.normal(size=(3, n, 2))
        modes = np.concatenate([kept, forgotten + 1000.0])
        scores = manifold_scores(generated, modes, num_neighbours=k)
        alone = manifold_scores(generated, kept, num_neighbours=k)
        halved = alone._replace(recall=alone.recall / 2, coverage=alone.coverage / 2)
        assert scores == pytest.approx(halved, rel=1e-12)
        coverages.append(scores.coverage)
    standard_error = np.std(coverages, ddof=1) / np.sqrt(len(coverages))
    assert abs(np.mean(coverages) - expected_coverage(n, n, k) / 2) < 5 * standard_error < 0.02


def test_a_collapsed_generator_is_precise_and_recalls_nothing():
    """Its balls are points, and copies lie in them."""
    reference = make_features(60, 7)
    copies = np.repeat(reference[:1], 40, axis=0)
    apart = np.linalg.norm(reference[:, None] - reference[None], axis=2)
    in_balls = np.sum(apart[:, 0] <= np.sort(apart, axis=1)[:, 5])
    assert 1 < in_balls < 60
    want = (1.0, 1 / 60, in_balls / 5, in_balls / 60)
    assert manifold_scores(copies, reference) == pytest.approx(want, rel=1e-12)
    assert manifold_scores(copies, copies[:20]) == (1.0, 1.0, 20 / 5, 1.0)


def test_the_edge_of_a_ball_belongs_to_it_whatever_the_rounding():
    """Images lie in equal steps along a line, with balls of one step; then all images are zero."""
    line = np.arange(21)[:, None] * make_features(1, 7)
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
