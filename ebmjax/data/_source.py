"""The form in which every source of images answers, and the names of splits."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ebmjax.data._pictures import Survey

TRAIN = "train"
WORDS = {
    TRAIN: ("train", "training"),
    "test": ("test", "testing"),
    "validation": ("validation", "valid", "val", "dev"),
    "eval": ("eval", "evaluation"),
}
"""Words that name a split. Case does not count."""

NAMES = ", ".join(word for words in WORDS.values() for word in words)
ENDING = re.compile(r"[ _-]*(set|data|images?|split)?[ _-]*\d*$")
"""Ending of a name that says no more than the word, as in "train_set" and "val2017"."""


class DataUnavailableError(RuntimeError):
    """Raised if a data set is not on disk in a readable form; the message says what to do."""


class DataChangedError(DataUnavailableError):
    """Raised if a file of images is no longer what it was; the message names it."""


class MissingSplitError(ValueError):
    """A data set exists, but has no such split.

    Attributes:
      others: splits that it has, without the training images.
    """

    def __init__(self, message: str, splits: Iterable[str] = ()):
        super().__init__(message)
        self.others = sorted(name for name in splits if not is_alike(name, TRAIN))


class Source(NamedTuple):
    """A split that has been found, but not read yet: encoded pictures, or rows of an array.

    Attributes:
      num_images: N.
      name_of: name of the image at a place, for messages.
      labels: integers, one for each image; None without classes.
      pictures: places (n,) to pictures as ``open_picture`` takes them, in order; None for an array.
      survey: facts of the pictures' headers, if the source has read them already.
      rows: places (n,) to numbers (n, height, width, channels); None for pictures.
      shape, dtype: of the rows; the shape is (height, width, channels).
      num_read: images that lie in memory while rows are read: N if a file is read whole.
      class_names: names of the classes in the order of the labels; () if they have none.
      num_classes: number of classes, if the source says it; else labels and names do.
      notes: sentences about what was not read or was changed, for people.
      files: file of each image, below the folder of the split; () if images are no files.
      files_of: files that hold the images at some places. None if images cannot stay on the disk.
    """

    num_images: int
    name_of: Callable[[int], str]
    labels: np.ndarray | None = None
    pictures: Callable[[np.ndarray], Iterator[Any]] | None = None
    survey: Survey | None = None
    rows: Callable[[np.ndarray], np.ndarray] | None = None
    shape: tuple[int, ...] = ()
    dtype: Any = np.uint8
    num_read: int = 0
    class_names: tuple[str, ...] = ()
    num_classes: int | None = None
    notes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    files_of: Callable[[np.ndarray], Iterable[Path]] | None = None


def existing(path: str | os.PathLike[str] | None, what: str) -> Path:
    """Returns ``path`` if a folder or a regular file is there, which ``what`` names."""
    if not path:
        raise ValueError(f"path must name {what}, got none.")
    place = Path(path).expanduser()
    if not place.exists():
        raise FileNotFoundError(f"path does not exist: {place}. It must name {what}.")
    if not (place.is_dir() or place.is_file()):
        raise ValueError(f"path must name {what}, and {place} is a pipe, a device or a socket.")
    return place


def about_unread(what: str, names: Sequence[object]) -> tuple[str, ...]:
    """Returns the note that some things were not read, with three examples; () for none."""
    if not names:
        return ()
    return (f"{what} not read: {len(names)} ({', '.join(map(str, names[:3]))})",)


def check_shape(shape: tuple[int, ...], dtype: Any, what: str) -> tuple[int, ...]:
    """Returns the shape (N, height, width, channels) of images; grey ones may lack channels."""
    if np.dtype(dtype).kind not in "buif":
        raise TypeError(f"{what} must be an array of numbers, got dtype {dtype}.")
    if len(shape) == 3:
        shape = (*shape, 1)
    if len(shape) != 4 or 0 in shape:
        raise ValueError(
            f"{what} must have shape (N, height, width, channels), or (N, height, width) if grey, "
            f"and no axis may be empty; got {shape}."
        )
    if shape[1] in (1, 3, 4) and shape[3] not in (1, 3, 4):
        raise ValueError(
            f"{what} of shape {shape} look like (N, channels, height, width). Save "
            "images.transpose(0, 2, 3, 1) instead."
        )
    if shape[3] not in (1, 3):
        raise ValueError(
            f"{what} must have 1 channel (grey) or 3 (colour), no transparency, got {shape[3]}."
        )
    return shape


def of_array(images: np.ndarray, labels: np.ndarray | None, what: str) -> Source:
    """Returns the source of an array (N, height, width, channels) in memory."""
    shape = check_shape(images.shape, images.dtype, f"images of {what}")
    images = images.reshape(shape)
    return Source(
        num_images=len(images),
        name_of=lambda index: f"image {index} of {what}",
        labels=labels,
        rows=lambda places: images[places],
        shape=shape[1:],
        dtype=images.dtype,
    )


def is_split(name: str) -> bool:
    """Returns whether ``name`` is a word that names a split."""
    return _meaning(name) in WORDS


def is_alike(name: str, split: str) -> bool:
    """Returns whether two names mean the same split."""
    return _meaning(name) == _meaning(split)


def find_split(names: Iterable[str], split: str, where: object) -> str:
    """Returns which of ``names`` means ``split``; ``where`` names the data set in messages.

    Raises:
      MissingSplitError: if none does.
      ValueError: if several do.
    """
    names = sorted(set(names))
    found = [name for name in names if is_alike(name, split)]
    if not found:
        raise MissingSplitError(f"{where} has the splits {names}, and no {split!r}.", names)
    if len(found) > 1 and (split == TRAIN or split not in found):
        raise ValueError(f"{where} must have one split {split!r}, got {found}. Rename all but one.")
    return split if split in found else found[0]


def _meaning(name: str) -> str:
    word = name.lower()
    plain = ENDING.sub("", word)
    return next((meaning for meaning, words in WORDS.items() if plain in words), word)
