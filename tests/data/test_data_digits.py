import numpy as np
import pytest
from sklearn import datasets

from ebmjax.data import load_digits


@pytest.fixture(scope="module")
def splits():
    return load_digits("train"), load_digits("test")


@pytest.mark.parametrize(("which", "size"), [(0, 1440), (1, 357)])
def test_sizes_dtypes_and_classes(splits, which, size):
    data = splits[which]
    assert data.images.shape == (size, 8, 8, 1)
    assert data.images.dtype == np.uint8
    assert data.labels.shape == (size,)
    assert data.labels.dtype == np.int32
    assert set(data.labels.tolist()) == set(range(10))


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
    assert [int(data.images.sum(dtype=np.int64)) for data in splits] == [7164749, 1789052]
    assert np.bincount(splits[1].labels).tolist() == [39, 28, 31, 44, 30, 33, 46, 30, 28, 48]


def test_an_unknown_split_is_named():
    with pytest.raises(ValueError, match=r"split must be .*got split='valid'"):
        load_digits("valid")  # type: ignore[arg-type]
