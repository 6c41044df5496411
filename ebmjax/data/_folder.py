"""Reads a folder of PNG and JPEG files, with one folder a class or without classes."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax._extras import needs_experiments
from ebmjax.data._fit import fitted
from ebmjax.data._source import TRAIN, MissingSplitError, Source, existing

SUFFIXES = (".png", ".jpg", ".jpeg")
GREY, COLOUR = ("1", "L"), ("RGB", "RGBA", "P", "LA", "CMYK", "YCbCr")
"""Modes of Pillow with eight bits a channel or fewer."""


def folder_source(
    path: str | os.PathLike[str] | None, split: str, image_size: int | None = None
) -> Source:
    """Finds the images of a split in a folder.

    ``path/<split>`` is the split if it exists. A folder without ``train`` is the split "train".
    Each folder inside is a class, in the order of the names; without folders there are no classes.
    All images are grey, or all become RGB. Sizes may differ only if ``image_size`` is given.

    Raises:
      FileNotFoundError: if there is no such folder.
      MissingSplitError: if it has no such split.
      ValueError: if there are no images, a class has none, or one cannot be read.
    """
    place = _of_split(existing(path, "a folder of images"), split)
    folders = sorted(one for one in place.iterdir() if one.is_dir() and one.name[0] != ".")
    names = tuple(one.name for one in folders)
    if not folders:
        files, labels = _images(place), None
    else:
        if stray := _images(place):
            raise ValueError(
                f"{place} holds images ({stray[0].name}) beside folders of classes {names[:3]}. "
                "Put every image into the folder of a class."
            )
        classes = [_images(one) for one in folders]
        if empty := [one.name for one, found in zip(folders, classes, strict=True) if not found]:
            raise ValueError(
                f"{place}: the classes {empty[:5]} have no images ({', '.join(SUFFIXES)}). Remove "
                "these folders or fill them."
            )
        files = [file for found in classes for file in found]
        labels = np.repeat(np.arange(len(classes)), [len(found) for found in classes])
    if not files:
        raise ValueError(f"{place} holds no images ({', '.join(SUFFIXES)}).")
    modes = {_mode(file) for file in files}
    is_grey = modes <= set(GREY)
    with _opened(files[0]) as first:
        shape = (first.height, first.width) if image_size is None else (image_size, image_size)
    shape = (*shape, 1 if is_grey else 3)

    def read(places: np.ndarray) -> tuple[np.ndarray, set[tuple[int, ...]]]:
        return _read([files[index] for index in places], is_grey, image_size)

    below = tuple(file.relative_to(place).as_posix() for file in files)
    notes = _notes(modes, is_grey)
    return Source(len(files), shape, labels, read, names, notes, below, is_on_disk=True)


def _of_split(place: Path, split: str) -> Path:
    if not place.is_dir():
        raise ValueError(f"{place} must be a folder of images, and is a file.")
    if (place / split).is_dir():
        return place / split
    if split == TRAIN:
        return place
    raise MissingSplitError(f"{place} has no folder {split!r}.")


def _images(place: Path) -> list[Path]:
    return sorted(file for file in place.iterdir() if file.suffix.lower() in SUFFIXES)


def _mode(file: Path) -> str:
    with _opened(file) as image:
        return image.mode


def _opened(file: Path) -> Any:
    with needs_experiments("a folder of images", "pillow"):
        from PIL import Image

    try:
        image = Image.open(file)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise _unreadable(file, error) from error
    if image.mode not in GREY + COLOUR:
        image.close()
        raise ValueError(
            f"{file} must have at most 8 bits a channel, got an image of Pillow's mode "
            f"{image.mode!r}. Convert it first."
        )
    return image


def _unreadable(file: Path, error: Exception) -> ValueError:
    return ValueError(f"{file} cannot be read as an image: {error}. Repair it or remove it.")


def _read(
    files: list[Path], is_grey: bool, image_size: int | None
) -> tuple[np.ndarray, set[tuple[int, ...]]]:
    """Returns the images, and the sizes of their files."""
    images: list[np.ndarray] = []
    sizes: set[tuple[int, ...]] = set()
    for file in files:
        with _opened(file) as opened:
            try:
                pixels = np.asarray(opened.convert("L" if is_grey else "RGB"))
            except (OSError, ValueError, SyntaxError) as error:  # cut short, or damaged
                raise _unreadable(file, error) from error
        sizes.add(pixels.shape[:2])
        image = fitted(pixels.reshape(*pixels.shape[:2], -1), image_size)
        if images and image.shape != images[0].shape:
            raise ValueError(
                f"images must have one size, got {images[0].shape[:2]} for {files[0]} and "
                f"{image.shape[:2]} for {file} (height, width). Set image_size, and their central "
                "squares are resized to it."
            )
        images.append(image)
    return np.stack(images), sizes


def _notes(modes: set[str], is_grey: bool) -> tuple[str, ...]:
    notes: list[str] = []
    if not is_grey and modes & set(GREY):
        notes.append("some images are grey and some in colour: all became RGB")
    if modes & {"RGBA", "LA"}:
        notes.append("transparency was dropped")
    return tuple(notes)
