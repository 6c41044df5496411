"""Errors of means, differences and distances, and thresholds: known numbers and coverage."""

import jax
import numpy as np
import pytest
from scipy import stats

from ebmjax.metrics import (
    auroc_parts,
    feature_moments,
    frechet_distance,
    frechet_distances,
    half_sample_error,
    kernel_distance,
    kernel_distances,
    paired_difference,
    sampling_error,
    split_in_halves,
)
from ebmjax.metrics._generation import FeatureMoments

RTOL = 1e-9  # float64, a few hundred terms


def test_the_error_of_an_accuracy_is_binomial():
    """357 images at 99 %: half a point, whatever the seeds say."""
    is_right = np.arange(357) >= 4
    p = is_right.mean()
    binomial = np.sqrt(p * (1 - p) / 356)
    np.testing.assert_allclose(sampling_error(is_right), binomial, rtol=RTOL)
    assert 0.5 < 100 * sampling_error(is_right) < 0.6
    np.testing.assert_allclose(sampling_error(np.tile(is_right, (5, 1))), binomial, rtol=RTOL)


def test_with_one_seed_it_is_the_paired_t_interval():
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(size=(2, 40)) + np.array([[0.3], [0.0]])
    expected = stats.ttest_rel(ours, theirs).confidence_interval(0.95)
    found = paired_difference(ours, theirs)
    np.testing.assert_allclose(found.difference, np.mean(ours - theirs), rtol=RTOL)
    np.testing.assert_allclose(found[1:], expected, rtol=RTOL)


def test_where_images_agree_it_is_the_t_interval_over_seeds():
    by_seed = np.array([[0.1], [0.5], [0.2], [0.9]])
    images = np.random.default_rng(1).normal(size=(1, 30))
    found = paired_difference(by_seed + images, images + np.zeros((4, 1)))
    expected = stats.ttest_1samp(by_seed[:, 0], 0.0).confidence_interval(0.95)
    np.testing.assert_allclose(found[1:], expected, rtol=1e-6)  # the other terms cancel to eps


def test_right_and_wrong_answers_are_told_apart_where_mcnemar_tells_them():
    """Exactly: of N images only the first model gets k right that the other gets wrong."""
    for k in range(1, 13):
        theirs = np.arange(357) >= k
        found = paired_difference(np.ones(357, bool), theirs)
        exact = stats.binomtest(k, k).pvalue  # McNemar's test without a normal law
        assert (found.low > 0) == (exact < 0.05), k
        np.testing.assert_allclose(found.difference, k / 357, rtol=RTOL)
    # Bonett and Price's interval, but for Student's quantile and N + 1 in place of N + 2.
    gain, total = 13 / 359, 359
    error = np.sqrt((gain + 1 / total - (12 / total) ** 2) / (total - 1))
    reach = stats.t.ppf(0.975, total - 1) * error
    np.testing.assert_allclose(found[1:], [12 / total - reach, 12 / total + reach], rtol=RTOL)


@pytest.mark.parametrize(
    ("of_images", "of_seeds", "of_pairs"), [(1, 0, 1), (0, 0.2, 1), (0, 0, 1), (1, 0.2, 0.01)]
)
def test_the_interval_covers(of_images, of_seeds, of_pairs):
    """Whichever effect is the largest, 95 % of the intervals hold the truth, here 0.

    2,000 intervals: five standard errors of the fraction are 2.4 points. From above the fraction is
    not bounded: where seeds have no effect of their own, their part is estimated as 0 or more.
    """
    rng, num, seeds, images = np.random.default_rng(2), 2000, 3, 100
    covered = 0
    for _ in range(num):
        values = of_images * rng.normal(size=(1, images)) + of_seeds * rng.normal(size=(seeds, 1))
        values = values + of_pairs * rng.normal(size=(seeds, images))
        found = paired_difference(values, np.zeros_like(values))
        covered += found.low <= 0 <= found.high
    assert covered / num > 0.95 - 5 * np.sqrt(0.95 * 0.05 / num)


def share_rejected(rng, num, seeds, gain, mean, spread):
    """Returns the share of ``num`` pairs of models that are told apart by their answers.

    Their images are of unequal difficulty; where there are several seeds, these differ too.
    """
    told_apart = 0
    for _ in range(num):
        logits = mean + spread * rng.normal(size=357)
        offsets = 0.6 * (seeds > 1) * rng.normal(size=(2, seeds, 1)) + [[[gain]], [[0.0]]]
        ours, theirs = rng.random((2, seeds, 357)) < 1 / (1 + np.exp(-logits - offsets))
        found = paired_difference(ours, theirs)
        told_apart += not found.low <= 0 <= found.high
    return told_apart / num


@pytest.mark.parametrize(("seeds", "mean", "spread"), [(1, 3.0, 2.0), (3, 5.0, 0.5), (5, 5.0, 0.5)])
def test_right_and_wrong_answers_of_equal_models_are_told_apart_as_often_as_said(
    seeds, mean, spread
):
    """5 % of the time, within 5 standard errors, for one seed and for several with few mistakes."""
    size = share_rejected(np.random.default_rng(5), 1500, seeds, 0.0, mean, spread)
    assert abs(size - 0.05) < 5 * np.sqrt(0.05 * 0.95 / 1500)


