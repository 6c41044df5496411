"""Prepares and reads tensorflow-datasets' images as uint8, without TensorFlow.

tensorflow-datasets 4.9.10 needs TensorFlow only to prepare a data set: four modules open plain
files through ``tf.io.gfile.GFile``, and arrays are encoded to PNG inside a TensorFlow graph.
"""

import contextlib
import importlib
import io
import os
import re
import textwrap
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from ebmjax._extras import needs_experiments
from ebmjax._phases import phase
from ebmjax._stored import AT_ONCE
from ebmjax.data._pictures import survey
from ebmjax.data._source import DataUnavailableError, MissingSplitError, Source

USERS_OF_TENSORFLOW = (
    "core.download.extractor",
    "datasets.svhn_cropped.svhn_cropped_dataset_builder",
    "image_classification.cifar",
    "image_classification.mnist",
)


def prepare_tfds(name: str, data_dir: str | os.PathLike[str] | None = None) -> None:
    """Downloads and prepares a data set as array_record, unless it is prepared; shows progress.

    Args:
      name: cifar10, cifar100, svhn_cropped, mnist, fashion_mnist or celeb_a.
      data_dir: the folder above that of the data set; None for ``~/tensorflow_datasets``.

    Raises DataUnavailableError if it cannot be prepared here (no network, quota, disk), and
    ValueError if there is no such data set.
    """
    builder = open_builder(name, data_dir)
    if Path(builder.data_path).exists():
        return
    try:
        with _without_tensorflow():
            builder.download_and_prepare(file_format="array_record")
    except Exception as error:
        raise missing(name, builder, f"; preparing it failed: {_reason(error)}") from error


def tfds_source(
    name: str, split: str, data_dir: str | os.PathLike[str] | None, max_examples: int | None
) -> tuple[Source, int]:
    """Returns a split, and the number of its first examples to read; prepares a missing data set.

    Labels and the headers of images are read at once. Labels are 0 without a class, as in celeb_a.
    """
    prepare_tfds(name, data_dir)
    builder = open_builder(name, data_dir)
    features, splits = dict(builder.info.features), builder.info.splits
    image, label = (features.get(column, SimpleNamespace()) for column in ("image", "label"))
    if (dtype := getattr(image, "np_dtype", None)) != np.uint8:
        raise ValueError(f"{name} must have an 'image' of 8 bits a channel, uint8; it has {dtype}.")
    image.decode_example_np = lambda encoded: encoded  # ``open_picture`` decodes
    num_classes = getattr(label, "num_classes", None) if getattr(label, "shape", 0) == () else None
    try:
        records = builder.as_data_source(split=split)
    except Exception as error:  # no such split, or another format
        if not splits or not isinstance(error, ValueError):
            raise _damaged(builder.data_path, error) from error
        there = ", ".join(f"{part} ({about.num_examples})" for part, about in splits.items())
        raise MissingSplitError(f"{name} has {there}, and no {split=}.", splits) from error
    count = min(len(records), max_examples or len(records))
    labels = np.zeros(count, np.int32)

    def name_of(index: int) -> str:
        return f"example {index} of {name}, split {split}"

    def examples(places: list[int]) -> Iterator[dict[str, Any]]:
        """Yields examples in blocks; one by one, as mock_data needs it, is 10x slower."""
        has_blocks = hasattr(type(records.data_source), "__getitems__")
        take = records.__getitems__ if has_blocks else partial(map, records.__getitem__)
        try:
            for first in range(0, len(places), AT_ONCE):
                yield from take(places[first : first + AT_ONCE])
        except RuntimeError as error:  # what the array_record reader raises
            raise _damaged(builder.data_path, error) from error

    def first_pass() -> Iterator[Any]:
        for index, example in enumerate(examples(list(range(count)))):
            labels[index] = example["label"] if num_classes else 0
            yield example["image"]

    with phase(f"reading {count:,} headers and labels of {name}, split {split}"):
        headers = survey(first_pass(), map(name_of, range(count)))
    files = sorted(Path(builder.data_path).glob("*array_record*"))
    source = Source(
        num_images=len(records),
        name_of=name_of,
        labels=labels,
        pictures=lambda places: (example["image"] for example in examples(places.tolist())),
        survey=headers,
        num_classes=num_classes,
        files_of=lambda places: files,
    )
    return source, count


