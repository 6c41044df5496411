"""Prepares and reads tensorflow-datasets' images as uint8, without TensorFlow.

``tfds.data_source`` reads prepared array_record files and prepares nothing; grain reads the same
files; Hugging Face's ``datasets`` reads its own format alone. So preparing is done here, by private
names of tensorflow-datasets 4.9.10: four modules open plain files through ``tf.io.gfile.GFile``,
and arrays are encoded to PNG inside a TensorFlow graph.
"""

import contextlib
import importlib
import io
import os
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ebmjax._extras import needs_experiments
from ebmjax._phases import phase
from ebmjax._shown import near_path
from ebmjax.data._pictures import survey
from ebmjax.data._source import DataUnavailableError, Source
from ebmjax.data._splits import MissingSplitError

READ_AT_ONCE = 512
USERS_OF_TENSORFLOW = (
    "core.download.extractor",
    "datasets.svhn_cropped.svhn_cropped_dataset_builder",
    "image_classification.cifar",
    "image_classification.mnist",
)


def prepare_tfds(name: str, data_dir: str | os.PathLike[str] | None = None) -> None:
    """Downloads and prepares a data set as array_record, without TensorFlow; shows progress.

    It does nothing if the set is already prepared. Complete downloads stay for the next attempt.

    Args:
      name: cifar10, cifar100, svhn_cropped (fetches the 1.3 GB of its "extra" split too), mnist,
        fashion_mnist or celeb_a (from Google Drive, which often refuses).
      data_dir: the folder that holds one folder a data set, made if missing; None for
        tensorflow-datasets' default, ``$TFDS_DATA_DIR`` or ``~/tensorflow_datasets``.

    Raises:
      ImportError: if tensorflow-datasets is not installed.
      DataUnavailableError: if it cannot be prepared here (no network, quota, disk), or the existing
        copy cannot be read.
      NotADirectoryError: if ``data_dir`` is a file.
      ValueError: if there is no such data set.
    """
    builder = open_builder(name, data_dir)
    if is_prepared(builder):
        return
    if others := [str(one.parent) for one in _infos(Path(builder.data_dir_root), builder.name)]:
        raise DataUnavailableError(
            f"{name} is not at {builder.data_path}; there is {', '.join(others)}. Name that "
            "version, as in cifar10:3.0.2."
        )
    try:
        with _without_tensorflow():
            builder.download_and_prepare(file_format="array_record")
    except Exception as error:
        reason = f"{type(error).__name__}: {textwrap.shorten(str(error), 300).rstrip('.')}"
        raise DataUnavailableError(
            f"{name} is not prepared (looked for {builder.data_path}), and preparing it failed: "
            f"{reason}. {_remedy(builder)}"
        ) from error


def check_prepared(name: str, data_dir: str | os.PathLike[str] | None = None) -> None:
    """Raises unless a data set is there to be read; downloads and writes nothing."""
    _check_exists(data_dir, name)
    builder = open_builder(name, data_dir)
    if not is_prepared(builder):
        raise DataUnavailableError(
            f"{name} is not prepared: there is no {builder.data_path}. {_remedy(builder)}"
        )


def tfds_source(
    name: str, split: str, *, data_dir: str | os.PathLike[str] | None, max_examples: int | None
) -> tuple[Source, int]:
    """Returns a split, and the number of its first examples to read; see ``load_images``.

    A missing data set is prepared. Labels and the headers of images are read at once: they lie in
    the same records. celeb_a has no classes: its labels are 0.
    """
    _check_exists(data_dir, name)
    prepare_tfds(name, data_dir)
    builder = open_builder(name, data_dir)
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

    def examples(places: Sequence[int]) -> Iterator[dict[str, Any]]:
        """Yields examples, read in blocks where the source can: one by one is 10x slower."""
        has_blocks = hasattr(type(records.data_source), "__getitems__")
        try:
            for first in range(0, len(places), READ_AT_ONCE):
                some = places[first : first + READ_AT_ONCE]
                yield from (
                    records.__getitems__(some) if has_blocks else map(records.__getitem__, some)
                )
        except RuntimeError as error:  # what the array_record reader raises
            raise _damaged(builder.data_path, error) from error

    def first_pass() -> Iterator[Any]:
        for index, example in enumerate(examples(range(count))):
            label = example.get("label", 0)
            if np.ndim(label) or not np.issubdtype(np.asarray(label).dtype, np.integer):
                raise ValueError(f"{name_of(index)} must have one class number, got {label!r}.")
            labels[index] = label
            yield example["image"]

    with phase(f"reading {count:,} headers and labels of {name}, split {split}"):
        told = survey(first_pass(), map(name_of, range(count)))
    files = sorted(Path(builder.data_path).glob("*array_record*"))
    source = Source(
        num_images=len(records),
        name_of=name_of,
        labels=labels,
        pictures=lambda places: (example["image"] for example in examples(places.tolist())),
        survey=told,
        num_classes=getattr(features.get("label"), "num_classes", None),
        files_of=lambda places: files,
    )
    return source, count


