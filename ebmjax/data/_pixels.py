"""Turns pixels into levels 0 to 255 of square images, and limits what is read of them."""

import contextlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ebmjax._extras import needs_experiments

MAX_SIDE = 8192
"""Largest side of an image, in pixels."""
MAX_PIXELS = MAX_SIDE**2
"""Most pixels of an encoded image, by its header."""
SHARE = 0.8
"""Part of the free memory that images may take."""

AT_ONCE = 4096
"""Images converted at once, so that floats of a large set never lie in memory twice."""

FITS = {
    "crop": ("cut to the central square", min),
    "pad": ("padded to a square with black", max),
    "stretch": ("stretched to a square", min),
}
"""Words for what is done to images that are no squares, and the square's side from theirs."""


def fit_shape(height: int, width: int, size: int | None, fit: str) -> tuple[int, int]:
    """Returns the height and width that ``fit_images`` makes."""
    if fit not in FITS:
        raise ValueError(f"fit must be one of {list(FITS)}, got {fit!r}.")
    side = size or FITS[fit][1](height, width)
    return side, side


def fit_images(images: np.ndarray, size: int | None, fit: str = "crop") -> np.ndarray:
    """Returns uint8 (n, height, width, channels) as squares, resized bilinearly to ``size`` pixels.

    Without a size the side is the shorter one, or the longer one for "pad".
    """
    height, width, channels = images.shape[1:]
    shape = fit_shape(height, width, size, fit)
    if (height, width) == shape:
        return images
    if height != width and fit == "crop":
        short = min(height, width)
        top, left = (height - short) // 2, (width - short) // 2
        images = images[:, top : top + short, left : left + short]
    if height != width and fit == "pad":
        long = max(height, width)
        squares = np.zeros((len(images), long, long, channels), np.uint8)
        top, left = (long - height) // 2, (long - width) // 2
        squares[:, top : top + height, left : left + width] = images
        images = squares
    if images.shape[1:3] == shape:
        return images
    with needs_experiments("resizing images (image_size)", "pillow"):
        from PIL import Image

    resized = np.empty((len(images), *shape, channels), np.uint8)
    for image, new in zip(images, resized, strict=True):
        # Pillow resizes RGB together, any other number of channels one by one.
        layers = [image] if channels == 3 else np.moveaxis(image, -1, 0)
        layers = [Image.fromarray(one).resize(shape, Image.Resampling.BILINEAR) for one in layers]
        layers = [np.asarray(layer).reshape(*shape, -1) for layer in layers]
        new[:] = np.concatenate(layers, axis=-1)
    return resized


def about_fitting(
    sizes: Collection[tuple[int, int]], size: int | None, fit: str
) -> tuple[str, ...]:
    """Returns the note on which sizes (height, width) ``fit_images`` changed; () for none."""
    done = []
    if any(height != width for height, width in sizes):
        done.append(f"{FITS[fit][0]} (fit={fit})")
    if size is not None and any(FITS[fit][1](one) != size for one in sizes):
        done.append("resized")
    smallest, largest = (f"{height}x{width}" for height, width in (min(sizes), max(sizes)))
    words = f"{len(sizes)} sizes from {smallest} to {largest}" if len(sizes) > 1 else smallest
    return (f"{' and '.join(done)} from {words}",) if done else ()


def check_memory(num_bytes: int, what: str) -> None:
    """Raises ValueError unless ``num_bytes`` fit into a share of the memory that is free."""
    free = free_bytes()
    if free is not None and num_bytes > SHARE * free:
        raise ValueError(
            f"{what} need {num_bytes / 2**30:.1f} GiB of memory, and may take {SHARE:.0%} of what "
            f"is free, {SHARE * free / 2**30:.1f} GiB. Read fewer (max_examples)."
        )


def free_bytes() -> int | None:
    """Returns the memory that programs can still take; None where the system does not say."""
    known = []
    with contextlib.suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        known.append(next(int(line.split()[1]) * 1024 for line in lines if "MemAvailable" in line))
    with contextlib.suppress(OSError, ValueError):  # no control group of a container, or "max"
        known.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(known, default=None)


class PixelRange(NamedTuple):
    """Range of the pixels of an array.

    Attributes:
      low: pixel that is level 0.
      high: pixel that is level 255.
      reach: least absolute value that the largest pixel has, where nobody says the range.
    """

    low: float
    high: float
    reach: float

    @property
    def factor(self) -> float:
        """Returns the levels a unit of the pixels."""
        return 255.0 / (self.high - self.low)

    def holds(self, low: float, high: float) -> bool:
        """Returns whether pixels lie in the range, or outside by half a level at most."""
        tolerance = 0.5 / self.factor  # no pixel moves further than by rounding
        return low >= self.low - tolerance and high <= self.high + tolerance


