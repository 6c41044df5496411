"""Errors from halves of a sample, against numbers and intervals that are known."""

import jax
import numpy as np
import pytest

from ebmjax.metrics import (
    feature_moments,
    frechet_distance,
    frechet_distances,
    half_sample_error,
    kernel_distance,
    kernel_distances,
    split_in_halves,
)
from ebmjax.metrics._generation import FeatureMoments

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
