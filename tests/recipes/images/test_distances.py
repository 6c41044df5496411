"""Precision, recall, density and coverage of an experiment: against which training images."""

import numpy as np
import pytest

from ebmjax import metrics
from ebmjax.recipes.images.distances import NO_SCORES, manifold_scores

IMAGES = np.random.default_rng(0).normal(size=(60, 3))


def test_as_many_reference_images_as_are_judged(monkeypatch):
    """From all over the data set, which may come class by class, and the same for every run."""
    given = []

    def record(generated, reference, num_neighbours):
        given.append(reference)
        return metrics.ManifoldScores(len(generated), len(reference), num_neighbours, 0.0)

    monkeypatch.setattr(metrics, "manifold_scores", record)
    reference = np.arange(1000.0)[:, None]
    scores = [manifold_scores(IMAGES[:num], reference) for num in (20, 60)]
    assert scores[1] == {"precision": 60, "recall": 60, "density": 5, "coverage": 0.0}
    few, many = (rows[:, 0].tolist() for rows in given)
    assert few == many[:20]
    assert len(set(many)) == 60
    # None of 60 in one of the four quarters: 4 x 0.75^60 is 1e-7.
    assert {int(row // 250) for row in many} == {0, 1, 2, 3}


def test_fewer_reference_images_are_all_taken():
    assert manifold_scores(IMAGES, IMAGES[:20])["recall"] == 1.0
    both = np.concatenate([IMAGES[:10], IMAGES[10:20] + 1000.0])
    assert manifold_scores(IMAGES, both)["recall"] == 0.5


@pytest.mark.parametrize(("num_images", "num_reference"), [(5, 60), (60, 5), (0, 60)])
def test_too_few_images_have_no_scores(num_images, num_reference):
    found = manifold_scores(IMAGES[:num_images], IMAGES[:num_reference])
    assert found.keys() == NO_SCORES.keys() == {"precision", "recall", "density", "coverage"}
    assert np.isnan(list(found.values())).all()