def test_the_error_of_an_area_is_delongs():
    """Its variance from the parts, each counted pair by pair."""
    rng = np.random.default_rng(3)
    inside, outside = rng.integers(1, 9, 40) / 1.0, rng.integers(0, 6, 70) / 1.0
    wins = (inside[:, None] > outside) + 0.5 * (inside[:, None] == outside)
    variance = wins.mean(1).var(ddof=1) / 40 + wins.mean(0).var(ddof=1) / 70
    parts = tuple(np.asarray(part, float) for part in auroc_parts(inside, outside))
    np.testing.assert_allclose(sampling_error(parts) ** 2, variance, rtol=1e-5)  # float32
    # Scores that rank alike are one score: no difference, and no doubt about it.
    same = tuple(np.asarray(part, float) for part in auroc_parts(2 * inside, 2 * outside))
    assert paired_difference(parts, same) == (0, 0, 0)
    shuffled = tuple(rng.permutation(part) for part in parts)
    found = paired_difference(parts, shuffled)
    error = np.sqrt(
        sum(np.var(a - b, ddof=1) / len(a) for a, b in zip(parts, shuffled, strict=True))
    )
    assert 1.96 * error < found.high < 2.03 * error  # Student's with 39 degrees of freedom or more


LABELS = np.arange(40) % 4


def halves_of(labels, num_splits=50, seed=0):
    return split_in_halves(jax.random.key(seed), labels, num_splits=num_splits)


def test_halves_share_no_image_and_have_as_many_of_each_label():
    halves = halves_of([0] * 7 + [1] * 4 + [2])
    assert halves.shape == (50, 2, 12) == split_in_halves(jax.random.key(0), [0] * 12).shape
    assert not (halves[:, 0] & halves[:, 1]).any()
    # Three of seven, two of four, none of one.
    assert (halves[:, :, :7].sum(2) == 3).all()
    assert (halves[:, :, 7:11].sum(2) == 2).all()
    assert not halves[:, :, 11].any()
    assert len(np.unique(halves[:, 0], axis=0)) > 40


def test_the_error_of_a_mean_is_that_of_its_terms_within_labels():
    """Means of four labels that lie far apart: only the spread within a label counts."""
    values = np.random.default_rng(0).normal(size=40) + 100.0 * LABELS
    halves = halves_of(LABELS, num_splits=4000)
    on_halves = np.where(halves, values, 0.0).sum(2) / halves.sum(2)
    within = [np.var(values[k == LABELS], ddof=1) * np.sum(k == LABELS) for k in range(4)]
    expected = np.sqrt(np.sum(within)) / 40
    # A mean of 4,000 squares of normal numbers.
    tolerance = 5 / np.sqrt(2 * 4000)
    assert half_sample_error(on_halves, halves) == pytest.approx(expected, rel=tolerance)


def test_the_error_counts_the_images_that_are_left_out():
    halves = np.zeros((2, 2, 10), bool)
    halves[:, 0, :4] = halves[:, 1, 4:8] = True
    found = half_sample_error([[3.0, 1.0], [0.0, 4.0]], halves)
    assert found == pytest.approx(np.sqrt((2.0**2 + 4.0**2) / 2 / 4 * 8 / 10))


def test_too_few_images_have_no_error():
    assert np.isnan(half_sample_error([[1.0, 2.0]], halves_of([0, 0, 0], num_splits=1)))
    assert np.isnan(frechet_distances(np.eye(3), feature_moments(np.eye(3)), np.eye(3) > 0)).all()
    assert np.isnan(kernel_distances(np.eye(3), np.eye(3), np.eye(3) > 0)).all()


@pytest.mark.parametrize("num_features", [3, 60])
def test_distances_of_parts_are_those_of_their_rows(num_features):
    """With fewer and with more rows than features."""
    rng = np.random.default_rng(0)
    rows, others = rng.normal(size=(40, num_features)), 1.5 * rng.normal(size=(70, num_features))
    reference, halves = feature_moments(others), halves_of(LABELS, num_splits=3)
    frechet = frechet_distances(rows, reference, halves)
    kernel = kernel_distances(rows, others, halves)
    assert frechet.shape == kernel.shape == (3, 2)
    for split in range(3):
        for half in range(2):
            part = rows[halves[split, half]]
            expected = frechet_distance(*feature_moments(part), *reference)
            # Roots of eigenvalues that round to 1e-16 of the largest: 1e-8 of its root, each.
            assert frechet[split, half] == pytest.approx(expected, rel=1e-6)
            assert kernel[split, half] == pytest.approx(kernel_distance(part, others), rel=1e-9)


@pytest.mark.slow
def test_intervals_of_paired_differences_hold_the_truth():
    """Two features: N(m, 1), whose FID from N(0, 1) is m^2 and a bias that pairs share.

    So the truth is known. 19 of 20 intervals should hold it, within the error of 400 trials. They
    are narrower than those of samples that are not pairs.
    """
    rng, truth = np.random.default_rng(0), 2 * (1.0**2 - 1.2**2)
    reference = FeatureMoments(np.zeros(2), np.eye(2))
    holds, paired, apart = [], [], []
    for trial in range(400):
        halves = halves_of(LABELS, seed=trial)
        shared = rng.normal(size=(40, 2))
        ends, starts = (
            m + 0.9**0.5 * shared + 0.1**0.5 * rng.normal(size=(40, 2)) for m in (1.0, 1.2)
        )
        on_ends, on_starts = (frechet_distances(x, reference, halves) for x in (ends, starts))
        whole = [frechet_distance(*feature_moments(x), *reference) for x in (ends, starts)]
        paired.append(half_sample_error(on_ends - on_starts, halves))
        apart.append(np.hypot(*(half_sample_error(x, halves) for x in (on_ends, on_starts))))
        holds.append(abs(whole[0] - whole[1] - truth) < 2.01 * paired[-1])  # Student's, 50 splits
    assert np.mean(holds) == pytest.approx(0.95, abs=5 * np.sqrt(0.95 * 0.05 / 400))
    # Without the shared part, 0.1 of the variance is left of both means and of both variances.
    assert np.mean(paired) < 0.5 * np.mean(apart)
