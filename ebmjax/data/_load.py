"""Reads a split of images from any source by name."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax._checks import check_at_least
from ebmjax._phases import phase
from ebmjax._user_function import is_function_name
from ebmjax.data._arrays import array_source
from ebmjax.data._digits import load_digits
from ebmjax.data._fit import MAX_SIDE
from ebmjax.data._folder import folder_source
from ebmjax.data._function import function_source, of_array
from ebmjax.data._huggingface import huggingface_source
from ebmjax.data._indices import epoch_indices
from ebmjax.data._read import LoadedImages, read_source
from ebmjax.data._source import Source, existing
from ebmjax.data._tfds import missing, open_builder, tfds_source

NEED_PATH = ("npz", "npy", "folder", "huggingface")
"""Sources that read ``path``."""


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
    pixels: str | None = None,
    test_split: str | None = None,
    image_column: str | None = None,
    label_column: str | None = None,
) -> LoadedImages:
    """Reads a split once into uint8 (N, side, side, channels) and int32 labels (N,).

    Your own images come in one random order, the same at every call, because files are often sorted
    by class and ``max_examples`` takes the first.

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
      pixels: range of the pixels of an array that does not hold bytes: "0..255", "0..1" or "-1..1".
        None: the one that the images of this split have, so give that of the training images to all
        others.
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
        places = epoch_indices(0, 0, source.num_images)[:max_examples]
    with phase(f"reading {len(places):,} images, split {split}"):
        return read_source(source, places, image_size, fit, pixels, on_disk)


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
