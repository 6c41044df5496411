"""Opens arrays of .npy and .npz files by their headers; reads nothing that a header forbids."""

import contextlib
import io
import math
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ebmjax._shown import trim

HEADER = 2**14
"""Bytes read to find a header; NumPy refuses headers above 10,000."""
ZIP = (b"PK\x03\x04", b"PK\x05\x06")


class StoredArray(NamedTuple):
    """An array in a file, of which only the header has been read.

    Attributes:
      shape, dtype: of the array; never of Python objects or records.
      load: returns the array. That of an .npy file stays on the disk until it is used.
      file: .npy file that holds it; None for a member of an .npz file, which is read whole.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    load: Callable[[], np.ndarray]
    file: Path | None


def is_zip(file: Path) -> bool:
    """Returns whether a file begins as an .npz file does."""
    with _explain_damage(str(file)), _open_member(file, None) as (opened, _):
        return opened.read(4) in ZIP


def members(file: Path) -> tuple[list[str], list[str]]:
    """Returns the names of the arrays in an .npz file, and those of members that are none."""
    with _explain_damage(str(file)), zipfile.ZipFile(file) as opened:
        names = opened.namelist()
        if twice := [name for name, number in Counter(names).items() if number > 1]:
            raise ValueError(f"it has {twice[0]!r} twice")
    arrays = [name.removesuffix(".npy") for name in names if name.endswith(".npy")]
    return arrays, [name for name in names if not name.endswith(".npy")]


def find_array(file: Path, member: str | None = None) -> StoredArray:
    """Returns an array of an .npy file, or a member of an .npz file, by its header.

    Raises ValueError if it is damaged, encrypted, shorter than its header says, or no plain array.
    """
    what = str(file) if member is None else f"{trim(member)} in {file}"
    with _explain_damage(what):
        with _open_member(file, member) as (opened, size):
            header = io.BytesIO(opened.read(HEADER))
        version = np.lib.format.read_magic(header)
        read = {(1, 0): np.lib.format.read_array_header_1_0}
        shape, _, dtype = read.get(version, np.lib.format.read_array_header_2_0)(header)
        if dtype.kind in "OV":
            raise ValueError("it holds Python objects or records, which are never unpickled")
        if min(shape, default=0) < 0:
            raise ValueError(f"its header has the shape {shape}")
        needed = header.tell() + math.prod(shape) * dtype.itemsize
        if size < needed:
            raise ValueError(f"its header promises {needed:,} bytes, and it has {size:,}")

    def load() -> np.ndarray:
        with _explain_damage(what):
            if member is None:
                return np.load(file, mmap_mode="r", allow_pickle=False)
            with _open_member(file, member) as (opened, _):
                return np.lib.format.read_array(opened, allow_pickle=False)

    return StoredArray(shape, dtype, load, file if member is None else None)


@contextlib.contextmanager
def _open_member(file: Path, member: str | None) -> Iterator[tuple[Any, int]]:
    """Yields an open file, and the most bytes that it can have."""
    if member is None:
        if not file.is_file():  # opening a pipe would wait for ever
            raise ValueError("it is no regular file")
        with file.open("rb") as opened:
            yield opened, file.stat().st_size
        return
    with zipfile.ZipFile(file) as archive:
        info = archive.getinfo(f"{member}.npy")
        with archive.open(info) as opened:
            yield opened, min(info.file_size, 1032 * file.stat().st_size)  # deflate's most


@contextlib.contextmanager
def _explain_damage(what: str) -> Iterator[None]:
    """Turns what a damaged file raises into an error that names the array."""
    try:
        yield
    except Exception as error:  # of many types, one for each way to be damaged
        reason = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        message = f"{what} cannot be read: {reason}. Replace it by a file of plain arrays."
        raise ValueError(message) from error
