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
    package = importlib.util.find_spec("sklearn")
    path = Path((package and package.origin) or "").parent / "datasets" / "data" / "digits.csv.gz"
    if path.exists():  # to import scikit-learn would take a second
        table = np.loadtxt(path, delimiter=",", dtype=np.int32)
        levels, labels = table[:, :-1], table[:, -1]
    else:
        with needs_experiments("load_digits", "scikit-learn"):
            from sklearn.datasets import load_digits as load_packaged_digits

        levels, labels = map(np.asarray, load_packaged_digits(return_X_y=True))
    order = epoch_indices(0, 0, len(labels))
    chosen = order[:NUM_TRAIN] if split == "train" else order[NUM_TRAIN:]
    images = np.round(levels[chosen] * 255 / 16).astype(np.uint8).reshape(-1, 8, 8, 1)
    return ImageData(images, np.asarray(labels[chosen], np.int32))
