"""The fixed network of characters: any shape, the same numbers always, a small file."""

import numpy as np
import pytest

from ebmjax import evaluate
from ebmjax.data import load_images
from ebmjax.evaluate import _characters


@pytest.mark.parametrize("shape", [(8, 8, 1), (28, 28, 1), (13, 40, 3), (1, 1, 4)])
def test_images_of_any_shape_have_finite_features_which_stay_the_same(shape):
    images = np.random.default_rng(0).integers(0, 256, (3, *shape), np.uint8)
    features, probabilities = evaluate.characters(images)
    assert features.shape == (3, 64)
    assert np.isfinite(features).all()
    # A sum of float32 numbers that are at most 1.
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    again, _ = evaluate.characters(images)
    np.testing.assert_array_equal(features, again)


def test_colour_is_the_mean_of_the_channels():
    grey = np.random.default_rng(1).integers(10, 240, (2, 28, 28, 1), np.uint8)
    coloured = grey + np.array([-10, 0, 10])
    # Means of three bytes are exact up to float32's rounding, which the layers carry on.
    for one, other in zip(*map(evaluate.characters, (grey, coloured)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_the_network_knows_digits_that_it_was_not_trained_on():
    test = load_images("digits", "test", image_size=28).data
    guessed = evaluate.characters(test.images)[1].argmax(axis=1)
    chance = (
        0.1  # by five standard errors: these digits fill their frame, as no training image does
    )
    assert np.mean(guessed == test.labels) > chance + 5 * np.sqrt(chance * 0.9 / len(guessed))
    assert _characters.FILE.stat().st_size < 1_000_000
    found = evaluate.own_extractor(evaluate.characters)
    assert found.name == "characters"
