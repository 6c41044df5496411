"""Pixels have one range in all splits, told from the training images; nothing is saturated."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from PIL import Image

from ebmjax.data import load_images
from ebmjax.data._pixels import LEVELS, SIGNED_UNIT, SIXTEEN_BITS, UNIT, to_levels

RANGES = (UNIT, SIGNED_UNIT, LEVELS)

IMAGES = np.random.default_rng(0).integers(0, 256, (24, 10, 10, 3), np.uint8)
IMAGES.flat[:2] = 0, 255


def load(place, images, split="train", **options):
    name = "images" if split == "train" else f"{split}_images"
    np.savez(place / "mine.npz", **{name: images})
    return load_images("npz", split, path=place / "mine.npz", **options)


def as_set(images):
    return {image.tobytes() for image in images}


CHANGES = {
    "float32": (lambda x: x.astype(np.float32), LEVELS, "0..255"),
    "int64": (lambda x: x.astype(np.int64), LEVELS, "0..255"),
    "uint16": (lambda x: x.astype(np.uint16), LEVELS, "0..255"),
    "16 bits": (lambda x: x.astype(np.uint16) * 257, SIXTEEN_BITS, "0..65535"),
    "unit": (lambda x: x / 255.0, UNIT, "0..1"),
    "signed": (lambda x: x / np.float32(127.5) - 1, SIGNED_UNIT, "-1..1"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_ranges_are_recognised(name, tmp_path):
    change, value_range, words = CHANGES[name]
    found = load(tmp_path, change(IMAGES))
    became = " and became levels" * (words != "0..255")
    assert (found.notes, found.value_range) == ((f"pixels are {words}{became}",), value_range)
    np.testing.assert_array_equal(found.data.images, IMAGES)


@settings(deadline=None)
@given(
    arrays(np.uint8, array_shapes(min_dims=4, max_dims=4, max_side=4)),
    st.sampled_from([*RANGES, (-3.0, 20.0)]),
)
def test_levels_come_back_from_every_range(images, value_range):
    """In half precision, too: its error is a tenth of a level at most."""
    images.flat[0] = 255  # floats of nearly nothing but 0 and 1 are refused as levels
    low, high = value_range
    for dtype in (np.float16, np.float32, np.float64):
        written = (images * ((high - low) / 255) + low).astype(dtype)
        found, _ = to_levels(written, str, value_range)
        np.testing.assert_array_equal(found, images)


def test_bytes_are_levels_and_booleans_are_black_and_white(tmp_path):
    assert load(tmp_path, IMAGES).notes == ()
    # Bytes may stand beside floats: each says what it is.
    test = load(tmp_path, IMAGES, "test", value_range=UNIT)
    assert as_set(test.data.images) == as_set(IMAGES)
    found = load(tmp_path, IMAGES > 127)
    assert set(np.unique(found.data.images)) == {0, 255}


@pytest.mark.parametrize("value_range", RANGES)
@pytest.mark.parametrize("end", ["low", "high"])
def test_what_resizing_leaves_outside_is_clipped_and_counted(value_range, end, tmp_path):
    """A few pixels may lie outside by half the range; more is another range."""
    low, high = value_range
    sign, place = (-1, 0) if end == "low" else (1, 1)
    images = IMAGES.astype(np.float32) * ((high - low) / 255) + low
    images.flat[place] += sign * 0.49 * (high - low)
    found = load(tmp_path, images)
    np.testing.assert_array_equal(found.data.images, IMAGES)
    assert found.notes[1].startswith("pixels just outside, clipped: 1 (")
    images.flat[place] += sign * 0.03 * (high - low)
    with pytest.raises(ValueError, match=r"pixels .* must be in one range, .* got "):
        load(tmp_path, images, value_range=value_range)


@pytest.mark.parametrize("resample", ["BICUBIC", "LANCZOS"])
def test_sharp_letters_resized_keep_their_levels(resample, tmp_path):
    """A floor a little below 0 once made all of them grey."""
    method, sharp = getattr(Image.Resampling, resample), load_images("digits", "train").data.images
    sharp = sharp[:50, ..., 0].astype(np.float32) / 255
    images = np.stack([np.asarray(Image.fromarray(one).resize((24, 24), method)) for one in sharp])
    assert images.min() < -0.02
    found = load(tmp_path, images)
    assert found.value_range == UNIT
    expected = np.round(255 * np.clip(images, 0, 1)).astype(np.uint8)
    np.testing.assert_array_equal(found.data.images[..., 0], expected)


def test_all_training_images_decide_on_every_split_and_every_number_of_images(tmp_path):
    """A test split without a negative number alone would look as if it were 0 to 1."""
    signed = IMAGES / 127.5 - 1
    train, test = np.abs(signed), np.abs(signed)
    train[3] = signed[3]
    np.savez(tmp_path / "mine.npz", images=train, test_images=test)
    for split, number in (("train", None), ("train", 1), ("test", 2), ("test", None)):
        found = load_images("npz", split, path=tmp_path / "mine.npz", max_examples=number)
        assert found.value_range == SIGNED_UNIT
    expected = np.round((test.astype(np.float32) + 1) * 127.5).astype(np.uint8)
    np.testing.assert_array_equal(found.data.images, expected)
    assert "none is below 0 (0.00392157 to 1)" in found.notes[1]


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        (IMAGES / 255.0 - 0.2, r"got -0.2 to 0.8 \(dtype float64\).*standardised"),
        ((IMAGES - 128.0) / 60, r"got -2.13333 to 2.11667 \(dtype float64\).*standardised"),
        (1.6 * IMAGES / 255, r"got 0 to 1.6 \(dtype float64\), which is nearly one grey if they"),
        (IMAGES / 16.0, r"got 0 to 15.9375 .* nearly one grey if they are 0..255.*data.range=LOW"),
        (IMAGES * np.uint16(16), r"got 0 to 4080 \(dtype uint16\), .* grey if they are 0..65535"),
        (IMAGES * np.int32(16), r"got 0 to 4080 \(dtype int32\).*data.range=LOW,HIGH"),
        (np.where(IMAGES == 7, np.nan, IMAGES), "must be finite: image .* of .*mine.npz has"),
        (np.where(IMAGES == 7, np.inf, IMAGES), "must be finite: image .* of .*mine.npz has"),
    ],
)
def test_what_has_no_range_is_refused_with_the_values_seen(images, expected, tmp_path):
    with pytest.raises(ValueError, match=expected):
        load(tmp_path, images)


def test_a_range_that_is_named_is_not_told(tmp_path):
    dark = IMAGES / 16.0
    found = load(tmp_path, dark, value_range=LEVELS)
    np.testing.assert_array_equal(found.data.images, np.round(dark).astype(np.uint8))
    assert found.notes == ("pixels are 0..255", "the largest pixel is level 16 of 255")
    scan = IMAGES.astype(np.uint16) * 16
    np.testing.assert_array_equal(load(tmp_path, scan, value_range=(0, 4080)).data.images, IMAGES)


@pytest.mark.parametrize(
    ("value_range", "images", "expected"),
    [
        (UNIT, IMAGES.astype(float), r"0..1 as those of .* got 0 to 255"),
        (LEVELS, IMAGES / 255, r"0..255 as those of .* got 0 to 1 \(dtype float64\)"),
        (UNIT, IMAGES // 255, r"0..1 as those of .* got 0 to 1 \(dtype uint8\)"),
        (SIXTEEN_BITS, IMAGES, r"0..65535 as those of .* got 0 to 255 \(dtype uint8\)"),
    ],
)
def test_splits_of_two_ranges_are_refused(value_range, images, expected, tmp_path):
    with pytest.raises(ValueError, match=expected):
        load(tmp_path, images, "test", value_range=value_range)


def test_large_arrays_are_converted_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("ebmjax.data._pixels.AT_ONCE", 7)
    images = IMAGES / 255
    images[20, 0, 0, 0] = 1.001
    found = load(tmp_path, images)
    assert "pixels just outside, clipped: 1 (0 to 1.001)" in found.notes
    images[20, 0, 0, 0] = np.nan
    with pytest.raises(ValueError, match="image 20 of"):
        load(tmp_path, images)
