"""Reads a source that has been found: one way for pictures and one for arrays."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ebmjax._phases import count
from ebmjax._shown import printable
from ebmjax._stored import AT_ONCE, StoredRows
from ebmjax.data._fit import about_fitting, check_memory, fit_image, fit_shape
from ebmjax.data._images import ImageData
from ebmjax.data._levels import LEVELS, to_levels
from ebmjax.data._pictures import common_shape, decode_pictures, survey
from ebmjax.data._source import DataChangedError, DataUnavailableError, Source, check_labels

DARK = 64
"""Images without a level above it are reported."""

Reading = tuple[Callable[[np.ndarray], np.ndarray], tuple[int, int, int], tuple[str, ...]]
"""The way from places to images (n, *shape); their shape, and notes, before any is read."""


class LoadedImages(NamedTuple):
    """Images of a split, with what was done to them.

    Attributes:
      data: uint8 images (N, height, width, channels) and int32 labels (N,); 0 without classes.
      num_found: images that the source has; N of them were read.
      num_classes: number of classes; None without classes or if the source does not say.
      class_names: names of the classes in the order of the labels; () if they have none.
      notes: sentences about what was done to the images, and what was not read.
      empty_classes: classes below ``num_classes`` that none of the ``num_found`` images has.
      files: file of each image, below the folder of the split; () if images are no files.
      pixels: range of the pixels in the source, "0..255", "0..1" or "-1..1".
    """

    data: ImageData
    num_found: int
    num_classes: int | None
    class_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    empty_classes: tuple[int, ...] = ()
    files: tuple[str, ...] = ()
    pixels: str = LEVELS


def read_source(
    source: Source,
    places: np.ndarray,
    size: int | None,
    fit: str,
    pixels: str | None,
    on_disk: bool,
) -> LoadedImages:
    """Returns the images at ``places``; the other arguments are those of ``load_images``."""
    labels, num_classes, empty_classes = _classes(source)
    if on_disk:
        _check_can_stay(source)
    make = _of_array if source.pictures is None else _of_pictures
    read, shape, about = make(source, places, size, fit)
    notes, found, num_bytes = [*source.notes], LEVELS, len(places) * math.prod(shape)
    if on_disk:
        images: Any = _leave_on_disk(source, places, read, shape)
    elif source.rows is None:
        check_memory(num_bytes, f"{len(places):,} images of shape {shape}")
        images = read(places)
    else:
        num_raw = (source.num_read + len(places)) * math.prod(source.shape)
        what = f"{len(places):,} images of shape {source.shape} and dtype {source.dtype}"
        check_memory(num_bytes + num_raw * source.dtype.itemsize, what)
        name_of = lambda index: source.name_of(int(places[index]))  # noqa: E731
        levels, found, more = to_levels(source.rows(places), name_of, pixels)
        images, notes = _fit_all(levels, size, fit), [*notes, *more]
    if not on_disk and (largest := int(images.max())) < DARK:
        notes.append(f"the largest pixel is level {largest} of 255")
    return LoadedImages(
        ImageData(images, labels[places]),
        source.num_images,
        num_classes,
        source.class_names,
        tuple(map(printable, (*notes, *about))),
        empty_classes,
        tuple(source.files[place] for place in places) if source.files else (),
        found,
    )


def _of_pictures(source: Source, places: np.ndarray, size: int | None, fit: str) -> Reading:
    pictures, names = source.pictures, lambda some: [source.name_of(int(i)) for i in some]
    assert pictures is not None
    # The one pass over all pictures where they stay on the disk: over their headers.
    headers = count(pictures(places), len(places), " headers")
    told = source.survey or survey(headers, names(places))
    shape = *common_shape(told.sizes, size, fit), 1 if told.is_grey else 3

    def read(some: np.ndarray) -> np.ndarray:
        found = pictures(some)
        if len(some) == len(places):
            found = count(found, len(some), " images")
        return decode_pictures(found, names(some), shape, size, fit)

    return read, shape, (*told.notes, *about_fitting(told.sizes, size, fit))


def _of_array(source: Source, places: np.ndarray, size: int | None, fit: str) -> Reading:
    del places
    rows, (height, width, channels) = source.rows, source.shape
    assert rows is not None
    shape = (*fit_shape(height, width, size, fit), channels)
    read = lambda some: _fit_all(rows(some), size, fit)  # noqa: E731
    return read, shape, about_fitting([(height, width)], size, fit)


def _fit_all(images: np.ndarray, size: int | None, fit: str) -> np.ndarray:
    height, width = images.shape[1:3]
    if fit_shape(height, width, size, fit) == (height, width):
        return images
    return np.stack([fit_image(image, size, fit) for image in images])


def _check_can_stay(source: Source) -> None:
    if source.files_of is None:
        raise ValueError(
            "images stay on the disk in tensorflow-datasets, folders of image files, .npy files "
            "and Hugging Face's save_to_disk alone. Read these into memory."
        )
    if source.dtype != np.uint8:
        raise ValueError(
            f"images that stay on the disk must be levels 0 to 255, uint8, got dtype "
            f"{source.dtype}. Save them as uint8, or read them into memory."
        )


def _leave_on_disk(
    source: Source,
    places: np.ndarray,
    read: Callable[[np.ndarray], np.ndarray],
    shape: tuple[int, ...],
) -> StoredRows:
    """Returns images that stay on the disk, whose files must not change."""
    files_of = source.files_of
    assert files_of is not None
    seen = {file: _stamp(file) for file in set(files_of(places))}

    def read_unchanged(some: np.ndarray) -> np.ndarray:
        for file in set(files_of(some)):
            if _stamp(file) != seen[file]:
                raise DataChangedError(
                    f"{file} is gone or has another size or time of change since this run began: a "
                    "run needs the same images from its first step to its last. Put the file back "
                    "as it was and give the same command again."
                )
        try:
            return read(some)
        except (OSError, ValueError) as error:
            raise DataUnavailableError(f"images on the disk cannot be read: {error}") from error

    def describe(some: np.ndarray) -> Iterator[str]:
        for place, file in zip(some, files_of(some), strict=True):
            size, _ = seen[file] or (None, None)
            yield f"{source.files[place]} {size}\n"

    read_unchanged(places[: min(AT_ONCE, len(places))])  # a damaged file shows at once
    return StoredRows(read_unchanged, places, shape, np.uint8, describe if source.files else None)


def _stamp(file: Path) -> tuple[int, int] | None:
    """Returns a file's size and time of change; None if it is gone."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _classes(source: Source) -> tuple[np.ndarray, int | None, tuple[int, ...]]:
    """Returns int32 labels, the number of classes, and classes without images (the first ones)."""
    if source.labels is None:
        return np.zeros(source.num_images, np.int32), source.num_classes, ()
    labels = check_labels(np.asarray(source.labels), source.name_of)
    if source.num_classes is not None:
        return labels, source.num_classes, ()
    num_classes = len(source.class_names) or int(labels.max()) + 1
    # A label may be huge; one class more than there are images is surely empty.
    empty = np.setdiff1d(np.arange(min(num_classes, len(labels) + 1)), labels)
    return labels, num_classes, tuple(empty.tolist())
