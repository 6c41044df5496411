"""Refusals of a trained model's ``score``, and the images and points that it takes."""

import warnings

import numpy as np
import pytest

from ebmjax.recipes.run.trained import _check_inputs

BYTES = np.arange(128, dtype=np.uint8).reshape(2, 8, 8, 1)
FLOATS = BYTES / np.float32(127.5) - 1


@pytest.mark.parametrize(
    ("inputs", "shape"), [(BYTES, (8, 8, 1)), (FLOATS, (8, 8, 1)), (np.ones((3, 2)), (2,))]
)
def test_bytes_signed_floats_and_points_stay_as_they_are(inputs, shape):
    with warnings.catch_warnings(action="error"):
        np.testing.assert_array_equal(_check_inputs(inputs, shape), inputs)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (BYTES[0], r"shape \(N, 8, 8, 1\), at least one, .*; got \(8, 8, 1\)"),
        (BYTES[..., 0], r"got \(2, 8, 8\)"),
        (BYTES[:0], r"got \(0, 8, 8, 1\)"),
        (np.zeros((2, 28, 28, 1), np.uint8), r"got \(2, 28, 28, 1\)"),
        (BYTES / 127, "some are below 0; got float64 from 0 to 1. Scale them"),
        (BYTES / 8, "got float64 from 0 to 15.875"),
        (BYTES * 2.0, "got float64 from 0 to 254"),
        (BYTES.astype(int), "got int64 from 0 to 127"),
        (np.full((1, 8, 8, 1), np.nan), "inputs must be finite"),
    ],
)
def test_other_images_are_refused(inputs, message):
    with pytest.raises(ValueError, match=message):
        _check_inputs(inputs, (8, 8, 1))


def test_bytes_that_are_nearly_black_are_warned_of():
    with pytest.warns(UserWarning, match="largest byte is 15 of 255"):
        _check_inputs(BYTES // 8, (8, 8, 1))
    with warnings.catch_warnings(action="error"):
        _check_inputs(0 * BYTES, (8, 8, 1))  # black, as a set of constant images may be
