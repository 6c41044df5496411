"""Out-of-distribution sets: pairs recovered, levels uniform and never moved."""

import numpy as np
import pytest
from scipy import stats

from ebmjax.evaluate import ood_sets

FIVE_SIGMA = 2 * stats.norm.sf(5)


def test_interpolations_are_means_of_pairs_that_use_every_image_twice():
    num = 9
    images = np.zeros((num, num, 1, 1), np.uint8)
    images[np.arange(num), np.arange(num)] = 200  # image i is a spike at pixel i
    means = ood_sets(images)["interp"][:, :, 0, 0]
    assert means.dtype == np.uint8
    assert np.all(np.isin(means, [0, 100]))
    assert np.all((means == 100).sum(axis=1) == 2), "two different images"
    assert np.all((means == 100).sum(axis=0) == 2), "each enters twice"
    assert np.any(means != ood_sets(images, seed=1)["interp"][:, :, 0, 0])


@pytest.mark.parametrize(("pair", "mean"), [((0, 1), 0), ((1, 2), 2), ((255, 255), 255)])
def test_means_round_to_even_and_do_not_overflow(pair, mean):
    images = np.array(pair, np.uint8).reshape(2, 1, 1, 1)
    assert ood_sets(images)["interp"].ravel().tolist() == [mean, mean]


def test_noise_is_uniform_over_levels_and_white():
    noise = ood_sets(np.zeros((300, 8, 8, 3), np.uint8))["noise"]
    assert (noise.shape, noise.dtype) == ((300, 8, 8, 3), np.uint8)
    assert stats.chisquare(np.bincount(noise.ravel(), minlength=256)).pvalue > FIVE_SIGMA
    scaled = (noise - 127.5) / np.sqrt((256**2 - 1) / 12)
    for axis in range(4):
        assert abs(np.mean(scaled * np.roll(scaled, 1, axis))) < 5 / np.sqrt(noise.size)


def test_constant_images_have_one_uniform_colour_each():
    images = ood_sets(np.zeros((4000, 3, 3, 3), np.uint8))["constant"]
    assert (images.shape, images.dtype) == ((4000, 3, 3, 3), np.uint8)
    assert np.all(images == images[:, :1, :1])
    colours = images[:, 0, 0]
    assert stats.chisquare(np.bincount(colours.ravel(), minlength=256)).pvalue > FIVE_SIGMA
    correlation = np.corrcoef(colours.T)[np.triu_indices(3, 1)]
    assert np.all(np.abs(correlation) < 5 / np.sqrt(4000))


@pytest.mark.parametrize("name", ["noise", "constant"])
def test_easy_sets_never_move_and_seeds_differ(name):
    images = np.zeros((3, 5, 5, 1), np.uint8)
    first, again, other = (ood_sets(images, seed=seed)[name] for seed in (7, 7, 8))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)
    # The first words of Philox 4x64-10 for key (7, 0), low byte first.
    words = np.random.Philox(key=np.array([7, 0], np.uint64)).random_raw(2)
    expected = [byte for word in words for byte in int(word).to_bytes(8, "little")]
    levels = first if name == "noise" else first[:, 0, 0]
    count = min(16, levels.size)
    assert levels.ravel()[:count].tolist() == expected[:count]


@pytest.mark.parametrize("images", [np.zeros((1, 8, 8, 1), np.uint8), np.zeros((2, 8, 8, 1))])
def test_bad_images_are_refused(images):
    with pytest.raises(ValueError, match=r"images must be at least two, uint8"):
        ood_sets(images)