LEVELS, UNIT, SIGNED_UNIT = "0..255", "0..1", "-1..1"
RANGES = {
    UNIT: PixelRange(0.0, 1.0, 0.25),
    SIGNED_UNIT: PixelRange(-1.0, 1.0, 0.51),
    LEVELS: PixelRange(0.0, 255.0, 64.0),
}
"""Ranges by name. The first that holds the pixels of the training images is theirs."""
WORDS = "0 to 255, 0 to 1 or -1 to 1"


def to_levels(
    images: np.ndarray, name_of: Callable[[int], str], pixels: str | None = None
) -> tuple[np.ndarray, str, tuple[str, ...]]:
    """Returns uint8 levels, the name of the range of the pixels, and notes.

    Bytes are levels, and booleans are 0 and 1. All other numbers (n, ...) have the range
    ``pixels``, or, if that is None, the first of ``RANGES`` that holds them and that they use.
    Numbers outside by less than half a level are clipped.

    Raises:
      ValueError: if the pixels have another range, or some are NaN or infinite.
    """
    if pixels is not None and pixels not in RANGES:
        raise ValueError(f"pixels must be one of {list(RANGES)}, got {pixels!r}.")
    if images.dtype == np.uint8:
        if pixels not in (None, LEVELS) and images.max() <= 1:
            raise ValueError(
                f"pixels must be in one range, {pixels} as those of the training images, got bytes "
                f"from {images.min()} to {images.max()}. Multiply them by 255."
            )
        return images, LEVELS, ()
    low, high = _ends(images, name_of)
    if images.dtype == bool:
        pixels = UNIT
    found = _find_range(images, low, high) if pixels is None else pixels
    one = RANGES[found]
    is_dark = found == LEVELS and images.dtype.kind == "f" and RANGES[UNIT].holds(low, high)
    if not one.holds(low, high) or (is_dark and high > 0):
        raise ValueError(
            f"pixels of all images must be in one range, {one.low:g} to {one.high:g} as those of "
            f"the training images, got {low:g} to {high:g} (dtype {images.dtype}). Bring all "
            f"splits to one range, or name that of the training images: pixels={list(RANGES)}."
        )
    levels, num_clipped = _round_levels(images, one)
    notes = [f"pixels are {found} and became levels" if found != LEVELS else f"pixels are {found}"]
    if found == SIGNED_UNIT and low >= 0:
        notes.append(f"none is below 0 ({low:g} to {high:g}): are they 0..1, unlike others?")
    if num_clipped:
        notes.append(f"pixels just outside, clipped: {num_clipped} ({low:.8g} to {high:.8g})")
    return levels, found, tuple(notes)


def _find_range(images: np.ndarray, low: float, high: float) -> str:
    """Returns the range of the training images."""
    got = f"got {low:g} to {high:g} (dtype {images.dtype})"
    is_whole = images.dtype.kind in "ui"
    for name, one in RANGES.items():
        if not one.holds(low, high) or (is_whole and name != LEVELS):
            continue
        if max(abs(low), abs(high)) >= one.reach:
            return name
        raise ValueError(
            f"pixels must be in {WORDS} and use more than a quarter of that, {got}, which is "
            f"nearly one grey if they are {name}. Rescale them, or name the range: pixels={name}."
        )
    raise ValueError(
        f"pixels must be in {WORDS}, {got}. Give the images before they were standardised, clip "
        "what lies outside, or rescale them to 0 to 1."
    )


def _ends(images: np.ndarray, name_of: Callable[[int], str]) -> tuple[float, float]:
    low, high = np.inf, -np.inf
    for first in range(0, len(images), AT_ONCE):
        block = images[first : first + AT_ONCE]
        is_broken = ~np.isfinite(block)
        if is_broken.any():
            where = first + int(np.flatnonzero(is_broken.reshape(len(block), -1).any(axis=1))[0])
            number = int(is_broken[where - first].sum())
            raise ValueError(
                f"pixels must be finite: {name_of(where)} has {number} that are NaN or infinite. "
                "Repair it or leave it out."
            )
        low, high = min(low, float(block.min())), max(high, float(block.max()))
    return low, high


def _round_levels(images: np.ndarray, one: PixelRange) -> tuple[np.ndarray, int]:
    """Returns levels, and the number of pixels that were clipped."""
    levels, num_clipped = np.empty(images.shape, np.uint8), 0
    for first in range(0, len(images), AT_ONCE):
        block = images[first : first + AT_ONCE].astype(np.float32)
        num_clipped += int(np.count_nonzero((block < one.low) | (block > one.high)))
        block = one.factor * (np.clip(block, one.low, one.high) - one.low)
        levels[first : first + AT_ONCE] = np.round(block)
    return levels, num_clipped