def open_builder(name: str, data_dir: str | os.PathLike[str] | None) -> Any:
    """Returns the tensorflow-datasets builder of ``name``; raises as ``prepare_tfds``."""
    with needs_experiments("a data set of tensorflow-datasets", "tensorflow-datasets"):
        import tensorflow_datasets as tfds

    # A namespace, "someone:cifar10", would fetch code.
    if not re.fullmatch(r"[A-Za-z]\w*(/[\w.=,-]+)*(:[\d.*]+)?", name) or Path(name).exists():
        raise ValueError(
            f"name must be that of a data set of tensorflow-datasets, as cifar10:3.0.2, got "
            f"{name=}. Your own images have the name npz or folder, and a path."
        )
    try:
        with _own_features_alone():
            return tfds.builder(name, data_dir=data_dir and Path(data_dir).expanduser())
    except tfds.core.DatasetNotFoundError:
        raise ValueError(f"tensorflow-datasets has no data set, got {name=}.") from None
    except Exception as error:  # of many types, one for each way to be damaged
        raise _damaged(f"{name} in {data_dir or 'the default folder'}", error) from error


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {textwrap.shorten(str(error), 200).rstrip('.:')}"


def _damaged(place: object, error: Exception) -> DataUnavailableError:
    return DataUnavailableError(
        f"{place} cannot be read: {_reason(error)}. The copy is damaged or incomplete: copy it "
        "again, or delete the folder and run again to prepare it."
    )


def missing(name: str, builder: Any, why: str = "") -> DataUnavailableError:
    root = Path(builder.data_dir_root)
    files = ", ".join(sorted(str(info.filename) for info in builder.url_infos.values()))
    return DataUnavailableError(
        f"{name} is not prepared: there is no {builder.data_path}{why}. On a machine with network "
        f"call ebmjax.data.prepare_tfds('{builder.name}', 'tfds'), and copy tfds/{builder.name} "
        f"into {root}. Or put the originals ({files}) into {root}/downloads/manual and run again."
    )


def _own_features_alone() -> contextlib.AbstractContextManager[Any]:
    """Refuses other classes in a copy's features.json, whose modules would be imported."""
    from tensorflow_datasets.core.features import FeatureConnector

    before = FeatureConnector.cls_from_name

    def cls_from_name(name: str) -> Any:
        if not name.startswith("tensorflow_datasets."):
            raise ValueError(f"features.json names {name!r}, not of tensorflow-datasets")
        return before(name)

    return mock.patch.object(FeatureConnector, "cls_from_name", staticmethod(cls_from_name))


class _PlainFile(io.FileIO):
    """Binary file that still reads after its ``with`` block, as celeb_a's builder does."""

    def __exit__(self, *error: Any) -> None:
        if self.writable():
            self.close()

    def __del__(self) -> None:
        self.close()


@contextlib.contextmanager
def _without_tensorflow() -> Iterator[None]:
    """Puts plain files and Pillow in TensorFlow's place, and no retries of a dead network."""
    from PIL import Image
    from tensorflow_datasets.core.download import downloader
    from tensorflow_datasets.core.features import image_feature

    def encode(encoder: Any, image: np.ndarray) -> bytes:
        pixels = image[..., 0] if image.shape[-1] == 1 else image
        return encoder._encode_pil_image(Image.fromarray(pixels))

    gfile = SimpleNamespace(gfile=SimpleNamespace(GFile=_PlainFile))
    plain = SimpleNamespace(io=gfile, compat=SimpleNamespace(as_text=str))
    modules = [importlib.import_module(f"tensorflow_datasets.{one}") for one in USERS_OF_TENSORFLOW]
    with contextlib.ExitStack() as undo:
        for module in modules:
            undo.enter_context(mock.patch.object(module, "tf", plain))
        undo.enter_context(mock.patch.object(image_feature._ImageEncoder, "_encode_image", encode))
        undo.enter_context(mock.patch.object(downloader, "MAX_RETRIES", 0))
        yield
