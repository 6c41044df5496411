"""The 8x8 digits of scikit-learn: real images without a download."""

import importlib.util
from pathlib import Path
from typing import Literal

import numpy as np

from ebmjax._extras import needs_experiments
from ebmjax.data._images import ImageData
from ebmjax.data._indices import epoch_indices

NUM_TRAIN = 1440


def load_digits(split: Literal["train", "test"]) -> ImageData:
    """Returns a split of scikit-learn's digits: 1,440 train or 357 test images, 10 classes.

    Images are uint8 (N, 8, 8, 1): the packaged levels 0..16 become ``round(255 level / 16)``. The
    split is fixed: the first 1,440 and the last 357 of ``epoch_indices(0, 0, 1797)``. Writers
    appear in both splits, because the file does not name them.

    Source: Alpaydin & Kaynak 1998, UCI optical recognition of handwritten digits (its test set).
    """
    if split not in ("train", "test"):
        raise ValueError(f'split must be "train" or "test", got {split=}.')
    table = _read_packaged()
    levels, labels = table[:, :-1], table[:, -1]
    order = epoch_indices(0, 0, len(labels))
    chosen = order[:NUM_TRAIN] if split == "train" else order[NUM_TRAIN:]
    images = np.round(levels[chosen] * 255 / 16).astype(np.uint8).reshape(-1, 8, 8, 1)
    return ImageData(images, np.asarray(labels[chosen], np.int32))


def _read_packaged() -> np.ndarray:
    """Returns (1797, 65): 64 levels and the digit. To import scikit-learn would take a second."""
    if (package := importlib.util.find_spec("sklearn")) and package.origin:
        path = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
        if path.exists():
            return np.loadtxt(path, delimiter=",", dtype=np.int32)
    with needs_experiments("load_digits", "scikit-learn"):
        from sklearn.datasets import load_digits as load_packaged_digits

    levels, labels = load_packaged_digits(return_X_y=True)
    return np.column_stack([np.asarray(levels), np.asarray(labels)])
