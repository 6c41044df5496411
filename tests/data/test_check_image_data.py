"""The refusal of bad images and labels, and what is said to mend them."""

import numpy as np
import pytest

from ebmjax.data import ImageData, check_image_data, load_digits


def test_packaged_digits_are_good_data():
    check_image_data(load_digits("test"), 10)


LEVELS, LABELS = np.zeros((4, 8, 8, 1), np.uint8), np.array([0, 1, 2, 9])
NAN_IMAGES = np.zeros((4, 8, 8, 1), np.float32)
NAN_IMAGES[1, 2:5] = np.nan


@pytest.mark.parametrize(
    ("images", "labels", "error", "message"),
    [
        (NAN_IMAGES, LABELS, TypeError, r"images must be uint8.*float32"),
        (LEVELS.astype(np.int64), LABELS, TypeError, r"images must be uint8.*got dtype int64"),
        (LEVELS[..., 0], LABELS, ValueError, r"images must have shape.*got \(4, 8, 8\)"),
        (LEVELS[:0], LABELS[:0], ValueError, r"images must have shape.*got \(0, 8, 8, 1\)"),
        (LEVELS, LABELS[:3], ValueError, r"labels must hold one class an image.*got \(3,\)"),
        (LEVELS, np.eye(4, 10, dtype=int), ValueError, r"labels must hold one.*got \(4, 10\)"),
        (LEVELS, LABELS.astype(float), TypeError, r"labels must be integers, got dtype float64"),
        (LEVELS, LABELS + 1, ValueError, r"labels must lie in 0\.\.9; 1 of 4.*3\] = 10"),
        (LEVELS, LABELS - 1, ValueError, r"labels must lie in 0\.\.9; 1 of 4.*labels\[0\] = -1"),
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
    with pytest.raises(ValueError, match=r"labels must all have .*Give one integer an image"):
        check_image_data(ImageData(images[:2], [0, [1, 2]]), 10)


def test_labels_that_stand_for_no_class_may_be_any_integers():
    checked = check_image_data(ImageData(LEVELS, np.array([3, 0, 1000, 7])))
    assert checked.labels.tolist() == [3, 0, 1000, 7]
