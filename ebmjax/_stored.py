"""An array whose rows stay in files until they are asked for."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ebmjax._phases import count

AT_ONCE = 512
"""Rows that are read at once where all are needed one after the other."""


class StoredRows:
    """Array of which only the rows that are asked for are read.

    ``rows[places]``, for a slice or integers (n,), returns a NumPy array (n, ...).

    Attributes:
      shape: as that of the whole array.
      dtype: of its numbers.
    """

    def __init__(
        self,
        read: Callable[[np.ndarray], np.ndarray],
        places: np.ndarray,
        row_shape: tuple[int, ...],
        dtype: Any,
        describe: Callable[[np.ndarray], Iterator[str]] | None = None,
    ):
        """Reads nothing yet.

        Args:
          read: places in the files (n,) to an array (n, *row_shape); may be called by any thread.
          places: of the rows, in their order.
          row_shape: shape of a row.
          dtype: of what ``read`` returns.
          describe: places in the files to names and sizes of these files, if each row has its own.
        """
        self.shape = (len(places), *row_shape)
        self.dtype = np.dtype(dtype)
        self._read, self._places, self._describe = read, places, describe

    @property
    def ndim(self) -> int:
        """Returns the number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, places: Any) -> np.ndarray:
        chosen = self._places[places]
        if not chosen.size:
            return np.empty((0, *self.shape[1:]), self.dtype)
        found = self._read(chosen)
        if found.shape != (len(chosen), *self.shape[1:]) or found.dtype != self.dtype:
            raise ValueError(
                f"rows in files must have shape {self.shape[1:]} and dtype {self.dtype}, as the "
                f"first ones; some have {found.shape[1:]} and {found.dtype}."
            )
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        del dtype, copy
        raise TypeError(
            f"an array of shape {self.shape} that stays on the disk is not read whole: take some "
            "rows, or read the data into memory."
        )

    def rows(self, places: Any) -> "StoredRows":
        """Returns some of the rows, by a slice or integers, without reading them."""
        chosen = self._places[places]
        return StoredRows(self._read, chosen, self.shape[1:], self.dtype, self._describe)

    def files(self) -> Iterator[str] | None:
        """Returns names and sizes of the rows' files in their order; None if they share files."""
        return None if self._describe is None else self._describe(self._places)


def map_rows(function: Callable[[np.ndarray], np.ndarray], array: Any, dtype: Any) -> StoredRows:
    """Returns ``function`` of the rows of any array, in the same shape.

    It is called for some rows whenever they are taken.
    """
    places = np.arange(len(array))
    return StoredRows(lambda some: function(array[some]), places, array.shape[1:], dtype)


def rows_of(array: Any, places: Any) -> Any:
    """Returns some rows of an array, which stay in their files if they lie there."""
    return array.rows(places) if isinstance(array, StoredRows) else np.asarray(array)[places]


def take_rows(array: Any, places: Any) -> np.ndarray:
    """Returns some rows of an array in memory."""
    return array[places] if isinstance(array, StoredRows) else np.asarray(array)[places]


def in_parts(array: Any) -> Iterator[np.ndarray]:
    """Yields all rows as NumPy arrays: those of files in parts, else all at once."""
    if not isinstance(array, StoredRows):
        yield np.asarray(array)
        return
    firsts = range(0, len(array), AT_ONCE)
    for first in count(firsts, len(firsts), f" parts of {AT_ONCE} images"):
        yield array[first : first + AT_ONCE]
