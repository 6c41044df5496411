"""The test set's error and paired differences against scipy, the binomial law and coverage."""

import numpy as np
import pytest
from scipy import stats

from ebmjax.metrics import auroc_parts, paired_difference, sampling_error

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
    expected = stats.ttest_rel(ours, theirs).confidence_interval(0.9)
    found = paired_difference(ours, theirs, confidence=0.9)
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
    """Shares of ``num`` pairs of models told apart by their answers and by the same as numbers.

    Their images are of unequal difficulty; where there are several seeds, these differ too.
    """
    told_apart = np.zeros(2)
    for _ in range(num):
        logits = mean + spread * rng.normal(size=357)
        offsets = 0.6 * (seeds > 1) * rng.normal(size=(2, seeds, 1)) + [[[gain]], [[0.0]]]
        ours, theirs = rng.random((2, seeds, 357)) < 1 / (1 + np.exp(-logits - offsets))
        for i, pair in enumerate([(ours, theirs), (ours.astype(float), theirs.astype(float))]):
            found = paired_difference(*pair)
            told_apart[i] += not found.low <= 0 <= found.high
    return told_apart / num


@pytest.mark.parametrize(("seeds", "mean", "spread"), [(1, 3.0, 2.0), (3, 5.0, 0.5), (5, 5.0, 0.5)])
def test_right_and_wrong_answers_of_equal_models_are_told_apart_as_often_as_said(
    seeds, mean, spread
):
    """5 % of the time, within 5 standard errors, for one seed and for several with few mistakes."""
    size, _ = share_rejected(np.random.default_rng(5), 1500, seeds, 0.0, mean, spread)
    assert abs(size - 0.05) < 5 * np.sqrt(0.05 * 0.95 / 1500)


@pytest.mark.parametrize("seeds", [3, 5])
def test_the_added_answers_cost_no_power(seeds):
    """Beside the same numbers without them, within 5 standard errors of the share."""
    power, expected = share_rejected(np.random.default_rng(6), 1500, seeds, 1.0, 5.0, 0.5)
    assert power > expected - 5 * np.sqrt(expected * (1 - expected) / 1500)


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


@pytest.mark.parametrize(
    ("values", "reference", "message"),
    [
        (np.ones((2, 5)), np.ones((3, 5)), r"one shape.*\(2, 5\).*\(3, 5\)"),
        (np.ones(1), np.ones(1), r"values must have shape .* got \(1,\)"),
        (np.ones(3), np.array([1, np.nan, 1]), "reference must be finite"),
    ],
)
def test_what_cannot_be_compared_is_refused(values, reference, message):
    with pytest.raises(ValueError, match=message):
        paired_difference(values, reference)
    with pytest.raises(ValueError, match=r"confidence must lie between 0 and 1, got confidence=95"):
        paired_difference(np.ones(3), np.ones(3), confidence=95)
