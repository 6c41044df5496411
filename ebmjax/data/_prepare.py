"""Finds a tensorflow-datasets copy on disk or makes one; otherwise says what to do."""

import contextlib
import os
import re
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ebmjax._extras import needs_experiments
from ebmjax.data._tfds_copies import copies, damage, damage_message, describe_copies
from ebmjax.data._tfds_without_tensorflow import tfds_without_tensorflow


class DataUnavailableError(RuntimeError):
    """Raised if a data set is not on disk in a readable form; the message says what to do."""


def open_builder(name: str, data_dir: str | os.PathLike[str] | None) -> Any:
    """Returns the tensorflow-datasets builder of ``name`` for ``data_dir``.

    It also reads versions that the installed tensorflow-datasets no longer makes.

    Raises:
      ImportError: if tensorflow-datasets is not installed.
      ValueError: if tensorflow-datasets has no data set called ``name``.
      DataUnavailableError: if a copy's description cannot be read, or the version in ``name`` is
        neither there nor one that can be prepared.
    """
    with needs_experiments("load_tfds", "tensorflow-datasets"):
        import tensorflow_datasets as tfds
        from tensorflow_datasets.core import constants

    root = Path(data_dir or constants.DATA_DIR).expanduser()
    _check_name(name, root)
    plain, _, version = name.partition(":")
    there = [folder for folder in copies(root, plain) if version in ("", folder.name)]
    try:
        with _own_features_alone():
            if version and there:
                return tfds.builder_from_directory(there[0])
            return tfds.builder(name, data_dir=data_dir and root)
    except tfds.core.DatasetNotFoundError:
        raise ValueError(
            f"name must be a data set of tensorflow-datasets, such as cifar10, cifar100, "
            f"svhn_cropped, mnist, fashion_mnist or celeb_a, or one that lies in data_dir; got "
            f"{name=}. {describe_copies(root)}"
        ) from None
    except Exception as error:  # of many types, one for each way to fail
        reason = textwrap.shorten(str(error).partition('}": ')[2] or str(error), 200).rstrip(".:")
        if there:
            reason = damage(there[-1]) or reason
            raise DataUnavailableError(damage_message(there[-1], reason)) from error
        raise DataUnavailableError(
            f"{name} cannot be opened in {root}: {reason}. {describe_copies(root)} Give the name "
            "of one of these, with its version as in cifar10:3.0.2, or leave the version out."
        ) from error


@contextlib.contextmanager
def _own_features_alone() -> Iterator[None]:
    """Refuses classes that are not of tensorflow-datasets: a copy's features.json may name any.

    tensorflow-datasets imports the module that such a name begins with.
    """
    from tensorflow_datasets.core import features

    kind = features.FeatureConnector
    before = kind.__dict__["cls_from_name"]

    def cls_from_name(cls: Any, python_class_name: str) -> Any:
        if not python_class_name.startswith("tensorflow_datasets."):
            raise ValueError(
                f"features.json names {python_class_name!r}, which is not of tensorflow-datasets "
                "and was not imported"
            )
        return before.__func__(cls, python_class_name)

    kind.cls_from_name = classmethod(cls_from_name)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        kind.cls_from_name = before


def _check_name(name: str, root: Path) -> None:
    """Raises ValueError unless ``name`` looks like the name of a data set."""
    looks_right = re.fullmatch(r"[A-Za-z]\w*(:\w+)?(/[\w.=,-]+)*(:[\d.*]+)?", name)
    if looks_right and not ("/" in name and Path(name).exists()):
        return
    if "/" not in name and "\\" not in name:
        raise ValueError(
            f"name must be that of a data set of tensorflow-datasets, as cifar10, cifar10:3.0.2 or "
            f"cifar10_corrupted/brightness_1; got {name=}. {describe_copies(root)}"
        )
    path = Path(name).expanduser()
    raise ValueError(
        f"name must be that of a data set, not a path; got {name=}. For a prepared data set at "
        f"that place give name={path.name!r} and data_dir={str(path.parent)!r}; image files are "
        "read by a program of your own, into ebmjax.data.ImageData."
    )


