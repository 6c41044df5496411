"""Reads a split of images from any source by name."""

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ebmjax._checks import check_at_least
from ebmjax._phases import count, phase
from ebmjax._shown import printable
from ebmjax._stored import AT_ONCE, StoredRows
from ebmjax._user_function import is_function_name
from ebmjax.data._arrays import array_source
from ebmjax.data._digits import load_digits
from ebmjax.data._folder import folder_source
from ebmjax.data._function import function_source
from ebmjax.data._huggingface import huggingface_source
from ebmjax.data._images import ImageData
from ebmjax.data._indices import epoch_indices
from ebmjax.data._pictures import DEEP, common_shape, decode_pictures, survey
from ebmjax.data._pixels import (
    LEVELS,
    MAX_SIDE,
    NAMED,
    REACH,
    SIXTEEN_BITS,
    about_fitting,
    check_memory,
    find_range,
    fit_images,
    fit_shape,
    to_levels,
)
from ebmjax.data._source import (
    TRAIN,
    DataChangedError,
    DataUnavailableError,
    MissingSplitError,
    Source,
    existing,
    of_array,
)
from ebmjax.data._tfds import missing, open_builder, tfds_source

DARK = 64
"""Images without a level above it are reported."""
NEED_PATH = ("npz", "npy", "folder", "huggingface")
"""Sources that read ``path``."""


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
      value_range: pixels of the source that became levels 0 and 255.
    """

    data: ImageData
    num_found: int
    num_classes: int | None
    class_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    empty_classes: tuple[int, ...] = ()
    files: tuple[str, ...] = ()
    value_range: tuple[float, float] = LEVELS


def is_tfds(name: str) -> bool:
    """Returns whether ``load_images`` looks for ``name`` among tensorflow-datasets."""
    return name != "digits" and name not in NEED_PATH and not is_function_name(name)


def load_images(
    name: str,
    split: str,
    *,
    path: str | os.PathLike[str] | None = None,
    image_size: int | None = None,
    fit: str = "crop",
    max_examples: int | None = None,
    on_disk: bool = False,
    value_range: tuple[float, float] | None = None,
    test_split: str | None = None,
    image_column: str | None = None,
    label_column: str | None = None,
) -> LoadedImages:
    """Reads a split once into uint8 (N, side, side, channels) and int32 labels (N,).

    Images come in the order of their source. ``max_examples`` takes some of your own at random, the
    same at every call, because files are often sorted by class.

    Args:
      name: a source. "digits" is packaged. "npz" and "npy" read ``path``, an .npz or .npy file or a
        folder of .npy files. "folder" reads a folder of PNG, JPEG, WebP and BMP files,
        "huggingface" what ``save_to_disk`` wrote. "FILE.py:FUNCTION" or "MODULE:FUNCTION" is
        called with the split and returns images and labels. Any other name is that of a data set of
        tensorflow-datasets.
      split: "train", "test", or another name that the source has, also by another usual word, such
        as "training" and "val".
      path: file or folder of the images; of tensorflow-datasets the folder of prepared ones, or
        None for its default.
      image_size: side that images are resized to, bilinearly; None: as they are.
      fit: what is done to images that are no squares: "crop" to the central square, "pad" with
        black, or "stretch".
      max_examples: number of images to read; None for all.
      on_disk: whether the images stay on the disk, to be read when rows are taken. For
        tensorflow-datasets, "folder", "huggingface", and .npy files of uint8.
      value_range: pixels that become levels 0 and 255. None: 0 and 255, 0 and 1, or -1 and 1, as
        all training images have them; of 16-bit whole numbers and grey pictures 0 and 65535.
      test_split: another split of a folder, whose name is not that of a class.
      image_column: column of images in a Hugging Face data set; None: the only one.
      label_column: column of labels; None: the only one; "": none.

    Raises:
      FileNotFoundError: if ``path`` does not exist.
      DataUnavailableError: if a data set of tensorflow-datasets is missing.
      MissingSplitError: if the source has no such split.
      ImportError: if a package that the source needs is not installed.
      TypeError, ValueError: if anything else is wrong; the message names the file, row or array.
    """
    if image_size is not None:
        check_at_least("image_size", image_size, 1)
        if image_size > MAX_SIDE:
            raise ValueError(f"image_size must be at most {MAX_SIDE} pixels, got {image_size}.")
    if max_examples is not None:
        check_at_least("max_examples", max_examples, 1)
    if name == "digits":
        source = of_array(*load_digits(split), name)  # pyright: ignore[reportArgumentType]
        places = np.arange(source.num_images)[:max_examples]
    elif is_tfds(name):
        source, count = tfds_source(name, split, _data_dir(path), max_examples)
        places = np.arange(count)
    else:
        columns = {"image_column": image_column, "label_column": label_column}
        source = _own_source(name, split, path, test_split, **columns)
        if value_range is None and source.rows is not None and source.dtype != np.uint8:
            train = source
            with contextlib.suppress(MissingSplitError):
                train = _own_source(name, TRAIN, path, test_split, **columns)
            value_range = range_of(train)
        places = np.arange(source.num_images)
        if max_examples is not None:
            places = epoch_indices(0, 0, source.num_images)[:max_examples]
    with phase(f"reading {len(places):,} images, split {split}"):
        return read_source(source, places, image_size, fit, value_range, on_disk)


def range_of(source: Source) -> tuple[float, float]:
    """Returns the range of all pixels of an array, see ``find_range``."""
    step, rows = source.num_read or AT_ONCE, source.rows
    assert rows is not None

    def blocks() -> Iterator[np.ndarray]:
        for first in range(0, source.num_images, step):
            yield rows(np.arange(first, min(first + step, source.num_images)))

    return find_range(blocks, source.dtype, source.name_of)


def check_source(name: str, split: str, *, needs_copy: bool = False, **source: Any) -> None:
    """Raises as ``load_images`` does if there is no such source or split; reads no image.

    A function is not called. A data set of tensorflow-datasets may be one still to be prepared.

    Args:
      name, split: as for ``load_images``.
      needs_copy: whether ``name`` must be a prepared data set of tensorflow-datasets.
      source: its ``path``, ``test_split``, ``image_column`` and ``label_column``.
    """
    if is_tfds(name) or needs_copy:
        builder = open_builder(name, _data_dir(source.get("path")))
        if needs_copy and not Path(builder.data_path).exists():
            raise missing(name, builder)
    elif name in NEED_PATH:
        _own_source(name, split, **source)


def _data_dir(path: str | os.PathLike[str] | None) -> Path | None:
    return existing(path, "the folder of prepared data sets") if path else None


def _own_source(
    name: str, split: str, path: Any = None, test_split: str | None = None, **columns: str | None
) -> Source:
    if name in ("npz", "npy"):
        return array_source(path, split)
    if name == "folder":
        return folder_source(path, split, test_split)
    if name == "huggingface":
        return huggingface_source(path, split, **columns)
    return function_source(name, split, path)


def read_source(
    source: Source,
    places: np.ndarray,
    size: int | None,
    fit: str,
    value_range: tuple[float, float] | None,
    on_disk: bool,
) -> LoadedImages:
    """Returns the images at ``places``; the other arguments are those of ``load_images``."""
    labels, num_classes, empty_classes = _classes(source)
    rows, notes, named, dtype = source.rows, [*source.notes], value_range, source.dtype
    if rows is None:
        read, shape, about, dtype = _of_pictures(source, places, size, fit)
    else:
        height, width, channels = source.shape
        shape = (*fit_shape(height, width, size, fit), channels)
        about = about_fitting([(height, width)], size, fit)
        read = lambda some: fit_images(rows(some), size, fit)  # noqa: E731
    value_range = named or (SIXTEEN_BITS if rows is None and dtype == np.uint16 else LEVELS)
    is_plain = dtype == np.uint8 and (value_range == LEVELS or value_range[1] <= 1.0)
    num_bytes = len(places) * math.prod(shape)
    if on_disk and not is_plain:
        raise ValueError(
            "images that stay on the disk must be levels 0 to 255, uint8, got dtype "
            f"{np.dtype(dtype)} in {value_range}. Save them as uint8, or read them into memory."
        )
    if on_disk:
        images: Any = _leave_on_disk(source, places, read, shape)
    elif rows is None and is_plain:
        check_memory(num_bytes, f"{len(places):,} images of shape {shape}")
        images = read(places)
    else:
        raw = source.shape or shape
        num_raw = (source.num_read + len(places)) * math.prod(raw)
        what = f"{len(places):,} images of shape {raw} and dtype {dtype}"
        check_memory(num_bytes + num_raw * np.dtype(dtype).itemsize, what)
        pixels = (rows or read)(places)
        if rows is None and not named and (high := int(pixels.max())) < REACH[SIXTEEN_BITS]:
            raise ValueError(
                "pictures of 16 bits must use more than a quarter of 0..65535, their largest pixel "
                f"is {high}. Name the range: {NAMED}."
            )
        name_of = lambda index: source.name_of(int(places[index]))  # noqa: E731
        levels, more = to_levels(pixels, name_of, value_range)
        images, notes = fit_images(levels, size, fit), [*notes, *more]
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
        LEVELS if rows is None and is_plain else value_range,
    )


def _of_pictures(
    source: Source, places: np.ndarray, size: int | None, fit: str
) -> tuple[Callable[[np.ndarray], np.ndarray], tuple[int, int, int], tuple[str, ...], Any]:
    """Returns the way from places to images (n, *shape), their shape, notes on all, their dtype."""
    pictures, names = source.pictures, lambda some: [source.name_of(int(i)) for i in some]
    assert pictures is not None
    # The one pass over all pictures where they stay on the disk: over their headers.
    headers = count(pictures(places), len(places), " headers")
    told = source.survey or survey(headers, names(places))
    shape = *common_shape(told.sizes, size, fit), 3 if told.mode == "RGB" else 1

    def read(some: np.ndarray) -> np.ndarray:
        found = pictures(some)
        if len(some) == len(places):
            found = count(found, len(some), " images")
        return decode_pictures(found, names(some), shape, size, fit, told.mode)

    dtype = np.uint16 if told.mode == DEEP else np.uint8
    return read, shape, (*told.notes, *about_fitting(told.sizes, size, fit)), dtype


def _leave_on_disk(
    source: Source,
    places: np.ndarray,
    read: Callable[[np.ndarray], np.ndarray],
    shape: tuple[int, ...],
) -> StoredRows:
    """Returns images that stay on the disk, whose files must not change."""
    files_of = source.files_of
    if files_of is None:
        raise ValueError(
            "images stay on the disk in tensorflow-datasets, folders of image files, .npy files "
            "and Hugging Face's save_to_disk alone. Read these into memory."
        )
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
    labels = np.asarray(source.labels)
    if not np.issubdtype(labels.dtype, np.integer):
        raise TypeError(
            f"labels must be integers, got dtype {labels.dtype}; "
            "numpy.unique(labels, return_inverse=True)[1] numbers the classes from 0."
        )
    wrong = np.flatnonzero((labels < 0) | (labels > np.iinfo(np.int32).max))
    if wrong.size:
        first = int(wrong[0])
        raise ValueError(
            f"labels must be at least 0 and below 2**31, got {labels[first]} for "
            f"{source.name_of(first)} ({wrong.size} such). Leave out images without a class."
        )
    labels = labels.astype(np.int32)
    if source.num_classes is not None:
        return labels, source.num_classes, ()
    num_classes = len(source.class_names) or int(labels.max()) + 1
    # A label may be huge; one class more than there are images is surely empty.
    empty = np.setdiff1d(np.arange(min(num_classes, len(labels) + 1)), labels)
    return labels, num_classes, tuple(empty.tolist())
