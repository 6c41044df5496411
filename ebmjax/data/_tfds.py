"""Reads tensorflow-datasets' images into memory as uint8, without TensorFlow."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax._checks import check_at_least
from ebmjax._stored import StoredRows
from ebmjax.data._fit import about_fitting, fitted
from ebmjax.data._images import ImageData
from ebmjax.data._prepare import (
    DataUnavailableError,
    check_is_folder_or_missing,
    is_prepared,
    open_builder,
    prepare_tfds,
    remedy,
    undecoded,
)
from ebmjax.data._source import MissingSplitError
from ebmjax.data._tfds_copies import copies, other_root

READ_AT_ONCE = 512


def load_tfds(
    name: str,
    split: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    image_size: int | None = None,
    max_examples: int | None = None,
    prepare: bool = True,
) -> ImageData:
    """Decodes a split once into uint8 (N, height, width, channels) and int32 labels (N,).

    TensorFlow is never imported. The order is the one on disk. celeb_a has no classes: its labels
    are 0.

    Args:
      name: cifar10, cifar100, svhn_cropped, mnist, fashion_mnist, celeb_a, or another data set of
        tensorflow-datasets that has an "image".
      split: "train", "test", or a slice such as "train[:1000]".
      data_dir: an existing folder that holds one folder a data set; None for tensorflow-datasets'
        default, ``$TFDS_DATA_DIR`` or ``~/tensorflow_datasets``.
      image_size: side in pixels; None keeps the size on disk. Other images are cut to their central
        square, then resized bilinearly (celeb_a loses 20 rows at top and bottom). The
        thermodynamic-integration thesis resizes celeb_a without cutting, so its faces are squeezed.
      max_examples: number of examples to decode; None for all.
      prepare: whether to download and prepare a missing data set, as ``prepare_tfds`` does.

    Raises:
      ImportError: if tensorflow-datasets is not installed.
      FileNotFoundError: if ``data_dir`` does not exist.
      NotADirectoryError: if ``data_dir`` is a file.
      DataUnavailableError: if the data set is missing and not prepared, exists only in another
        format, or is damaged.
      ValueError: if there is no such data set or split, or an argument lies outside its range.
    """
    return read_tfds(
        name,
        split,
        data_dir=data_dir,
        image_size=image_size,
        max_examples=max_examples,
        prepare=prepare,
    )[0]


def read_tfds(
    name: str,
    split: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    image_size: int | None = None,
    max_examples: int | None = None,
    prepare: bool = True,
    on_disk: bool = False,
) -> tuple[ImageData, int, int | None, tuple[str, ...], tuple[str, ...]]:
    """Returns the first fields of ``LoadedImages``; the arguments are those of ``load_tfds``."""
    if image_size is not None:
        check_at_least("image_size", image_size, 1)
    if max_examples is not None:
        check_at_least("max_examples", max_examples, 1)
    builder = _prepared_builder(name, data_dir, prepare)
    try:
        source = builder.as_data_source(split=split)
    except ValueError as error:  # for an empty slice it says "Paths sequence can not be ..."
        splits = builder.info.splits
        there = ", ".join(f"{part} ({about.num_examples})" for part, about in splits.items())
        raise MissingSplitError(
            f"split must name examples of {name}, got {split=}; {builder.data_path} has {there}. "
            f"Take one of these, or a part such as '{next(iter(splits))}[:90%]'."
        ) from error
    count = min(len(source), max_examples or len(source))
    if on_disk:
        decoded, sizes = _stored(builder, split, source, count, image_size)
    else:
        with _told_as_damage(builder):
            decoded, sizes = _decode(_examples(source, range(count)), count, image_size)
    features = dict(builder.info.features)
    num_classes = getattr(features.get("label"), "num_classes", None)
    return decoded, len(source), num_classes, (), about_fitting(sizes, image_size)


def _prepared_builder(name: str, data_dir: Any, prepare: bool) -> Any:
    check_is_folder_or_missing(data_dir)
    if data_dir is not None and not Path(data_dir).expanduser().exists():
        raise FileNotFoundError(
            f"data_dir does not exist: {data_dir}. Correct the path, make the folder to have "
            f"{name} prepared there, or leave data_dir out to use ~/tensorflow_datasets."
        )
    builder = open_builder(name, data_dir)
    if is_prepared(builder):
        return builder
    _check_is_nowhere_near(builder)
    if not prepare:
        raise DataUnavailableError(
            f"{name} is not prepared: there is no {builder.data_path}. {remedy(builder)}"
        )
    prepare_tfds(name, data_dir)
    return open_builder(name, data_dir)


def _check_is_nowhere_near(builder: Any) -> None:
    """Raises DataUnavailableError if a copy lies in a neighbouring folder or has another version.

    Otherwise a mistake in ``data_dir`` would start a download.
    """
    root, name = Path(builder.data_dir_root), builder.name
    other = other_root(root, name)
    if other is not None:
        raise DataUnavailableError(
            f"{name} is not in data_dir={str(root)!r}, for there is no {builder.data_path}; it is "
            f"in {other}. Give data_dir={str(other)!r}, the folder above {name}."
        )
    versions = [folder.name for folder in copies(root, name)]
    wanted = Path(builder.data_path).name
    if versions and not builder.builder_config:
        raise DataUnavailableError(
            f"{root / name} holds {name} in version {', '.join(versions)}, not in version "
            f"{wanted}. To read what is there, give name='{name}:{versions[-1]}'. To prepare "
            f"{wanted} beside it, run ebmjax.data.prepare_tfds('{name}', {str(root)!r})."
        )


@contextlib.contextmanager
def _told_as_damage(builder: Any) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # what the array_record reader raises
        raise DataUnavailableError(
            f"{builder.data_path} cannot be read: {error}. The copy is damaged or incomplete: "
            "copy it again, or delete the folder and run again to prepare it."
        ) from error


def _stored(
    builder: Any, split: str, source: Any, count: int, image_size: int | None
) -> tuple[ImageData, set[tuple[int, ...]]]:
    """Returns the split with images that stay on the disk, and the sizes of the first ones.

    The labels are read from end to end: they lie in the records of the images.
    """
    records = undecoded(builder, split)
    num_first = min(count, READ_AT_ONCE)
    with _told_as_damage(builder):
        labels = [one.get("label", 0) for one in _examples(records, range(count))]
        first, sizes = _decode(_examples(source, range(num_first)), num_first, image_size)

    def read(places: np.ndarray) -> np.ndarray:
        with _told_as_damage(builder):
            examples = _examples(source, places.tolist())
            return _decode(examples, len(places), image_size)[0].images

    images: Any = StoredRows(read, np.arange(count), first.images.shape[1:], np.uint8)
    return ImageData(images, np.asarray(labels, np.int32)), sizes


def _examples(source: Any, places: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Returns the examples at ``places``, decoded in blocks: one by one is 10x slower."""
    read: Callable[[Sequence[int]], Sequence[dict[str, Any]]] = source.__getitems__
    if not hasattr(type(source.data_source), "__getitems__"):  # tfds.testing.mock_data, parquet
        read = lambda block: [source[index] for index in block]  # noqa: E731
    for first in range(0, len(places), READ_AT_ONCE):
        yield from read(places[first : first + READ_AT_ONCE])


def _decode(
    examples: Iterator[dict[str, Any]], count: int, image_size: int | None
) -> tuple[ImageData, set[tuple[int, ...]]]:
    """Returns the split, and the sizes that its images have on disk."""
    first = next(examples)
    if first["image"].dtype != np.uint8:
        raise ValueError(
            f"images must be of 8 bits a channel, uint8; those of this data set are "
            f"{first['image'].dtype}. Convert them, or load the data set with tfds itself."
        )
    shape = fitted(first["image"], image_size).shape
    images, labels = np.empty((count, *shape), np.uint8), np.zeros(count, np.int32)
    sizes: set[tuple[int, ...]] = set()
    for index, example in enumerate(chain([first], examples)):
        sizes.add(example["image"].shape[:2])
        image = fitted(example["image"], image_size)
        if image.shape != shape:
            raise ValueError(
                f"image_size must be given where images differ in size: image {index} has shape "
                f"{image.shape}, the first {shape}."
            )
        images[index], labels[index] = image, example.get("label", 0)
    return ImageData(images, labels), sizes