def is_prepared(builder: Any) -> bool:
    """Returns whether the builder's folder holds a copy that can be read without TensorFlow.

    Raises:
      DataUnavailableError: if the folder exists but is not a complete array_record copy.
    """
    folder = Path(builder.data_path)
    if not folder.exists():
        return False
    if reason := damage(folder):
        raise DataUnavailableError(damage_message(folder, reason))
    formats = {form.value for form in builder.info.available_file_formats()}
    if "array_record" not in formats:
        raise DataUnavailableError(
            f"{folder} holds {builder.name} as {', '.join(sorted(formats))} only, which cannot be "
            "read without TensorFlow; this library reads array_record. Delete or rename that "
            "folder, or pass an empty folder as data_dir, and run again to prepare it anew."
        )
    return True


def prepare_tfds(name: str, data_dir: str | os.PathLike[str] | None = None) -> None:
    """Downloads and prepares a data set as array_record, without TensorFlow; shows progress.

    It does nothing if the set is already prepared. A failure leaves nothing half-written; complete
    downloads with the right checksum stay for the next attempt. Downloads are not retried: a dead
    network fails in seconds, a silent one within about a minute.

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
    check_is_folder_or_missing(data_dir)
    builder = open_builder(name, data_dir)
    if is_prepared(builder):
        return
    try:
        with _leaving_nothing_half_written(builder), tfds_without_tensorflow():
            builder.download_and_prepare(file_format="array_record")
    except Exception as error:
        raise DataUnavailableError(
            f"{name} is not prepared (looked for {builder.data_path}), and preparing it failed: "
            f"{_reason(error)}. Nothing half-written was left behind. {remedy(builder)}"
        ) from error


def check_is_folder_or_missing(data_dir: str | os.PathLike[str] | None) -> None:
    """Raises NotADirectoryError if ``data_dir`` is a file."""
    if data_dir is not None and Path(data_dir).expanduser().is_file():
        raise NotADirectoryError(
            f"data_dir must be a folder that holds one folder a data set, got the file {data_dir}."
        )


def remedy(builder: Any) -> str:
    """Returns instructions for getting the data set here."""
    name, root = builder.name, Path(builder.data_dir_root)
    files = ", ".join(sorted(str(info.filename) for info in builder.url_infos.values()))
    return (
        'What to do: on a machine with network run `python -c "from ebmjax.data import '
        f"prepare_tfds; prepare_tfds('{name}', 'tfds')\"` (should that fail too: `pip install "
        'tensorflow-cpu tensorflow-datasets` in a throw-away environment, then `python -c "import '
        f"tensorflow_datasets as tfds; tfds.builder('{name}', data_dir='tfds', "
        "file_format='array_record').download_and_prepare()\"`), copy the folder tfds/"
        f"{name} to {root / name}, or anywhere and pass its parent as data_dir. Or fetch the "
        f"originals by hand from {builder.info.homepage}, put them ({files}) into "
        f"{root / 'downloads' / 'manual'} and run again."
    )


def _reason(error: Exception) -> str:
    import requests

    if isinstance(error, requests.exceptions.ConnectionError | requests.exceptions.Timeout):
        return f"no connection to {getattr(error.request, 'url', 'the network')}"
    reason = f"{type(error).__name__}: {textwrap.shorten(str(error), 300).rstrip('.')}"
    if "drive.google.com" in reason:
        reason += " (Google Drive limits downloads a day and often refuses this file)"
    return reason


@contextlib.contextmanager
def _leaving_nothing_half_written(builder: Any) -> Iterator[None]:
    """Deletes unfinished files of the preparation on any failure, Ctrl-C included."""
    before = set(_paths(builder))
    try:
        yield
    except BaseException:
        for path in sorted(set(_paths(builder)) - before, reverse=True):
            if ".tmp." in path.name or path.name.startswith("incomplete."):
                shutil.rmtree(path, ignore_errors=True)
            with contextlib.suppress(OSError):  # a folder that holds something stays
                path.rmdir()
        raise


def _paths(builder: Any) -> list[Path]:
    """Returns every folder that a preparation may make, parents before children."""
    root = Path(builder.data_dir_root)
    downloads = root / "downloads"
    makes = [root, *root.parents, root / builder.name, downloads, downloads / "extracted"]
    makes += [downloads / builder.name, *(downloads / builder.name).rglob("*")]
    makes += [*(downloads / "extracted").glob("*"), *(root / builder.name).glob("*")]
    return [path for path in makes if path.is_dir()]
