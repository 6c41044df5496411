"""Reads points from an .npy file."""

import math
import os
from pathlib import Path

import numpy as np

from ebmjax._shown import near_path
from ebmjax.data._limits import check_memory
from ebmjax.data._npy import find_array


def load_points(path: str | os.PathLike[str]) -> np.ndarray:
    """Returns the points in an .npy file, float32 (N, d).

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: unless it holds one or more finite points.
    """
    place = Path(path).expanduser()
    must_be = f"{place} must be an .npy file of points (N, d)"
    if not place.is_file():
        raise FileNotFoundError(f"{must_be}, and there is no such file.{near_path(place)}")
    try:
        array = find_array(place)  # which an .npz file is not
    except ValueError as error:
        raise ValueError(f"{must_be}; {error}") from error
    if len(array.shape) != 2 or 0 in array.shape or array.dtype.kind not in "buif":
        raise ValueError(f"{must_be}, got shape {array.shape} and dtype {array.dtype}.")
    check_memory(4 * math.prod(array.shape), f"the points of {place}")
    with np.errstate(over="ignore"):  # infinite numbers are named below
        points = np.asarray(array.load(), np.float32)
    broken = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if broken.size:
        raise ValueError(
            f"{must_be}, all finite in 32 bits: {broken.size} are not, the first in row "
            f"{broken[0]}."
        )
    return points
