"""Reads images from an .npz file or a folder of .npy files."""

import contextlib
import os
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax.data._source import TRAIN, MissingSplitError, Source, existing, with_channels

WHAT = "an .npz file, or a folder of .npy files"
BROKEN = (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error)
"""Errors of files that are no arrays, or damaged."""


def array_source(path: str | os.PathLike[str] | None, split: str) -> Source:
    """Finds a split in an .npz file, or in a folder of .npy files with the same names.

    "train" is ``images`` and ``labels``, ``train_images`` and ``train_labels``, or ``x_train`` and
    ``y_train``. Any other split has its name in place of "train". Labels may be absent.

    Raises:
      FileNotFoundError: if there is no such file or folder.
      MissingSplitError: if it has no images of the split.
      ValueError: if it cannot be read, or its arrays do not fit together.
    """
    place = existing(path, WHAT)
    names = _names(place)
    image_names = [f"{split}_images", f"x_{split}"]
    label_names = [f"{split}_labels", f"y_{split}"]
    if split == TRAIN:
        image_names, label_names = ["images", *image_names], ["labels", *label_names]
    name = next((one for one in image_names if one in names), None)
    if name is None:
        raise MissingSplitError(
            f"{place} must hold the {split} images as {' or '.join(image_names)}; it holds "
            f"{sorted(names) or 'no arrays'}."
        )
    shape = with_channels(_shape(place, name), name)
    label_name = label_names[image_names.index(name)]
    labels = None
    if label_name in names:
        labels = _labels(np.asarray(_load(place, label_name)), label_name, shape[0])

    def read(places: np.ndarray) -> tuple[np.ndarray, set[tuple[int, ...]]]:
        images = np.asarray(_load(place, name)[places])
        return images.reshape(-1, *shape[1:]), {shape[1:3]}

    return Source(shape[0], shape[1:], labels, read, is_on_disk=place.is_dir())


def _names(place: Path) -> set[str]:
    """Returns the names of the arrays in a file or folder."""
    if place.is_dir():
        return {file.stem for file in place.glob("*.npy")}
    try:
        found = np.load(place, allow_pickle=False)
    except BROKEN as error:
        raise ValueError(f"{place} cannot be read as {WHAT}: {error}.") from error
    if not isinstance(found, np.lib.npyio.NpzFile):
        raise ValueError(
            f"{place} holds one array. Give the folder that it lies in, with images.npy and "
            "labels.npy, or save all arrays with numpy.savez."
        )
    with found:
        return set(found)


def _shape(place: Path, name: str) -> tuple[int, ...]:
    """Returns the shape of an array from its header, without reading the array."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(_told(place, name))
        if place.is_dir():
            file: Any = stack.enter_context((place / f"{name}.npy").open("rb"))
        else:
            file = stack.enter_context(zipfile.ZipFile(place)).open(f"{name}.npy")
        read = {(1, 0): np.lib.format.read_array_header_1_0}
        version = np.lib.format.read_magic(file)
        return read.get(version, np.lib.format.read_array_header_2_0)(file)[0]


def _load(place: Path, name: str) -> np.ndarray:
    """Returns an array; one of an .npy file stays on the disk until it is used."""
    with _told(place, name):
        if place.is_dir():
            return np.load(place / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        with np.load(place, allow_pickle=False) as arrays:
            return arrays[name]


@contextlib.contextmanager
def _told(place: Path, name: str) -> Iterator[None]:
    """Turns what a damaged file raises into an error that names the array."""
    try:
        yield
    except BROKEN as error:
        raise ValueError(
            f"{name} in {place} cannot be read: {error}. Save it again as a plain array."
        ) from error


def _labels(labels: np.ndarray, name: str, num_images: int) -> np.ndarray:
    """Returns labels (N,); Keras saves CIFAR's as (N, 1)."""
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (num_images,):
        remedy = " Save labels.argmax(axis=1) of one-hot labels." if labels.ndim == 2 else ""
        raise ValueError(
            f"{name} must have shape ({num_images},), one label an image, got {labels.shape}."
            f"{remedy}"
        )
    return labels
