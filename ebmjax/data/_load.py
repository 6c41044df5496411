"""Reads a split of images from any source by name."""

import os
from typing import Any, NamedTuple

import numpy as np

from ebmjax._checks import check_at_least
from ebmjax._stored import AT_ONCE, StoredRows
from ebmjax._user_function import is_function_name
from ebmjax.data._arrays import array_source
from ebmjax.data._digits import load_digits
from ebmjax.data._fit import about_fitting, fitted
from ebmjax.data._folder import folder_source
from ebmjax.data._function import function_source
from ebmjax.data._huggingface import huggingface_source
from ebmjax.data._images import ImageData
from ebmjax.data._indices import epoch_indices
from ebmjax.data._levels import LEVELS, pixel_range, to_levels
from ebmjax.data._prepare import DataUnavailableError
from ebmjax.data._source import Source, check_memory, of_array
from ebmjax.data._tfds import read_tfds

NEED_PATH = ("npz", "folder", "huggingface")
"""Sources that read ``path``."""


def is_tfds(name: str) -> bool:
    """Returns whether ``load_images`` looks for ``name`` among tensorflow-datasets."""
    return name != "digits" and name not in NEED_PATH and not is_function_name(name)


class LoadedImages(NamedTuple):
    """Images of a split, with what was done to them.

    Attributes:
      data: uint8 images (N, height, width, channels) and int32 labels (N,); 0 without classes.
      num_found: images that the source has; N of them were read.
      num_classes: number of classes; None without classes or if the source does not say.
      class_names: names of the classes in the order of the labels; () if they have none.
      notes: sentences about what was done to the images.
      empty_classes: classes below ``num_classes`` that none of the ``num_found`` images has.
      files: file of each image, below the folder of the split; () if images are no files.
    """

    data: ImageData
    num_found: int
    num_classes: int | None
    class_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    empty_classes: tuple[int, ...] = ()
    files: tuple[str, ...] = ()


def load_images(
    name: str,
    split: str,
    *,
    path: str | os.PathLike[str] | None = None,
    image_size: int | None = None,
    max_examples: int | None = None,
    on_disk: bool = False,
) -> LoadedImages:
    """Reads a split once into uint8 (N, height, width, channels) and int32 labels (N,).

    Pixels may be levels 0 to 255, or floats in 0 to 255, [0, 1] or [-1, 1]; a note says which range
    was found. Your own images come in one random order, the same at every call, because files are
    often sorted by class and ``max_examples`` takes the first.

    Args:
      name: a source. "digits" is packaged. "npz", "folder" and "huggingface" read ``path``: an
        .npz file or a folder of .npy files, a folder of PNG and JPEG files, what ``save_to_disk``
        wrote. "FILE.py:FUNCTION" or "MODULE:FUNCTION" is called with the split and returns images
        and labels. Any other name is that of a data set of tensorflow-datasets.
      split: "train", "test", or another name that the source has.
      path: file or folder of the images; of tensorflow-datasets the folder of prepared ones, or
        None for its default.
      image_size: side in pixels; None keeps the images as they are. Other images are cut to their
        central square, then resized bilinearly.
      max_examples: number of images to read; None for all.
      on_disk: whether the images stay on the disk. Rows are then read whenever they are taken, and
        ``training.fit`` needs ``placement="host"``. For tensorflow-datasets, "folder",
        "huggingface", and "npz" with a folder of .npy files; pixels must be saved as uint8.

    Raises:
      FileNotFoundError: if ``path`` does not exist.
      DataUnavailableError: if a data set of tensorflow-datasets is missing.
      MissingSplitError: if the source has no such split.
      ImportError: if a package that the source needs is not installed.
      TypeError: if pixels or labels are no numbers.
      ValueError: if anything else is wrong; the message names the file or array.

    Example:
      >>> load_images("digits", "test", max_examples=100).data.images.shape
      (100, 8, 8, 1)
    """
    if name.endswith((".npz", ".npy")) or ("/" in name and os.path.exists(name)):
        raise ValueError(
            f"name must say what kind of source it is, and is a path, {name!r}. Give that as path, "
            "with the name npz (an .npz file, a folder of .npy files) or folder (of PNG and JPEG "
            "files)."
        )
    if image_size is not None:
        check_at_least("image_size", image_size, 1)
    if max_examples is not None:
        check_at_least("max_examples", max_examples, 1)
    if name == "digits":
        source = of_array(*load_digits(split))  # pyright: ignore[reportArgumentType]
        places = np.arange(source.num_images)[:max_examples]
        return _read(source, places, image_size, on_disk)
    if is_tfds(name):
        options: dict[str, Any] = {"image_size": image_size, "max_examples": max_examples}
        return LoadedImages(*read_tfds(name, split, data_dir=path, on_disk=on_disk, **options))
    sources = {
        "npz": lambda: array_source(path, split),
        "folder": lambda: folder_source(path, split, image_size),
        "huggingface": lambda: huggingface_source(path, split, image_size),
    }
    source = sources.get(name, lambda: function_source(name, split, path))()
    order = epoch_indices(0, 0, source.num_images)
    return _read(source, order[:max_examples], image_size, on_disk)


