"""Reads points of the plane from an .npy file."""

import os
from pathlib import Path

import numpy as np


def load_points(path: str | os.PathLike[str]) -> np.ndarray:
    """Returns the points in an .npy file, float32 (N, 2).

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: unless it holds one or more finite points of the plane.
    """
    place = Path(path).expanduser()
    must_be = f"{place} must be an .npy file of points (N, 2)"
    if not place.is_file():
        raise FileNotFoundError(f"{must_be}, and there is no such file.")
    try:
        points = np.asarray(np.load(place, allow_pickle=False), np.float32)
    except (OSError, ValueError, TypeError, EOFError) as error:  # an .npz file, too
        raise ValueError(f"{must_be}; it cannot be read: {error}.") from error
    if points.ndim != 2 or points.shape[1] != 2 or not len(points):
        raise ValueError(f"{must_be}, got shape {points.shape}.")
    broken = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if broken.size:
        raise ValueError(
            f"{must_be}, all finite: {broken.size} are not, the first in row {broken[0]}."
        )
    return points
