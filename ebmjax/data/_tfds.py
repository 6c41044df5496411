"""Reads tensorflow-datasets' images into memory as uint8, without TensorFlow."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax._phases import phase
from ebmjax._shown import near_path
from ebmjax.data._images import ImageData
from ebmjax.data._limits import check_sizes
from ebmjax.data._pictures import survey
from ebmjax.data._prepare import (
    DataUnavailableError,
    check_is_folder_or_missing,
    is_prepared,
    open_builder,
    prepare_tfds,
    remedy,
)
from ebmjax.data._read import read_source
from ebmjax.data._source import Source
from ebmjax.data._splits import MissingSplitError
from ebmjax.data._tfds_copies import copies, damage_message, other_root

READ_AT_ONCE = 512


def load_tfds(
    name: str,
    split: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    image_size: int | None = None,
    fit: str = "keep",
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
      image_size: side in pixels that images are resized to, bilinearly; None: as they are.
      fit: what is done to images that are no squares, see ``load_images``. "keep" takes the central
        square where images are resized (celeb_a loses 20 rows at top and bottom). "stretch" is what
        the thermodynamic-integration thesis does, so its faces are squeezed.
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
    check_sizes(image_size, max_examples)
    source, count = tfds_source(
        name, split, data_dir=data_dir, max_examples=max_examples, prepare=prepare
    )
    return read_source(source, np.arange(count), image_size=image_size, fit=fit).data


def tfds_source(
    name: str,
    split: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    max_examples: int | None = None,
    prepare: bool = True,
) -> tuple[Source, int]:
    """Returns a split, and the number of its first examples to read; see ``load_tfds``.

    Labels and the headers of images are read at once: they lie in the same records.
    """
    builder = _prepare_builder(name, data_dir, prepare)
    features = dict(builder.info.features)
    feature = features.get("image")
    if feature is None or feature.np_dtype != np.uint8:
        raise ValueError(
            f"{name} must have an image of 8 bits a channel, uint8; it has "
            f"{'none' if feature is None else feature.np_dtype}. Convert it, or load the data set "
            "with tfds itself."
        )
    feature.decode_example_np = lambda encoded: encoded  # which only ``open_picture`` decodes
    try:
        records = builder.as_data_source(split=split)
    except ValueError as error:  # for an empty slice it says "Paths sequence can not be ..."
        splits = builder.info.splits
        there = ", ".join(f"{part} ({about.num_examples})" for part, about in splits.items())
        raise MissingSplitError(
            f"split must name examples of {name}, got {split=}; {builder.data_path} has {there}. "
            f"Take one of these, or a part such as '{next(iter(splits))}[:90%]'.",
            splits,
        ) from error
    count = min(len(records), max_examples or len(records))
    labels = np.zeros(count, np.int32)

    def name_of(index: int) -> str:
        return f"example {index} of {name}, split {split}"

    def first_pass() -> Iterator[Any]:
        for index, example in enumerate(_examples(records, range(count))):
            labels[index] = _label(example, name_of(index))
            yield example["image"]

    def pictures(places: np.ndarray) -> Iterator[Any]:
        with _explain_damage(builder):
            for example in _examples(records, places.tolist()):
                yield example["image"]

    about = f"reading {count:,} headers and labels of {name}, split {split}"
    with phase(about), _explain_damage(builder):
        told = survey(first_pass(), map(name_of, range(count)))
    files = sorted(Path(builder.data_path).glob("*array_record*"))
    source = Source(
        num_images=len(records),
        name_of=name_of,
        labels=labels,
        pictures=pictures,
        survey=told,
        num_classes=getattr(features.get("label"), "num_classes", None),
        files_of=lambda places: files,
    )
    return source, count


def check_prepared(name: str, data_dir: str | os.PathLike[str] | None = None) -> None:
    """Raises unless a data set is there to be read; downloads and writes nothing."""
    _prepare_builder(name, data_dir, prepare=False)


def _label(example: dict[str, Any], name: str) -> Any:
    label = example.get("label", 0)
    if np.ndim(label) or not np.issubdtype(np.asarray(label).dtype, np.integer):
        raise ValueError(f"{name} must have one class number as its label, got {label!r}.")
    return label


def _prepare_builder(name: str, data_dir: Any, prepare: bool) -> Any:
    check_is_folder_or_missing(data_dir)
    if data_dir is not None and not Path(data_dir).expanduser().exists():
        raise FileNotFoundError(
            f"data_dir does not exist: {data_dir}.{near_path(Path(data_dir))} Correct the "
            f"path, make the folder to have {name} prepared there, or leave data_dir out to use "
            "~/tensorflow_datasets."
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
def _explain_damage(builder: Any) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # what the array_record reader raises
        raise DataUnavailableError(damage_message(builder.data_path, str(error))) from error


def _examples(source: Any, places: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Returns the examples at ``places``, read in blocks: one by one is 10x slower."""
    read: Callable[[Sequence[int]], Sequence[dict[str, Any]]] = source.__getitems__
    if not hasattr(type(source.data_source), "__getitems__"):  # tfds.testing.mock_data, parquet
        read = lambda block: [source[index] for index in block]  # noqa: E731
    for first in range(0, len(places), READ_AT_ONCE):
        yield from read(places[first : first + READ_AT_ONCE])
