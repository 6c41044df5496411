"""Augmentation: every draw is read back from the images, and NumPy redoes the rest."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ebmjax.data import _augment, add_gaussian_noise, augment_starts, random_flip, reflect_pad_crop

FIVE_SIGMA = 2 * stats.norm.sf(5)
EPS = np.finfo(np.float32).eps
KEY = jax.random.key(0)
NUM, HEIGHT, WIDTH, CHANNELS = 2000, 5, 6, 2
RNG = np.random.default_rng(0)
LUMINANCE = np.array([0.299, 0.587, 0.114])
COLOURS = np.float32(RNG.uniform(-0.3, 0.3, size=(NUM, 2, 3, 3)))


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


TRANSFORMS = [
    lambda key, x: reflect_pad_crop(key, x, padding=1),
    random_flip,
    lambda key, x: add_gaussian_noise(key, x, scale=0.5),
    lambda key, x: augment_starts(key, x[..., :1]),
]


@pytest.mark.parametrize("transform", TRANSFORMS, ids=["crop", "flip", "noise", "starts"])
def test_keys_decide_and_the_dtype_stays(transform, images):
    x = images[:4].astype(jnp.bfloat16)  # below 256, so exact
    first, again, other = (transform(jax.random.key(seed), x) for seed in (0, 0, 3))
    assert first.dtype == jnp.bfloat16
    np.testing.assert_array_equal(first, again)
    assert np.any(np.asarray(first != other))


@pytest.mark.parametrize("transform", TRANSFORMS, ids=["crop", "flip", "noise", "starts"])
def test_levels_and_single_images_are_refused(transform):
    key = jax.random.key(0)
    with pytest.raises(TypeError, match=r"images must be floating point, got .*uint8.*to_signed"):
        transform(key, jnp.zeros((2, 8, 8, 1), jnp.uint8))
    with pytest.raises(ValueError, match=r"images must have shape .* got \(8, 8, 1\)"):
        transform(key, jnp.zeros((8, 8, 1)))


def is_uniform(draws, low, high):
    return stats.kstest(draws, "uniform", (low, high - low)).pvalue > FIVE_SIGMA


def ramps(num, height, width):
    """Channel 0 holds the row of each pixel, channel 1 its column."""
    grid = np.stack(np.meshgrid(np.arange(height), np.arange(width), indexing="ij"), axis=-1)
    return jnp.asarray(np.tile(grid[None], (num, 1, 1, 1)), jnp.float32)


@pytest.fixture(scope="module")
def rectangles():
    """Sides and corners (NUM, 2) of the crops, in units of the image, read from two inner pixels.

    Pixel i of the output shows row side (i + 1/2) + corner H - 1/2 of the input.
    """
    height, width = 16, 12
    crop = jax.jit(_augment._crop_and_enlarge)
    cropped = np.float64(crop(KEY, ramps(NUM, height, width), 0.25))
    assert cropped.shape == (NUM, height, width, 2)
    rows, columns = cropped[:, :, 6, 0], cropped[:, 8, :, 1]
    sides = np.stack([rows[:, 8] - rows[:, 7], columns[:, 6] - columns[:, 5]], axis=1)
    at = np.stack([rows[:, 7], columns[:, 5]], axis=1)
    corners = (at + 0.5 - sides * [7.5, 5.5]) / [height, width]
    # The whole image, from these: inside, ramps; at its border, the border's pixels.
    expected = corners[:, :1] * height + sides[:, :1] * (np.arange(height) + 0.5) - 0.5
    np.testing.assert_allclose(rows, np.clip(expected, 0, height - 1), atol=64 * 16 * EPS)
    expected = corners[:, 1:] * width + sides[:, 1:] * (np.arange(width) + 0.5) - 0.5
    np.testing.assert_allclose(columns, np.clip(expected, 0, width - 1), atol=64 * 16 * EPS)
    return sides, corners


def test_crops_have_uniform_area_bounded_aspect_and_uniform_place(rectangles):
    sides, corners = rectangles
    area, log_aspect = sides[:, 0] * sides[:, 1], np.log(sides[:, 1] / sides[:, 0])
    assert is_uniform(area, 0.25, 1.0)
    widest = np.minimum(np.log(4 / 3), -np.log(area))
    # Differences of float32 rows up to 16, of 1/4 at least.
    tolerance = 16 * 16 * EPS / 0.25
    assert np.all(np.abs(log_aspect) <= widest + tolerance)
    free = area < 0.74  # there the aspect is bounded by 4/3 alone
    assert is_uniform(log_aspect[free] / np.log(4 / 3), -1.0, 1.0)
    assert np.all(corners >= -tolerance)
    assert np.all(corners + sides <= 1 + tolerance)
    roomy = area < 0.7
    for axis in range(2):
        assert is_uniform((corners / (1 - sides))[roomy, axis], 0.0, 1.0)
    assert abs(np.corrcoef(corners[roomy].T)[0, 1]) < 0.1 + 5 / np.sqrt(roomy.sum())


OFF = {"brightness": 0.0, "contrast": 0.0, "saturation": 0.0, "hue": 0.0}


def jittered(images=COLOURS, **options):
    """Images in [-1, 1] of which every one has changed."""
    jitter = jax.jit(lambda levels: _augment._jitter_colours(KEY, levels, **(OFF | options)))
    return 2 * np.float64(jitter((jnp.asarray(images) + 1) / 2)) - 1


def test_brightness_multiplies_levels_counted_from_the_darkest():
    levels, changed = (np.float64(COLOURS) + 1) / 2, (jittered(brightness=0.4) + 1) / 2
    factors = changed / levels
    each = factors[:, 0, 0, 0]
    want = np.broadcast_to(each[:, None, None, None], levels.shape)
    np.testing.assert_allclose(factors, want, rtol=16 * EPS)
    assert is_uniform(each, 0.6, 1.4)


def about(centre, images, changed):
    """The factor by which each image's distances from ``centre`` grew, from its largest one."""
    offsets, moved = images - centre, changed - centre
    largest = np.argmax(np.abs(offsets).reshape(NUM, -1), axis=1)[:, None]
    pick = [np.take_along_axis(a.reshape(NUM, -1), largest, axis=1)[:, 0] for a in (moved, offsets)]
    factor = pick[0] / pick[1]
    np.testing.assert_allclose(moved, factor[:, None, None, None] * offsets, atol=64 * EPS)
    return factor


