"""Pixels have one range in all splits, told from the training images; nothing is saturated."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from ebmjax.data import load_images
from ebmjax.data._pixels import RANGES, to_levels

IMAGES = np.random.default_rng(0).integers(0, 256, (24, 10, 10, 3), np.uint8)
IMAGES.flat[:2] = 0, 255


def load(place, images, split="train", **options):
    name = "images" if split == "train" else f"{split}_images"
    np.savez(place / "mine.npz", **{name: images})
    return load_images("npz", split, path=place / "mine.npz", **options)


def as_set(images):
    return {image.tobytes() for image in images}


CHANGES = {
    "float32": (lambda x: x.astype(np.float32), "0..255"),
    "int64": (lambda x: x.astype(np.int64), "0..255"),
    "uint16": (lambda x: x.astype(np.uint16), "0..255"),
    "unit": (lambda x: x / 255.0, "0..1"),
    "signed": (lambda x: x / np.float32(127.5) - 1, "-1..1"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_ranges_are_recognised(name, tmp_path):
    change, pixels = CHANGES[name]
    found = load(tmp_path, change(IMAGES))
    became = " and became levels" * (pixels != "0..255")
    assert (found.notes, found.pixels) == ((f"pixels are {pixels}{became}",), pixels)
    assert as_set(found.data.images) == as_set(IMAGES)


@settings(deadline=None)
@given(
    arrays(np.uint8, array_shapes(min_dims=4, max_dims=4, max_side=4)), st.sampled_from([*RANGES])
)
def test_levels_come_back_from_every_range(images, pixels):
    """In half precision, too: its error is a tenth of a level at most."""
    images.flat[0] = 255  # floats of nearly nothing but 0 and 1 are refused as levels
    one = RANGES[pixels]
    for dtype in (np.float16, np.float32, np.float64):
        written = (images / one.factor + one.low).astype(dtype)
        found, name, _ = to_levels(written, str, pixels)
        assert name == pixels
        np.testing.assert_array_equal(found, images)


def test_bytes_are_levels_and_booleans_are_black_and_white(tmp_path):
    assert load(tmp_path, IMAGES).notes == ()
    # Bytes may stand beside floats: each says what it is.
    test = load(tmp_path, IMAGES, "test", pixels="0..1")
    assert as_set(test.data.images) == as_set(IMAGES)
    found = load(tmp_path, IMAGES > 127)
    assert set(np.unique(found.data.images)) == {0, 255}


@pytest.mark.parametrize("pixels", RANGES)
@pytest.mark.parametrize("end", ["low", "high"])
def test_half_a_level_outside_is_clipped_and_counted(pixels, end, tmp_path):
    """More moves pixels further than rounding does, and is refused."""
    one = RANGES[pixels]
    images = IMAGES.astype(np.float32) / one.factor + one.low
    images.flat[0 if end == "low" else 1] += (-1 if end == "low" else 1) * 0.49 / one.factor
    found = load(tmp_path, images)
    assert as_set(found.data.images) == as_set(IMAGES)
    assert found.notes[1].startswith("pixels just outside, clipped: 1 (")
    images.flat[0 if end == "low" else 1] += (-1 if end == "low" else 1) * 0.03 / one.factor
    with pytest.raises(ValueError, match=r"pixels .* must be in one range, .* got "):
        load(tmp_path, images, pixels=pixels)


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        ((IMAGES - 128.0) / 60, r"got -2.13333 to 2.11667 \(dtype float64\).*standardised"),
        (1.2 * IMAGES / 255, r"got 0 to 1.2 \(dtype float64\), which is nearly one grey if they"),
        (IMAGES / 16.0, r"got 0 to 15.9375 .* nearly one grey if they are 0..255.*pixels=0..255"),
        (IMAGES * np.uint16(257), r"got 0 to 65535 \(dtype uint16\)"),
        (np.where(IMAGES == 7, np.nan, IMAGES), "must be finite: image .* of .*mine.npz has"),
        (np.where(IMAGES == 7, np.inf, IMAGES), "must be finite: image .* of .*mine.npz has"),
    ],
)
def test_what_has_no_range_is_refused_with_the_values_seen(images, expected, tmp_path):
    with pytest.raises(ValueError, match=expected):
        load(tmp_path, images)


def test_a_range_that_is_named_is_not_told(tmp_path):
    dark = IMAGES / 16.0
    found = load(tmp_path, dark, pixels="0..255")
    assert as_set(found.data.images) == as_set(np.round(dark).astype(np.uint8))
    assert found.notes == ("pixels are 0..255", "the largest pixel is level 16 of 255")
    with pytest.raises(ValueError, match=r"pixels must be one of \['0..1', '-1..1', '0..255'\]"):
        load(tmp_path, dark, pixels="0..16")


def test_the_same_picture_has_the_same_level_in_every_split(tmp_path):
    """A test split without a negative number alone would look as if it were 0 to 1."""
    signed = IMAGES / 127.5 - 1
    train = load(tmp_path, signed)
    assert train.pixels == "-1..1"
    test = load(tmp_path, np.abs(signed), "test", pixels=train.pixels)
    expected = np.round((np.abs(signed).astype(np.float32) + 1) * 127.5).astype(np.uint8)
    assert as_set(test.data.images) == as_set(expected)
    assert "none is below 0 (0.00392157 to 1)" in test.notes[1]
    assert len(load(tmp_path, signed, "test", pixels=train.pixels).notes) == 1


@pytest.mark.parametrize(
    ("pixels", "images", "expected"),
    [
        ("0..1", IMAGES.astype(float), r"0 to 1 as those of .* got 0 to 255"),
        ("0..255", IMAGES / 255, r"0 to 255 as those of .* got 0 to 1 \(dtype float64\)"),
        ("0..1", IMAGES // 255, r"0..1 as those of .* got bytes from 0 to 1"),
    ],
)
def test_splits_of_two_ranges_are_refused(pixels, images, expected, tmp_path):
    with pytest.raises(ValueError, match=expected):
        load(tmp_path, images, "test", pixels=pixels)


def test_large_arrays_are_converted_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("ebmjax.data._pixels.AT_ONCE", 7)
    images = IMAGES / 255
    images[20, 0, 0, 0] = 1.001
    found = load(tmp_path, images)
    assert "pixels just outside, clipped: 1 (0 to 1.001)" in found.notes
    images[20, 0, 0, 0] = np.nan
    with pytest.raises(ValueError, match="image 20 of"):
        load(tmp_path, images)
