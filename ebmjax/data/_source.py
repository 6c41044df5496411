"""The form in which every source of images answers, and its errors."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

TRAIN = "train"


class MissingSplitError(ValueError):
    """A data set exists, but has no such split."""


class Source(NamedTuple):
    """A split that has been found, but not read yet.

    Attributes:
      num_images: N.
      shape: (height, width, channels) of the images as they will be read.
      labels: integers (N,), one for each image; None without classes.
      read: places (n,) to images (n, height, width, channels) of one shape, and the sizes (height,
        width) that they have in the source. Pixels are of any range that ``pixel_range`` knows.
      class_names: names of the classes in the order of the labels; () if they have none.
      notes: sentences about what was done to the images, for people.
      files: file of each image, below the folder of the split; () if images are no files.
      is_on_disk: whether ``read`` takes little more memory than the images that it returns.
    """

    num_images: int
    shape: tuple[int, ...]
    labels: np.ndarray | None
    read: Callable[[np.ndarray], tuple[np.ndarray, set[tuple[int, ...]]]]
    class_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    is_on_disk: bool = False


def of_array(images: np.ndarray, labels: np.ndarray | None) -> Source:
    """Returns the source of an array (N, height, width, channels) in memory."""
    size = images.shape[1:3]
    return Source(len(images), images.shape[1:], labels, lambda places: (images[places], {size}))


def existing(path: str | os.PathLike[str] | None, what: str) -> Path:
    """Returns ``path`` if something is there.

    Raises:
      ValueError: if no path is given.
      FileNotFoundError: if nothing is there.
    """
    if not path:
        raise ValueError(f"path must name {what}, got none.")
    place = Path(path).expanduser()
    if not place.exists():
        raise FileNotFoundError(f"path does not exist: {place}. It must name {what}.")
    return place


def check_memory(num_images: int, shape: tuple[int, ...]) -> None:
    """Raises ValueError if so many uint8 images do not fit into the memory that is free."""
    needed = num_images * int(np.prod(shape))
    free = _free_bytes()
    if free is not None and needed > free:
        raise ValueError(
            f"{num_images:,} images of shape {shape} need {needed / 2**30:.1f} GiB of memory, and "
            f"{free / 2**30:.1f} GiB are free. Read fewer (max_examples) or smaller ones "
            "(image_size)."
        )


def _free_bytes() -> int | None:
    """Returns the memory that programs can still take; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if "MemAvailable" in line)
    except (OSError, StopIteration, ValueError):
        return None


def with_channels(shape: tuple[int, ...], what: str) -> tuple[int, ...]:
    """Returns the shape (N, height, width, channels) of images; grey ones may lack the last axis.

    Raises:
      ValueError: for another number of axes, and for channels in front of height and width.
    """
    if len(shape) == 3:
        shape = (*shape, 1)
    if len(shape) != 4 or 0 in shape:
        raise ValueError(
            f"{what} must have shape (N, height, width, channels), or (N, height, width) if grey, "
            f"and no axis may be empty; got {shape}."
        )
    if shape[1] in (1, 3, 4) and shape[3] not in (1, 3, 4):
        raise ValueError(
            f"{what} of shape {shape} look like (N, channels, height, width); the last axis must "
            "be that of channels. Save images.transpose(0, 2, 3, 1) instead."
        )
    return shape