def test_contrast_and_saturation_grow_distances_from_the_mean_and_from_grey():
    images = np.float64(COLOURS)
    luminance = (images @ LUMINANCE)[..., None]
    mean = luminance.mean(axis=(1, 2, 3), keepdims=True)
    assert is_uniform(about(mean, images, jittered(contrast=0.5)), 0.5, 1.5)
    assert is_uniform(about(luminance, images, jittered(saturation=0.5)), 0.5, 1.5)


def test_hue_turns_colours_about_the_grey_axis():
    images, changed = np.float64(COLOURS), jittered(hue=0.4)
    np.testing.assert_allclose(changed.sum(-1), images.sum(-1), atol=64 * EPS)
    # A plane across the grey axis: red is at angle 0, green at a third of a turn.
    plane = np.array([[2, -1, -1], [0, np.sqrt(3), -np.sqrt(3)]]) / np.sqrt(6)
    before, after = (image @ plane.T @ np.array([1, 1j]) for image in (images, changed))
    np.testing.assert_allclose(np.abs(after), np.abs(before), atol=64 * EPS)
    turns = np.angle((after * before.conj()).sum(axis=(1, 2))) / (2 * np.pi)
    rotation = np.exp(2j * np.pi * turns)[:, None, None]
    np.testing.assert_allclose(after, before * rotation, atol=64 * EPS)
    assert is_uniform(turns, -0.4, 0.4)


def test_grey_images_jitter_in_brightness_and_contrast_alone():
    grey = COLOURS[..., :1]
    np.testing.assert_allclose(jittered(grey, saturation=0.8, hue=0.4), grey, atol=4 * EPS)
    assert np.all(np.any(jittered(grey, contrast=0.8) != grey, axis=(1, 2, 3)))


@pytest.mark.parametrize("jitter_prob", [0.0, 0.8])
def test_shares_of_starts_change_their_colours_and_turn_grey(jitter_prob):
    """Without a crop and a flip; the rest are left exactly alone."""
    images = np.float32(RNG.uniform(-1, 1, size=(NUM, 2, 3, 3)))
    options = {"min_area": 1.0, "is_flipped": False, "jitter_prob": jitter_prob}
    changed = np.float64(jax.jit(lambda x: augment_starts(KEY, x, **options))(images))
    assert np.all(np.abs(changed) <= 1 + 2 * EPS)
    is_grey = np.ptp(changed, axis=-1).max(axis=(1, 2)) < 8 * EPS
    assert abs(is_grey.mean() - 0.2) < 5 * 0.4 / np.sqrt(NUM)
    distance = np.abs(changed - images).max(axis=(1, 2, 3))
    is_changed = distance[~is_grey] > 8 * EPS
    assert abs(is_changed.mean() - jitter_prob) < 5 * 0.4 / np.sqrt(NUM)
    if not jitter_prob:
        luminance = np.broadcast_to((images @ LUMINANCE)[..., None], images.shape)
        np.testing.assert_allclose(changed[is_grey], luminance[is_grey], atol=8 * EPS)


@pytest.mark.parametrize("channels", [1, 3])
def test_starts_stay_images_and_each_draws_its_own(channels):
    one = RNG.uniform(-1, 1, size=(1, 8, 8, channels)).astype(np.float32)
    same = jnp.asarray(np.tile(one, (6, 1, 1, 1)))
    augment = jax.jit(augment_starts)
    first, again, other = (augment(jax.random.key(seed), same) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.all(np.abs(first) <= 1 + 2 * EPS)
    flat = np.concatenate([np.asarray(x).reshape(len(x), -1) for x in (same[:1], first)])
    distances = np.linalg.norm(flat[:, None] - flat[None], axis=-1)[np.triu_indices(7, 1)]
    assert np.all(distances > 0.1), "no two of the original and its six versions are alike"
    assert np.any(np.asarray(first) != np.asarray(other))
    # The range is the one given.
    moved = jax.jit(lambda x: augment_starts(KEY, x, low=0.0, high=1.0))((same + 1) / 2)
    np.testing.assert_allclose(moved, (first + 1) / 2, atol=16 * EPS)
