"""Reads a data set of Hugging Face's ``datasets`` that was saved on disk."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax._records import read_json
from ebmjax._stored import AT_ONCE
from ebmjax.data._source import TRAIN, Source, about_unread, existing, find_split, is_split


def huggingface_source(
    path: str | os.PathLike[str] | None,
    split: str,
    image_column: str | None = None,
    label_column: str | None = None,
) -> Source:
    """Finds a split of a data set that ``save_to_disk`` wrote.

    Without names, the images are its only column of images, and the labels its only column of class
    labels, or else integers called "label". Without such a column there are no classes. A data set
    without splits is the split that it says it is, or "train".

    Raises:
      MissingSplitError: if it has no such split.
      ValueError: if it cannot be read, a column is not what it must be or not the only one, or a
        label is missing.
    """
    place = existing(path, "a folder that datasets.save_to_disk wrote")
    parts = _parts(place)
    rows = parts[find_split(parts, split, place)].with_format(None)
    if not len(rows):
        raise ValueError(f"{place}, split {split}, must have rows, got none.")
    column, label = _columns(rows.features, place, image_column, label_column)
    # Images come as bytes, which only ``open_picture`` decodes.
    encoded = type(rows.features[column])(decode=False)
    images = rows.select_columns([column]).cast_column(column, encoded)

    def name_of(index: int) -> str:
        return f"row {index} of {place} (split {split}, column {column!r})"

    def pictures(places: np.ndarray) -> Iterator[bytes | None]:
        for first in range(0, len(places), AT_ONCE):
            block = places[first : first + AT_ONCE].tolist()
            for index, one in zip(block, images[block][column], strict=True):
                if one is not None and one["bytes"] is None:
                    raise ValueError(
                        f"{name_of(index)} names a file instead of holding its image. Save the "
                        "data set again with save_to_disk."
                    )
                yield one and one["bytes"]

    unread = [name for name in rows.features if name not in (column, label)]
    files = [Path(file["filename"]) for file in rows.cache_files]
    return Source(
        num_images=len(rows),
        name_of=name_of,
        labels=None if label is None else _labels(rows, label, place),
        pictures=pictures,
        class_names=tuple(getattr(rows.features.get(label), "names", None) or ()),
        notes=about_unread("columns", unread),
        files_of=lambda places: files,
    )


def _parts(place: Path) -> dict[str, Any]:
    """Returns the splits of a saved data set."""
    try:
        import datasets  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError(
            f'the package datasets cannot be imported ({error}): pip install "ebmjax[huggingface]"'
        ) from error
    try:
        _check_files(place)
        found: Any = datasets.load_from_disk(str(place))
    except Exception as error:  # of many types, one for each way to be damaged
        raise ValueError(
            f"{place} cannot be read as a data set that save_to_disk wrote: {error}."
        ) from error
    if isinstance(found, dict):
        return dict(found)
    own = str(found.split)
    return {own if is_split(own) else TRAIN: found}


def _check_files(place: Path) -> None:
    """Raises ValueError for a pipe or a device, which ``datasets`` would wait for, inside or named.

    It opens the files that state.json names, wherever they are.
    """
    for file in (*place.glob("*"), *place.glob("*/*")):
        if file.exists() and not (file.is_file() or file.is_dir()):
            raise ValueError(f"{file.relative_to(place)} is no regular file")
        if file.name == "state.json":
            names = [one["filename"] for one in read_json(file)["_data_files"]]
            if names != [Path(name).name for name in names]:
                raise ValueError(f"{file.relative_to(place)} names files outside of its folder")


def _columns(
    features: Any, place: Path, image_column: str | None, label_column: str | None
) -> tuple[str, str | None]:
    """Returns the columns of images and of labels."""
    import datasets  # pyright: ignore[reportMissingImports]

    kinds = {name: type(one).__name__ for name, one in features.items()}
    kinds |= {name: one.dtype for name, one in features.items() if isinstance(one, datasets.Value)}
    pictures = [name for name, one in features.items() if isinstance(one, datasets.Image)]
    classes = [name for name, one in features.items() if isinstance(one, datasets.ClassLabel)]
    numbers = [name for name, kind in kinds.items() if "int" in kind]
    usual = classes or [name for name in numbers if name.lower() in ("label", "labels")]

    def pick(argument: str, name: str | None, usual: list[str], able: list[str]) -> str | None:
        """Returns the column that is named, or the only usual one; None if there is none."""
        if name in able or (name is None and len(usual) < 2):
            return name or next(iter(usual), None)
        raise ValueError(
            f"config.data.{argument} must be one of {able} for {place}, got {name!r}. Its columns "
            f"are {kinds}; text becomes classes by class_encode_column of datasets."
        )

    column = pick("image_column", image_column, pictures, pictures)
    if column is None:
        raise ValueError(f"{place} must have a column of images (Image), it has {kinds}.")
    if label_column == "":
        return column, None
    return column, pick("label_column", label_column, usual, [*classes, *numbers])


def _labels(rows: Any, label: str, place: Path) -> np.ndarray:
    labels = rows.select_columns([label])[:][label]
    missing = [index for index, one in enumerate(labels) if one is None]
    if missing:
        raise ValueError(f"row {missing[0]} of {place} has no {label!r} ({len(missing)} such).")
    return np.asarray(labels)
