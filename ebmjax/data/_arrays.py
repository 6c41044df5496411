"""Reads images from an .npz file, an .npy file or a folder of .npy files, and points."""

import math
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from ebmjax._npy import StoredArray, find_array, is_zip, members
from ebmjax.data._pixels import check_memory
from ebmjax.data._source import (
    TRAIN,
    MissingSplitError,
    Source,
    about_unread,
    check_shape,
    existing,
    find_split,
    is_alike,
)

WHAT = "an .npz file, an .npy file, or a folder of .npy files"
BYTES_AN_IMAGE = 32
"""Memory for a label and a place in the order, with what is made on the way."""
KINDS = {"images": "images", "x": "images", "labels": "labels", "y": "labels"}


def array_source(path: str | os.PathLike[str] | None, split: str) -> Source:
    """Finds a split in an .npz file, or in a folder of .npy files with the same names.

    "train" is ``images`` and ``labels``, ``train_images`` and ``train_labels``, or ``x_train`` and
    ``y_train``. Any other split has its name in place of "train". Labels may be absent. One .npy
    file holds training images alone.

    Raises:
      MissingSplitError: if it has no images of the split.
      ValueError: if it cannot be read, or its arrays do not fit together.
    """
    place = existing(path, WHAT)
    names, others, open_array = _contents(place)
    found = {name: _meaning(name) for name in names}
    there = sorted({one[1] for one in found.values() if one and one[0] == "images"})
    try:
        chosen = find_split(there, split, place)
    except MissingSplitError as error:
        raise MissingSplitError(
            f"{place} must hold the {split} images as {split}_images or x_{split}"
            f"{' or images' * (split == TRAIN)}; it holds {sorted(names) or 'no arrays'}. Files of "
            "images are read by config.data.name=folder.",
            there,
        ) from error
    name = _only(found, "images", chosen, place)
    array = open_array(name)
    file = array.file
    what = f"{name} in {place}" if len(names) > 1 else str(place)
    shape = check_shape(array.shape, array.dtype, what)
    check_memory(BYTES_AN_IMAGE * shape[0], f"labels and order of {shape[0]:,} images")
    label_name = _only(found, "labels", chosen, place)
    labels = _labels(open_array(label_name), label_name, shape[0]) if label_name else None

    def rows(places: np.ndarray) -> np.ndarray:
        return np.asarray(array.load()[places]).reshape(-1, *shape[1:])

    unread = [name for name, meaning in found.items() if meaning is None] + others
    return Source(
        num_images=shape[0],
        name_of=lambda place: f"image {place} of {what}",
        labels=labels,
        rows=rows,
        shape=shape[1:],
        dtype=array.dtype,
        num_read=0 if file else shape[0],
        notes=about_unread("arrays or files", unread) if split == TRAIN else (),
        files_of=(lambda places: [file]) if file else None,
    )


def _contents(place: Path) -> tuple[list[str], list[str], Callable[[str], StoredArray]]:
    """Returns names of arrays, names of everything else, and the function that opens an array."""
    if place.is_dir():
        files = sorted(place.iterdir())
        arrays = [file for file in files if file.suffix == ".npy" and file.name[0] != "."]
        others = [file.name for file in files if file not in arrays]
        return [file.stem for file in arrays], others, lambda n: find_array(place / f"{n}.npy")
    if is_zip(place):
        return *members(place), partial(find_array, place)
    return ["images"], [], lambda name: find_array(place)


def _meaning(name: str) -> tuple[str, str] | None:
    """Returns whether an array holds images or labels, and of which split; None for neither."""
    word = name.lower()
    if word in ("images", "labels"):
        return word, TRAIN
    for part, kind in KINDS.items():
        if word.startswith(f"{part}_"):
            return kind, name[len(part) + 1 :]
        if word.endswith(f"_{part}"):
            return kind, name[: -len(part) - 1]
    return None


def _only(found: dict[str, tuple[str, str] | None], kind: str, split: str, place: Path) -> str:
    """Returns the array of that kind and split; "" if there is none."""
    alike = {name: one[1] for name, one in found.items() if one and one[0] == kind}
    alike = {name: one for name, one in alike.items() if is_alike(one, split)}
    names = [name for name, one in alike.items() if one == split] or list(alike)
    if len(names) > 1:
        raise ValueError(f"{place} must hold the {kind} of {split} once, got {names}. Remove one.")
    return next(iter(names), "")


def _labels(array: StoredArray, name: str, num_images: int) -> np.ndarray:
    """Returns labels (N,); Keras saves CIFAR's as (N, 1)."""
    shape = array.shape[:1] if array.shape[1:] == (1,) else array.shape
    if shape != (num_images,):
        raise ValueError(
            f"{name} must have shape ({num_images},), one label an image, got {shape}. Save "
            "labels.argmax(axis=1) of one-hot labels."
        )
    return np.asarray(array.load()).reshape(shape)


def load_points(path: str | os.PathLike[str]) -> np.ndarray:
    """Returns the points in an .npy file, float32 (N, d).

    Raises ValueError unless it holds one or more finite points.
    """
    place = Path(path).expanduser()
    must_be = f"{place} must be an .npy file of points (N, d)"
    if not place.is_file():
        raise FileNotFoundError(f"{must_be}, and there is no such file.")
    try:
        array = find_array(place)  # which an .npz file is not
    except ValueError as error:
        raise ValueError(f"{must_be}; {error}") from error
    if len(array.shape) != 2 or 0 in array.shape or array.dtype.kind not in "buif":
        raise ValueError(f"{must_be}, got shape {array.shape} and dtype {array.dtype}.")
    check_memory(4 * math.prod(array.shape), f"the points of {place}")
    with np.errstate(over="ignore"):  # infinite numbers are named below
        points = np.asarray(array.load(), np.float32)
    broken = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if broken.size:
        where = f"{broken.size} are not, the first in row {broken[0]}"
        raise ValueError(f"{must_be}, all finite in 32 bits: {where}.")
    return points