def open_builder(name: str, data_dir: str | os.PathLike[str] | None) -> Any:
    """Returns the tensorflow-datasets builder of ``name``, with a version as in cifar10:3.0.2.

    Raises:
      ImportError: if tensorflow-datasets is not installed.
      ValueError: if tensorflow-datasets has no data set called ``name``.
      NotADirectoryError: if ``data_dir`` is a file.
      DataUnavailableError: if a copy's description cannot be read.
    """
    with needs_experiments("a data set of tensorflow-datasets", "tensorflow-datasets"):
        import tensorflow_datasets as tfds
        from tensorflow_datasets.core import constants

    root = Path(data_dir or constants.DATA_DIR).expanduser()
    if root.is_file():
        raise NotADirectoryError(f"data_dir must be a folder of data sets, got the file {root}.")
    there = ", ".join(sorted(str(one.parent.relative_to(root)) for one in _infos(root)))
    about = f"{root} holds {there or 'no prepared data set'}."
    if not re.fullmatch(r"[A-Za-z]\w*(:\w+)?(/[\w.=,-]+)*(:[\d.*]+)?", name) or Path(name).exists():
        raise ValueError(
            f"name must be that of a data set of tensorflow-datasets, as cifar10, cifar10:3.0.2 or "
            f"cifar10_corrupted/brightness_1, not a path; got {name=}. {about}"
        )
    plain, _, version = name.partition(":")
    copies = [one.parent for one in _infos(root, plain) if version in ("", one.parent.name)]
    try:
        with _own_features_alone():
            if version and copies:
                return tfds.builder_from_directory(copies[0])
            return tfds.builder(name, data_dir=data_dir and root)
    except tfds.core.DatasetNotFoundError:
        raise ValueError(f"tensorflow-datasets has no data set, got {name=}. {about}") from None
    except Exception as error:  # of many types, one for each way to fail
        if copies:
            raise _damaged(copies[-1], error) from error
        raise DataUnavailableError(
            f"{name} cannot be opened: {textwrap.shorten(str(error), 200)} {about} Name one of "
            "these, with its version as in cifar10:3.0.2, or leave the version out."
        ) from error


def _check_exists(data_dir: str | os.PathLike[str] | None, name: str) -> None:
    if data_dir is not None and not Path(data_dir).expanduser().exists():
        raise FileNotFoundError(
            f"data_dir does not exist: {data_dir}.{near_path(Path(data_dir))} Correct the path, or "
            f"make the folder to have {name} prepared there."
        )


def is_prepared(builder: Any) -> bool:
    """Returns whether the builder's folder holds a copy; raises DataUnavailableError if damaged."""
    folder = Path(builder.data_path)
    if not folder.exists():
        return False
    formats = {form.value for form in builder.info.available_file_formats()}
    if "array_record" not in formats or not builder.info.splits:
        held = ", ".join(sorted(formats)) or "nothing"
        raise _damaged(folder, f"it must hold splits as array_record, has {held}")
    return True


def _infos(root: Path, name: str = "*") -> list[Path]:
    """Returns the descriptions of the copies below a folder."""
    found = [*root.glob(f"{name}/*/dataset_info.json"), *root.glob(f"{name}/*/*/dataset_info.json")]
    return [one for one in found if one.relative_to(root).parts[0] != "downloads"]


def _damaged(folder: str | Path, reason: Any) -> DataUnavailableError:
    return DataUnavailableError(
        f"{folder} cannot be read: {textwrap.shorten(str(reason), 200).rstrip('.:')}. The copy is "
        "damaged or incomplete: copy it again, or delete the folder and run again to prepare it."
    )


def _remedy(builder: Any) -> str:
    name, root = builder.name, Path(builder.data_dir_root)
    files = ", ".join(sorted(str(info.filename) for info in builder.url_infos.values()))
    return (
        'What to do: on a machine with network run `python -c "from ebmjax.data import '
        f"prepare_tfds; prepare_tfds('{name}', 'tfds')\"` and copy tfds/{name} into {root}. Or put "
        f"the originals ({files}) into {root / 'downloads' / 'manual'} and run again."
    )


@contextlib.contextmanager
def _own_features_alone() -> Iterator[None]:
    """Refuses classes that are not of tensorflow-datasets, whose module it would import.

    A copy's features.json may name any.
    """
    from tensorflow_datasets.core import features

    kind: Any = features.FeatureConnector
    before = kind.__dict__["cls_from_name"]

    def cls_from_name(cls: Any, python_class_name: str) -> Any:
        if not python_class_name.startswith("tensorflow_datasets."):
            raise ValueError(
                f"features.json names {python_class_name!r}, which is not of tensorflow-datasets "
                "and was not imported"
            )
        return before.__func__(cls, python_class_name)

    kind.cls_from_name = classmethod(cls_from_name)
    try:
        yield
    finally:
        kind.cls_from_name = before


class _PlainFile(io.FileIO):
    """Binary file that still reads after its ``with`` block, as celeb_a's builder does."""

    def __exit__(self, *error: Any) -> None:
        if self.writable():
            self.close()

    def __del__(self) -> None:
        self.close()


def _encode_image(encoder: Any, image: Any) -> bytes:
    from PIL import Image

    pixels = image[..., 0] if image.shape[-1] == 1 else image
    return encoder._encode_pil_image(Image.fromarray(pixels))


@contextlib.contextmanager
def _without_tensorflow() -> Iterator[None]:
    """Puts plain files and Pillow in TensorFlow's place, and no retries of a dead network."""
    from tensorflow_datasets.core.download import downloader
    from tensorflow_datasets.core.features import image_feature

    gfile = SimpleNamespace(gfile=SimpleNamespace(GFile=_PlainFile))
    plain = SimpleNamespace(io=gfile, compat=SimpleNamespace(as_text=str))
    modules = [importlib.import_module(f"tensorflow_datasets.{one}") for one in USERS_OF_TENSORFLOW]
    with contextlib.ExitStack() as undo:
        for owner, name, substitute in [
            *((module, "tf", plain) for module in modules),
            (image_feature._ImageEncoder, "_encode_image", _encode_image),
            (downloader, "MAX_RETRIES", 0),
        ]:
            undo.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, substitute)
        yield
