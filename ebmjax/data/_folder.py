"""Reads a folder of image files, with one folder a class or without classes."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ebmjax.data._pictures import SUFFIXES
from ebmjax.data._source import (
    NAMES,
    TRAIN,
    MissingSplitError,
    Source,
    about_unread,
    existing,
    find_split,
    is_alike,
    is_split,
)

ENDINGS = ", ".join(SUFFIXES)


def folder_source(
    path: str | os.PathLike[str] | None, split: str, test_split: str | None = None
) -> Source:
    """Finds the images of a split in a folder.

    A folder of splits holds one folder for each, as ``train`` and ``test``, and no other images. A
    folder without splits is the split "train". Each folder inside a split is a class, in the order
    of the names, or of the numbers if all names are numbers; without folders there are no classes.
    A note counts files that are not read.

    Raises:
      MissingSplitError: if it has no such split.
      ValueError: if there are no images, a class has none, or splits and classes are mixed.
    """
    place, unread = _of_split(existing(path, "a folder of images"), split, test_split)
    folders = _folders(place)
    if all(one.name.isdecimal() for one in folders):
        folders.sort(key=lambda one: int(one.name))
    names = tuple(one.name for one in folders)
    files, labels = _images(place), None
    if folders:
        if files:
            raise ValueError(
                f"{place} holds images ({files[0].name}) beside folders of classes {names[:3]}. "
                "Put every image into the folder of a class."
            )
        classes = [_images(one) for one in folders]
        if empty := [one.name for one, found in zip(folders, classes, strict=True) if not found]:
            raise ValueError(
                f"{place}: the classes {empty[:5]} have no images ({ENDINGS}) directly inside. "
                "Remove these folders or fill them."
            )
        files = [file for found in classes for file in found]
        labels = np.repeat(np.arange(len(classes)), [len(found) for found in classes])
    if not files:
        raise ValueError(f"{place} holds no images ({ENDINGS}).")
    unread += [name for one in (place, *folders) for name in _others(one, is_class=one != place)]

    def pictures(places: np.ndarray) -> Iterator[Path]:
        return (files[index] for index in places)

    return Source(
        num_images=len(files),
        name_of=lambda index: str(files[index]),
        labels=labels,
        pictures=pictures,
        class_names=names,
        notes=about_unread("files", unread),
        files=tuple(file.relative_to(place).as_posix() for file in files),
        files_of=pictures,
    )


def _of_split(place: Path, split: str, test_split: str | None) -> tuple[Path, list[str]]:
    """Returns the folder of the split, and what lies beside the training images' folder."""
    if not place.is_dir():
        raise ValueError(
            f"{place} must be a folder of images, and is a file. The source 'npz' reads arrays."
        )
    named = [name for name in (split, test_split) if name]
    folders = _folders(place)
    splits = [
        one.name
        for one in folders
        if is_split(one.name) or any(is_alike(one.name, name) for name in named)
    ]
    if not splits:
        if split == TRAIN:
            return place, []
        raise MissingSplitError(f"{place} has no folder {split!r}.")
    rest = [one for one in folders if one.name not in splits]
    mixed = [one.name for one in rest if any(map(_is_image, one.rglob("*")))]
    mixed += [file.name for file in _images(place)]
    if mixed:
        raise ValueError(
            f"{place} must hold folders of splits or of classes, got the splits {splits} beside "
            f"{mixed[:3]}. Names of splits are {NAMES}, and config.data.test_split. Put classes "
            "into a folder 'train'."
        )
    beside = [*_others(place, is_class=False), *(f"{one.name}/" for one in rest)]
    return place / find_split(splits, split, place), beside if split == TRAIN else []


def _folders(place: Path) -> list[Path]:
    return sorted(one for one in place.iterdir() if one.is_dir() and one.name[0] != ".")


def _images(place: Path) -> list[Path]:
    return sorted(filter(_is_image, place.iterdir()))


def _is_image(file: Path) -> bool:
    """Returns whether a file is read as an image, by its name."""
    return file.suffix.lower() in SUFFIXES and file.name[0] != "." and not file.is_dir()


def _others(place: Path, is_class: bool) -> Iterator[str]:
    """Yields what is not read of a folder; in the folder of a class, other folders are not."""
    for one in sorted(place.iterdir()):
        is_folder = one.is_dir()
        if _is_image(one) or (is_folder and one.name[0] != "." and not is_class):
            continue
        inside = [file for file in one.rglob("*") if not file.is_dir()] if is_folder else []
        for file in inside or [one]:
            yield file.relative_to(place.parent if is_class else place).as_posix()
