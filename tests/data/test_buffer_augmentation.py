"""Augmentation of starts: every draw is read back from the images, and NumPy redoes the rest."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ebmjax.data import (
    augment_starts,
    random_blur,
    random_colour_jitter,
    random_grey,
    random_resized_crop,
)

FIVE_SIGMA = 2 * stats.norm.sf(5)
EPS = np.finfo(np.float32).eps
KEY = jax.random.key(0)
NUM = 2000
RNG = np.random.default_rng(0)
LUMINANCE = np.array([0.299, 0.587, 0.114])
COLOURS = np.float32(RNG.uniform(-0.3, 0.3, size=(NUM, 2, 3, 3)))


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
    crop = jax.jit(random_resized_crop)
    cropped = np.float64(crop(KEY, ramps(NUM, height, width), min_area=0.25))
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


def test_without_a_crop_images_stay():
    images = jnp.asarray(COLOURS[:3])
    np.testing.assert_allclose(
        random_resized_crop(KEY, images, min_area=1.0), images, rtol=0, atol=4 * EPS
    )


OFF = {"brightness": 0.0, "contrast": 0.0, "saturation": 0.0, "hue": 0.0}


def jittered(images=COLOURS, **options):
    options = {"probability": 1.0, **OFF, **options}
    jitter = jax.jit(random_colour_jitter, static_argnames=("low", "high"))
    return np.float64(jitter(jax.random.key(1), jnp.asarray(images), **options))


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


def test_jitter_strikes_its_share_stays_in_range_and_leaves_the_rest_exactly_alone():
    images = np.float32(RNG.uniform(-1, 1, size=(NUM, 2, 3, 3)))
    changed = jittered(images, probability=0.8, brightness=0.8, contrast=0.8, saturation=0.8)
    is_changed = np.any(changed != images, axis=(1, 2, 3))
    assert abs(is_changed.mean() - 0.8) < 5 * 0.4 / np.sqrt(NUM)
    assert np.all(np.abs(changed) <= 1 + 2 * EPS)
    assert np.mean(np.abs(changed) > 1 - 4 * EPS) > 0.01
    # The range is the one given.
    moved = jittered((images + 1) / 2, low=0.0, high=1.0, brightness=0.4)
    np.testing.assert_allclose(moved, (jittered(images, brightness=0.4) + 1) / 2, atol=8 * EPS)


def test_grey_images_jitter_in_brightness_and_contrast_alone():
    grey = COLOURS[..., :1]
    np.testing.assert_allclose(jittered(grey, saturation=0.8, hue=0.4), grey, atol=4 * EPS)
    assert np.all(np.any(jittered(grey, contrast=0.8) != grey, axis=(1, 2, 3)))
    np.testing.assert_array_equal(random_grey(KEY, jnp.asarray(grey), probability=1.0), grey)


def test_a_share_of_images_turns_grey():
    changed = np.float64(jax.jit(random_grey)(KEY, COLOURS, probability=0.2))
    luminance = np.broadcast_to((np.float64(COLOURS) @ LUMINANCE)[..., None], COLOURS.shape)
    is_grey = np.all(np.abs(changed - luminance) < 8 * EPS, axis=(1, 2, 3))
    np.testing.assert_array_equal(changed[~is_grey], COLOURS[~is_grey])
    assert abs(is_grey.mean() - 0.2) < 5 * 0.4 / np.sqrt(NUM)


@pytest.mark.parametrize("axis", [1, 2])
def test_blur_weighs_neighbours_by_a_gaussian_of_uniform_width(axis):
    """Channel c holds 1 in row c alone, so that out[i, c] is the weight of row c in row i."""
    side = 5
    eye = np.tile(np.eye(side, dtype=np.float32)[None, :, None], (NUM, 1, 2, 1))
    images = np.swapaxes(eye, 1, axis)
    blurred = jax.jit(random_blur)(KEY, images, max_scale=2.0)
    weights = np.swapaxes(np.float64(blurred), 1, axis)
    np.testing.assert_allclose(weights[:, :, 0], weights[:, :, 1], atol=4 * EPS)
    weights = weights[:, :, 0]
    np.testing.assert_allclose(weights.sum(axis=2), 1, rtol=8 * EPS)
    # log(weight of itself / weight of the next) = 1 / (2 s^2); below 0.2 float32 loses the next.
    scales = 1 / np.sqrt(2 * np.log(weights[:, 2, 2] / np.maximum(weights[:, 2, 3], 1e-7)))
    is_seen = scales > 0.2
    assert is_uniform(scales[is_seen], 0.2, 2.0)
    assert abs(np.mean(~is_seen) - 0.1) < 5 * 0.3 / np.sqrt(NUM)
    offsets = np.arange(side)[:, None] - np.arange(side)
    want = np.exp(-0.5 * (offsets / scales[is_seen, None, None]) ** 2)
    want /= want.sum(axis=2, keepdims=True)
    # The scale read back is off by eps over the slope 1 / s^3 of log ratios: 8 eps at s = 2.
    np.testing.assert_allclose(weights[is_seen], want, atol=32 * EPS)


def test_without_a_width_nothing_is_blurred():
    np.testing.assert_array_equal(random_blur(KEY, COLOURS[:3], max_scale=0.0), COLOURS[:3])


@pytest.mark.parametrize("channels", [1, 3])
def test_starts_stay_images_and_each_draws_its_own(channels):
    one = RNG.uniform(-1, 1, size=(1, 8, 8, channels)).astype(np.float32)
    same = jnp.asarray(np.tile(one, (6, 1, 1, 1)))
    augment = jax.jit(augment_starts)
    first, again, other = (augment(jax.random.key(seed), same) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert first.shape == same.shape
    assert np.all(np.abs(first) <= 1 + 2 * EPS)
    flat = np.concatenate([np.asarray(x).reshape(6, -1) for x in (same[:1].repeat(6, 0), first)])
    distances = np.linalg.norm(flat[5:, None] - flat[None, 5:], axis=-1)[np.triu_indices(7, 1)]
    assert np.all(distances > 0.1), "no two of the original and its six versions are alike"
    assert np.any(np.asarray(first) != np.asarray(other))


def test_with_everything_off_starts_are_only_copied():
    images = jnp.asarray(COLOURS[:4])
    off = {"min_area": 1.0, "jitter_prob": 0.0, "grey_prob": 0.0}
    augment = jax.jit(augment_starts, static_argnames="is_flipped")
    still = augment(KEY, images, is_flipped=False, max_blur=0.0, **off)
    np.testing.assert_allclose(still, images, atol=8 * EPS)
    flipped = augment(KEY, images, is_flipped=True, **off)
    is_mirrored = np.all(np.abs(flipped - images[:, :, ::-1]) < 8 * EPS, axis=(1, 2, 3))
    is_same = np.all(np.abs(flipped - images) < 8 * EPS, axis=(1, 2, 3))
    assert np.all(is_mirrored | is_same)
    assert np.any(is_mirrored)
    blurred = augment(KEY, images, is_flipped=False, max_blur=2.0, **off)
    assert np.any(np.abs(blurred - images) > 0.01)


def test_the_dtype_stays():
    images = jnp.asarray(COLOURS[:2], jnp.bfloat16)
    assert jax.eval_shape(augment_starts, KEY, images).dtype == jnp.bfloat16


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda x: augment_starts(KEY, x[:, 0, 0]), ValueError, r"height, width.* got \(4, 3\)"),
        (lambda x: augment_starts(KEY, x[..., :2]), ValueError, r"1 \(grey\) or 3.*\(4, 2, 3, 2\)"),
        (lambda x: augment_starts(KEY, x > 0), TypeError, "images must be floating point"),
        (lambda x: augment_starts(KEY, x, jitter_prob=1.5), ValueError, "probability must lie"),
        (lambda x: augment_starts(KEY, x, low=1.0, high=0.0), ValueError, "low must be below"),
        (lambda x: random_resized_crop(KEY, x, min_area=0.0), ValueError, "min_area must be"),
        (lambda x: random_resized_crop(KEY, x, min_area=1.1), ValueError, "min_area must lie"),
        (lambda x: random_blur(KEY, x, max_scale=-1.0), ValueError, "max_scale must be zero"),
        (lambda x: random_grey(KEY, x, probability=-1.0), ValueError, "probability must lie"),
        (lambda x: random_colour_jitter(KEY, x, hue=0.6), ValueError, "twice hue must lie"),
        (lambda x: random_colour_jitter(KEY, x, contrast=2.0), ValueError, "contrast must lie"),
    ],
)
def test_bad_input(call, error, match):
    with pytest.raises(error, match=match):
        call(jnp.asarray(COLOURS[:4]))


def test_the_strengths_of_a_jitter_are_independent():
    """Two pixels, one grey, tell the three factors: by mean, difference and colour."""
    luminance, num = np.array([0.299, 0.587, 0.114]), 4000
    colour = np.array([0.02, 0.0, -0.02 * 0.299 / 0.114])  # of no luminance
    pixels = np.array([0.4 + colour, [0.5, 0.5, 0.5]])
    images = jnp.broadcast_to(jnp.float32(pixels), (num, 1, 2, 3))
    changed = random_colour_jitter(
        jax.random.key(0), images, probability=1.0, brightness=0.3, contrast=0.3, saturation=0.3,
        hue=0.0, low=0.0, high=1.0,
    )  # fmt: skip
    changed = np.float64(changed)[:, 0]
    grey = changed @ luminance
    brightness = grey.mean(axis=1) / 0.45
    contrast = (grey[:, 1] - grey[:, 0]) / 0.1 / brightness
    saturation = (changed[:, 0, 0] - grey[:, 0]) / 0.02 / brightness / contrast
    factors = np.stack([brightness, contrast, saturation])
    assert np.all(np.abs(factors - 1) < 0.301)
    correlations = np.corrcoef(factors)[np.triu_indices(3, 1)]
    assert np.all(np.abs(correlations) < 5 / np.sqrt(num))


def test_grey_images_are_blurred_like_any_other():
    """Whole images (min_area 1) of coloured stripes: what blur leaves of them does not tell."""
    num = 2000
    stripes = 0.5 * jnp.cos(jnp.pi / 2 * jnp.arange(8.0))[:, None] * jnp.array([[1.0, 0.5, 0.2]])
    images = jnp.broadcast_to(stripes, (num, 8, 8, 3))
    options = {"is_flipped": False, "jitter_prob": 0.0, "grey_prob": 0.5, "max_blur": 1.0}
    augment = jax.jit(functools.partial(augment_starts, min_area=1.0, **options))
    changed = augment(jax.random.key(0), images)
    changed = np.float64(changed)
    is_grey = np.ptp(changed, axis=3).max(axis=(1, 2)) < 1e-6
    left = np.ptp(changed @ np.array([0.299, 0.587, 0.114]), axis=(1, 2))
    assert np.std(left) > 0.1 * np.mean(left)
    assert abs(np.corrcoef(is_grey, left)[0, 1]) < 5 / np.sqrt(num)
