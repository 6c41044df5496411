"""Recognises the range of pixels and turns them into levels 0 to 255."""

from typing import NamedTuple

import numpy as np

AT_ONCE = 4096
"""Images converted at once, so that floats of a large set never lie in memory twice."""


class PixelRange(NamedTuple):
    """Range of the pixels of an array.

    Attributes:
      name: for people, such as "[0, 1]".
      factor: level = factor * pixel + offset, rounded.
      offset: see ``factor``.
    """

    name: str
    factor: float
    offset: float


LEVELS = PixelRange("levels 0 to 255", 1.0, 0.0)
UNIT = PixelRange("[0, 1]", 255.0, 0.0)
SIGNED_UNIT = PixelRange("[-1, 1]", 127.5, 127.5)


def pixel_range(images: np.ndarray, what: str) -> PixelRange:
    """Returns the range that the pixels have: levels, [0, 1] or [-1, 1].

    Floats without a negative value are [0, 1] if none exceeds 1, else levels.

    Args:
      images: numbers or booleans, any shape, not empty.
      what: name of the array for messages.

    Raises:
      ValueError: if the pixels have another range, or some are NaN or infinite.
      TypeError: if they are no numbers.
    """
    if images.dtype == np.uint8:
        return LEVELS
    if images.dtype == bool:
        return UNIT
    is_real = np.issubdtype(images.dtype, np.floating) or np.issubdtype(images.dtype, np.integer)
    if not is_real:
        raise TypeError(f"{what} must be an array of numbers, got dtype {images.dtype}.")
    low, high = _ends(images, what)
    if low < 0:
        if np.issubdtype(images.dtype, np.floating) and low >= -1 and high <= 1:
            return SIGNED_UNIT
    elif np.issubdtype(images.dtype, np.floating) and high <= 1:
        return UNIT
    elif high <= 255:
        return LEVELS
    raise ValueError(
        f"{what} must have pixels in 0 to 255, [0, 1] or [-1, 1], got {low:g} to {high:g} (dtype "
        f"{images.dtype}). Give the images before they were standardised, or rescale them to "
        "[-1, 1]."
    )


def _ends(images: np.ndarray, what: str) -> tuple[float, float]:
    low, high = np.inf, -np.inf
    for first in range(0, len(images), AT_ONCE):
        block = images[first : first + AT_ONCE]
        is_broken = ~np.isfinite(block)
        if is_broken.any():
            where = first + int(np.flatnonzero(is_broken.reshape(len(block), -1).any(axis=1))[0])
            raise ValueError(
                f"{what} must have finite pixels: image {where} has "
                f"{int(is_broken.sum())} that are NaN or infinite. Repair it or leave it out."
            )
        low, high = min(low, float(block.min())), max(high, float(block.max()))
    return low, high


def to_levels(images: np.ndarray, found: PixelRange) -> np.ndarray:
    """Returns uint8 levels of pixels in the range ``found``."""
    if images.dtype == np.uint8:
        return images
    levels = np.empty(images.shape, np.uint8)
    for first in range(0, len(images), AT_ONCE):
        block = images[first : first + AT_ONCE].astype(np.float32)
        levels[first : first + AT_ONCE] = np.round(found.factor * block + found.offset)
    return levels