def _read(
    source: Source, places: np.ndarray, image_size: int | None, on_disk: bool
) -> LoadedImages:
    labels, num_classes, empty_classes = _classes(source)
    if on_disk:
        images, notes = _stored(source, places, image_size)
    else:
        check_memory(len(places), source.shape)
        images, notes = _levels(source, places, image_size)
    return LoadedImages(
        ImageData(images, labels[places]),
        source.num_images,
        num_classes,
        source.class_names,
        notes,
        empty_classes,
        tuple(source.files[place] for place in places) if source.files else (),
    )


def _stored(
    source: Source, places: np.ndarray, image_size: int | None
) -> tuple[Any, tuple[str, ...]]:
    """Returns images that stay on the disk, and notes from the first of them."""
    if not source.is_on_disk:
        raise ValueError(
            "images that stay on the disk come from tensorflow-datasets, or from a folder of image "
            "files, of .npy files or of Hugging Face's save_to_disk. These are in memory, or their "
            "file can only be read whole: leave them in memory, or save them in such a folder."
        )
    first = places[:AT_ONCE]
    dtype = source.read(first[:1])[0].dtype
    if dtype != np.uint8:
        raise ValueError(
            f"images that stay on the disk must be levels 0 to 255, uint8, got dtype {dtype}: "
            "their range shows only when all are read. Save them as uint8, or read them into "
            "memory."
        )
    levels, notes = _levels(source, first, image_size)

    def read(places: np.ndarray) -> np.ndarray:
        try:
            return _levels(source, places, image_size)[0]
        except (OSError, ValueError) as error:
            raise DataUnavailableError(f"images on the disk cannot be read: {error}") from error

    return StoredRows(read, places, levels.shape[1:], np.uint8), notes


def _levels(
    source: Source, places: np.ndarray, image_size: int | None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Returns uint8 images (n, size, size, channels), and notes about what was done to them."""
    raw, sizes = source.read(places)
    found = pixel_range(raw, "images")
    levels, notes = to_levels(raw, found), list(source.notes)
    if raw.dtype != np.uint8:
        notes.append(f"pixels are {found.name}" + " and became levels" * (found != LEVELS))
    if image_size is not None and levels.shape[1:3] != (image_size, image_size):
        levels = np.stack([fitted(image, image_size) for image in levels])
    notes += about_fitting(sizes, image_size)
    if levels.shape[-1] not in (1, 3):
        raise ValueError(
            f"images must have 1 channel (grey) or 3 (colour), got {levels.shape[-1]}. Leave out "
            "transparency: images[..., :3]."
        )
    if levels.shape[1] != levels.shape[2]:
        raise ValueError(
            f"images must be squares, got {levels.shape[1]}x{levels.shape[2]} pixels. Set "
            "image_size, and their central squares are resized to it."
        )
    return levels, tuple(notes)


def _classes(source: Source) -> tuple[np.ndarray, int | None, tuple[int, ...]]:
    """Returns int32 labels, the number of classes, and classes without images (the first ones)."""
    if source.labels is None:
        return np.zeros(source.num_images, np.int32), None, ()
    labels = np.asarray(source.labels)
    if not np.issubdtype(labels.dtype, np.integer):
        raise TypeError(f"labels must be integers, got dtype {labels.dtype}.")
    if labels.min() < 0:
        raise ValueError(f"labels must be at least 0, got {labels.min()}.")
    num_classes = len(source.class_names) or int(labels.max()) + 1
    there = set(np.unique(labels).tolist())
    # A label may be huge; one class more than there are images is surely empty.
    empty = [label for label in range(min(num_classes, len(labels) + 1)) if label not in there]
    return labels.astype(np.int32), num_classes, tuple(empty)
