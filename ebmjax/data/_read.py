"""Reads a source that has been found: one way for pictures and one for arrays."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ebmjax._phases import count
from ebmjax._shown import printable
from ebmjax._stored import AT_ONCE, StoredRows
from ebmjax.data._fit import about_fitting, fit_image, fit_shape
from ebmjax.data._images import ImageData
from ebmjax.data._levels import LEVELS, to_levels
from ebmjax.data._limits import check_memory
from ebmjax.data._pictures import common_shape, decode_pictures, survey
from ebmjax.data._source import DataUnavailableError, Source, check_labels
from ebmjax.data._watched import Watched

DARK = 64
"""Images without a level above it are reported."""


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


class _Reading(NamedTuple):
    """The way from places to uint8 images (n, *shape), known before any is read."""

    read: Callable[[np.ndarray], np.ndarray]
    shape: tuple[int, int, int]
    notes: tuple[str, ...]


def read_source(
    source: Source,
    places: np.ndarray,
    *,
    image_size: int | None,
    fit: str,
    pixels: str | None = None,
    on_disk: bool = False,
) -> LoadedImages:
    """Returns the images at ``places``; the other arguments are those of ``load_images``."""
    labels, num_classes, empty_classes = _classes(source)
    if on_disk:
        _check_can_stay(source)
    make = _of_array if source.pictures is None else _of_pictures
    reading = make(source, places, image_size, fit)
    num_bytes = len(places) * int(np.prod(reading.shape))
    found: str = LEVELS
    notes = [*source.notes]
    if on_disk:
        images: Any = _leave_on_disk(source, places, reading)
    elif source.pictures is not None:
        check_memory(num_bytes, f"{len(places):,} images of shape {reading.shape}")
        images = reading.read(places)
    else:
        images, found, more = _levels(source, places, num_bytes, pixels)
        notes += more
        images = _fit_all(images, image_size, fit)
    if not on_disk and (largest := int(images.max())) < DARK:
        notes.append(f"the largest pixel is level {largest} of 255")
    return LoadedImages(
        ImageData(images, labels[places]),
        source.num_images,
        num_classes,
        source.class_names,
        tuple(map(printable, (*notes, *reading.notes))),
        empty_classes,
        tuple(source.files[place] for place in places) if source.files else (),
        found,
    )


def _of_pictures(source: Source, places: np.ndarray, size: int | None, fit: str) -> _Reading:
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

    return _Reading(read, shape, (*told.notes, *about_fitting(told.sizes, size, fit)))


def _of_array(source: Source, places: np.ndarray, size: int | None, fit: str) -> _Reading:
    rows, (height, width, channels) = source.rows, source.shape
    assert rows is not None
    shape = fit_shape(height, width, size, fit)
    notes = about_fitting([(height, width)], size, fit)
    read = lambda some: _fit_all(rows(some), size, fit)  # noqa: E731
    return _Reading(read, (*shape, channels), notes)


def _fit_all(images: np.ndarray, size: int | None, fit: str) -> np.ndarray:
    height, width = images.shape[1:3]
    if fit_shape(height, width, size, fit) == (height, width):
        return images
    return np.stack([fit_image(image, size, fit) for image in images])


def _levels(
    source: Source, places: np.ndarray, num_bytes: int, pixels: str | None
) -> tuple[np.ndarray, str, tuple[str, ...]]:
    """Returns the rows of an array as levels, the range of its pixels, and notes about them."""
    assert source.rows is not None
    num_raw = (source.num_read + len(places)) * int(np.prod(source.shape))
    check_memory(
        num_bytes + num_raw * source.dtype.itemsize,
        f"{len(places):,} images of shape {source.shape} and dtype {source.dtype}",
    )
    return to_levels(source.rows(places), lambda index: source.name_of(int(places[index])), pixels)


def _check_can_stay(source: Source) -> None:
    if source.files_of is None:
        raise ValueError(
            "images that stay on the disk come from tensorflow-datasets, or from a folder of image "
            "files, an .npy file or a folder of them, or Hugging Face's save_to_disk. These are in "
            "memory, or their file can only be read whole: leave them in memory, or save them in "
            "such a folder."
        )
    if source.dtype != np.uint8:
        raise ValueError(
            f"images that stay on the disk must be levels 0 to 255, uint8, got dtype "
            f"{source.dtype}: their range shows only when all are read. Save them as uint8, or "
            "read them into memory."
        )


def _leave_on_disk(source: Source, places: np.ndarray, reading: _Reading) -> StoredRows:
    """Returns images that stay on the disk, whose files must not change."""
    files_of = source.files_of
    assert files_of is not None
    watched = Watched(files_of(places))

    def read(some: np.ndarray) -> np.ndarray:
        watched.check(files_of(some))
        try:
            return reading.read(some)
        except (OSError, ValueError) as error:
            raise DataUnavailableError(f"images on the disk cannot be read: {error}") from error

    def describe(some: np.ndarray) -> Iterator[str]:
        for place, file in zip(some, files_of(some), strict=True):
            yield f"{source.files[place]} {watched.size_of(file)}\n"

    read(places[: min(AT_ONCE, len(places))])  # a damaged file shows at once
    described = describe if source.files else None
    return StoredRows(read, places, reading.shape, np.uint8, described)


def _classes(source: Source) -> tuple[np.ndarray, int | None, tuple[int, ...]]:
    """Returns int32 labels, the number of classes, and classes without images (the first ones)."""
    if source.labels is None:
        return np.zeros(source.num_images, np.int32), source.num_classes, ()
    labels = check_labels(np.asarray(source.labels), source.name_of)
    if source.num_classes is not None:
        return labels, source.num_classes, ()
    num_classes = len(source.class_names) or int(labels.max()) + 1
    there = set(np.unique(labels).tolist())
    # A label may be huge; one class more than there are images is surely empty.
    empty = [label for label in range(min(num_classes, len(labels) + 1)) if label not in there]
    return labels, num_classes, tuple(empty)
