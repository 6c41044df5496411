"""Images in memory: levels, their way to [-1, 1], the check, and the packaged digits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn import datasets

from ebmjax.data import (
    ImageData,
    check_image_data,
    dequantise,
    from_signed_unit,
    load_digits,
    to_signed_unit,
)

LEVELS = jnp.arange(256, dtype=jnp.uint8)


def test_levels_map_onto_the_signed_unit_interval_and_come_back():
    x = np.asarray(to_signed_unit(LEVELS))
    assert x.dtype == np.float32
    assert (x.min(), x.max()) == (-1.0, 1.0)
    # Exact integers, then at most two roundings of a number of size <= 1: one float32 epsilon.
    expected = np.arange(256) / 127.5 - 1
    np.testing.assert_allclose(x, expected, rtol=0, atol=np.finfo(np.float32).eps)
    np.testing.assert_array_equal(x, -x[::-1])
    for signed in (to_signed_unit(LEVELS), dequantise(jax.random.key(0), LEVELS)):
        back = from_signed_unit(signed)
        assert back.dtype == jnp.uint8
        np.testing.assert_array_equal(back, LEVELS)


def test_the_way_back_floors_and_clips():
    x = jnp.array([-jnp.inf, -2.0, -1.0 + 1.9 / 256, -1.0 + 2.1 / 256, 1.5, jnp.inf])
    assert from_signed_unit(x).tolist() == [0, 0, 0, 1, 255, 255]


def test_dequantised_levels_are_uniform_in_their_interval():
    num_draws = 4096
    levels = jnp.broadcast_to(LEVELS, (num_draws, 256))
    x = np.asarray(jax.jit(dequantise)(jax.random.key(0), levels), np.float64)
    low = np.arange(256) / 128 - 1
    fraction = (x - low) * 128
    # level + u rounds within [level, level + 1]; subtracting 1 then rounds by at most eps / 4.
    slack = 32 * np.finfo(np.float32).eps
    assert fraction.min() >= -slack
    assert fraction.max() <= 1 + slack
    # Five standard errors of the mean and of the variance (1/12; fourth moment 1/80) of U[0, 1].
    assert abs(fraction.mean() - 0.5) < 5 * np.sqrt(1 / 12 / fraction.size)
    assert abs(fraction.var() - 1 / 12) < 5 * np.sqrt((1 / 80 - 1 / 144) / fraction.size)
    assert abs(np.corrcoef(fraction[:, 0], fraction[:, 1])[0, 1]) < 5 / np.sqrt(num_draws)


@pytest.mark.parametrize(
    "transform", [to_signed_unit, lambda images: dequantise(jax.random.key(0), images)]
)
def test_normalising_twice_is_refused(transform):
    with pytest.raises(TypeError, match=r"images must be uint8 .*float32.*normalised already"):
        jax.jit(transform)(to_signed_unit(LEVELS))


IMAGES, LABELS = np.zeros((4, 8, 8, 1), np.uint8), np.array([0, 1, 2, 9])


@pytest.mark.parametrize(
    ("images", "labels", "error", "message"),
    [
        (IMAGES.astype(np.int64), LABELS, TypeError, r"images must be uint8.*got dtype int64"),
        (IMAGES[..., 0], LABELS, ValueError, r"images must have shape.*got \(4, 8, 8\)"),
        (IMAGES, LABELS.astype(float), TypeError, r"labels must be integers, got dtype float64"),
        (IMAGES, LABELS + 1, ValueError, r"labels must lie in 0\.\.9; 1 of 4.*3\] = 10"),
        (IMAGES, LABELS - 1, ValueError, r"labels must lie in 0\.\.9; 1 of 4.*labels\[0\] = -1"),
    ],
)
def test_bad_data_is_named(images, labels, error, message):
    with pytest.raises(error, match=message) as caught:
        check_image_data(ImageData(images, labels), 10)
    assert len(str(caught.value)) < 400


def test_arrays_come_back_from_lists():
    images, labels = load_digits("test")
    checked = check_image_data(ImageData(list(images[:5]), labels[:5].tolist()), 10)
    assert (checked.images.dtype, checked.labels.dtype) == (np.uint8, np.int32)
    np.testing.assert_array_equal(checked.images, images[:5])
    np.testing.assert_array_equal(checked.labels, labels[:5])
    with pytest.raises(ValueError, match="images must all have one shape, got a list"):
        check_image_data(ImageData([images[0], images[0, :4]], [0, 1]), 10)


@pytest.fixture(scope="module")
def splits():
    return load_digits("train"), load_digits("test")


def test_splits_hold_every_packaged_example_once(splits):
    levels, labels = datasets.load_digits(return_X_y=True)
    packaged = sorted(
        (int(y), *np.round(255 * x / 16).tolist()) for x, y in zip(levels, labels, strict=True)
    )
    ours = sorted(
        (int(y), *image.reshape(-1).tolist())
        for data in splits
        for image, y in zip(data.images, data.labels, strict=True)
    )
    assert ours == packaged


def test_the_split_never_moves(splits):
    assert [data.images.shape for data in splits] == [(1440, 8, 8, 1), (357, 8, 8, 1)]
    assert [int(data.images.sum(dtype=np.int64)) for data in splits] == [7164749, 1789052]
    assert np.bincount(splits[1].labels).tolist() == [39, 28, 31, 44, 30, 33, 46, 30, 28, 48]
