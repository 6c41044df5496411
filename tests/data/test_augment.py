"""Augmentation against every crop NumPy can make."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ebmjax.data import add_gaussian_noise, random_flip, reflect_pad_crop

FIVE_SIGMA = 2 * stats.norm.sf(5)
NUM, HEIGHT, WIDTH, CHANNELS = 2000, 5, 6, 2


@pytest.fixture(scope="module")
def images():
    """No two pixels of the batch are equal, and all are exact in float32."""
    size = NUM * HEIGHT * WIDTH * CHANNELS
    return jnp.arange(size, dtype=jnp.float32).reshape(NUM, HEIGHT, WIDTH, CHANNELS)


def test_crops_are_numpys_and_uniform_over_the_places(images):
    padding = 2
    crop = jax.jit(reflect_pad_crop, static_argnames="padding")
    cropped = np.asarray(crop(jax.random.key(0), images, padding=padding))
    assert cropped.shape == images.shape
    margin = (padding, padding)
    padded = np.pad(np.asarray(images), ((0, 0), margin, margin, (0, 0)), mode="reflect")
    every = [
        padded[:, row : row + HEIGHT, column : column + WIDTH]
        for row in range(2 * padding + 1)
        for column in range(2 * padding + 1)
    ]
    is_place = np.array([(cropped == crops).all(axis=(1, 2, 3)) for crops in every])
    assert np.all(is_place.sum(axis=0) == 1), "each image is one crop of itself"
    assert stats.chisquare(is_place.sum(axis=1)).pvalue > FIVE_SIGMA
    # Neighbours in the batch move independently: 1 / 25 of them alike, 5 standard errors.
    place = is_place.argmax(axis=0)
    alike = np.mean(place[1:] == place[:-1])
    assert abs(alike - 1 / 25) < 5 * np.sqrt(1 / 25 * 24 / 25 / NUM)


def test_without_padding_nothing_moves(images):
    unmoved = reflect_pad_crop(jax.random.key(0), images[:3], padding=0)
    np.testing.assert_array_equal(unmoved, images[:3])


def test_flips_mirror_the_columns_of_half_the_images(images):
    flipped = np.asarray(jax.jit(random_flip)(jax.random.key(1), images))
    mirrored = np.asarray(images)[:, :, ::-1]
    is_mirrored = (flipped == mirrored).all(axis=(1, 2, 3))
    assert np.all(is_mirrored != (flipped == np.asarray(images)).all(axis=(1, 2, 3)))
    standard_error = 0.5 / np.sqrt(NUM)
    assert abs(is_mirrored.mean() - 0.5) < 5 * standard_error
    assert abs(np.mean(is_mirrored[1:] == is_mirrored[:-1]) - 0.5) < 5 * standard_error


def test_noise_is_white_gaussian_and_not_clipped():
    scale = 0.03
    ones = jnp.ones((NUM, HEIGHT, WIDTH, CHANNELS))
    noisy = jax.jit(add_gaussian_noise)(jax.random.key(2), ones, scale=scale)
    noise = (np.asarray(noisy, np.float64) - 1.0) / scale
    assert stats.kstest(noise.ravel(), "norm").pvalue > FIVE_SIGMA
    # A product of independent standard normals has variance 1: 5 standard errors of its mean.
    shifted = [np.roll(noise, 1, axis) * noise for axis in range(4)]
    assert all(abs(product.mean()) < 5 / np.sqrt(noise.size) for product in shifted)
    # Half of all pixels lie above the range.
    assert abs(np.mean(np.asarray(noisy) > 1.0) - 0.5) < 5 * 0.5 / np.sqrt(noise.size)


def test_no_noise_is_no_change(images):
    unchanged = add_gaussian_noise(jax.random.key(0), images[:3], scale=0.0)
    np.testing.assert_array_equal(unchanged, images[:3])


TRANSFORMS = [
    lambda key, x: reflect_pad_crop(key, x, padding=1),
    random_flip,
    lambda key, x: add_gaussian_noise(key, x, scale=0.5),
]


@pytest.mark.parametrize("transform", TRANSFORMS, ids=["crop", "flip", "noise"])
def test_keys_decide_and_the_dtype_stays(transform, images):
    # Below 256, so exact in bfloat16 too.
    x = images[:4].astype(jnp.bfloat16)
    first, again, other = (transform(jax.random.key(seed), x) for seed in (0, 0, 3))
    assert first.dtype == jnp.bfloat16
    np.testing.assert_array_equal(first, again)
    assert np.any(np.asarray(first != other))


@pytest.mark.parametrize("transform", TRANSFORMS, ids=["crop", "flip", "noise"])
def test_levels_and_single_images_are_refused(transform):
    key = jax.random.key(0)
    with pytest.raises(TypeError, match=r"images must be floating point, got .*uint8.*to_signed"):
        transform(key, jnp.zeros((2, 8, 8, 1), jnp.uint8))
    with pytest.raises(ValueError, match=r"images must have shape .* got \(8, 8, 1\)"):
        transform(key, jnp.zeros((8, 8, 1)))


@pytest.mark.parametrize("padding", [5, -1, 1.5, True])
def test_bad_padding_is_refused_under_jit_too(images, padding):
    with pytest.raises(ValueError, match=r"padding must be"):
        jax.jit(lambda x: reflect_pad_crop(jax.random.key(0), x, padding=padding))(images[:2])


@pytest.mark.parametrize("scale", [-0.1, float("nan"), float("inf")])
def test_bad_noise_is_refused(images, scale):
    with pytest.raises(ValueError, match=r"scale must be zero or more"):
        add_gaussian_noise(jax.random.key(0), images[:2], scale=scale)
