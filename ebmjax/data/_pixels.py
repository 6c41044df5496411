"""Turns pixels into levels 0 to 255 of square images, and limits what is read of them."""

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

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

NameOf = Callable[[int], str]
NAMED = "--config.data.range=LOW,HIGH, in Python value_range=(LOW, HIGH)"

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
    """Returns images (n, height, width, 1 or 3) as squares, resized bilinearly to ``size`` pixels.

    They are uint8 or uint16. Without a size the side is the shorter one, or the longer for "pad".
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
        squares = np.zeros((len(images), long, long, channels), images.dtype)
        top, left = (long - height) // 2, (long - width) // 2
        squares[:, top : top + height, left : left + width] = images
        images = squares
    if images.shape[1:3] == shape:
        return images
    with needs_experiments("resizing images (image_size)", "pillow"):
        from PIL import Image

    resized = np.empty((len(images), *shape, channels), images.dtype)
    images = images if images.dtype == np.uint8 else images.astype(np.int32)  # Pillow's "I"
    for image, new in zip(images, resized, strict=True):
        one = Image.fromarray(image if channels == 3 else image[..., 0])
        new[:] = np.asarray(one.resize(shape, Image.Resampling.BILINEAR)).reshape(new.shape)
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


UNIT, SIGNED_UNIT, LEVELS = (0.0, 1.0), (-1.0, 1.0), (0.0, 255.0)
SIXTEEN_BITS = (0.0, 65535.0)
REACH = {UNIT: 0.25, SIGNED_UNIT: -0.51, LEVELS: 64.0, SIXTEEN_BITS: 2.0**14}
"""Ranges that are recognised, and a pixel that images of each reach: largest, or smallest."""
FURTHEST, MOST_OUTSIDE = 0.5, 0.015
"""Parts of a range's width that pixels lie outside, at most: one of them, and the mean of all.
Resizing that sharpens leaves such pixels: of digits up to 0.41 and 0.012, by Lanczos."""
Range = tuple[float, float]


def show_range(one: Range) -> str:
    """Returns a range as messages show it, "0..255"."""
    return f"{one[0]:g}..{one[1]:g}"


def find_range(blocks: Callable[[], Iterable[np.ndarray]], dtype: Any, name_of: NameOf) -> Range:
    """Returns the range of the pixels of a source, of all that it has.

    Bytes and booleans say it themselves, whole numbers of 16 bits by their type. Floats have the
    first range that holds them and that they use.

    Args:
      blocks: function that yields all images in their order, (n, ...) at a time.
      dtype: theirs.
      name_of: place of an image to its name.

    Raises:
      ValueError: if there is none, or some are NaN or infinite.
    """
    if dtype in (np.uint8, bool):
        return LEVELS if dtype == np.uint8 else UNIT
    low, high = _ends(blocks(), name_of)
    got, is_whole = f"got {low:g} to {high:g} (dtype {dtype})", np.dtype(dtype).kind in "ui"
    known = [LEVELS] if is_whole else [UNIT, SIGNED_UNIT, LEVELS]
    for one in [*known, *[SIXTEEN_BITS] * (dtype == np.uint16)]:
        furthest = 0.0 if is_whole else FURTHEST * (one[1] - one[0])
        if low < one[0] - furthest or high > one[1] + furthest:
            continue
        if not is_whole and _mean_outside(blocks(), one) > MOST_OUTSIDE:
            continue
        if low <= REACH[one] < 0 or 0 < REACH[one] <= high:
            return one
        if low >= one[0] and one != SIGNED_UNIT:
            raise ValueError(
                f"pixels must use more than a quarter of their range, {got}, which is nearly one "
                f"grey if they are {show_range(one)}. Rescale them, or name the range: {NAMED}."
            )
    raise ValueError(
        f"pixels must be in 0 to 255, 0 to 1 or -1 to 1, {got}. Give the images before they were "
        f"standardised, clip what lies outside, or name the range: {NAMED}."
    )


def to_levels(
    images: np.ndarray, name_of: NameOf, value_range: Range
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Returns uint8 levels of pixels (n, ...) in a range, and notes.

    Bytes are levels, unless the range is one of whole numbers that is not theirs. Pixels a little
    outside are clipped.

    Raises:
      ValueError: if the pixels have another range, or some are NaN or infinite.
    """
    low, high = _ends(_blocks(images), name_of)
    is_float, words = images.dtype.kind == "f", show_range(value_range)
    if images.dtype == bool:
        value_range = UNIT
    is_unit = value_range[1] <= 1.0
    if images.dtype == np.uint8 and (value_range == LEVELS or (is_unit and high > 1)):
        return images, ()
    levels, num_clipped, outside = _round_levels(images, value_range)
    furthest = FURTHEST * (value_range[1] - value_range[0])
    is_other = outside > MOST_OUTSIDE or low < value_range[0] - furthest
    is_other |= high > value_range[1] + furthest
    is_other |= is_float and value_range[1] >= LEVELS[1] and 0 < high <= 1
    if is_other or (images.dtype == np.uint8 and (is_unit or value_range[1] > LEVELS[1])):
        raise ValueError(
            f"pixels of all images must be in one range, {words} as those of the training images, "
            f"got {low:g} to {high:g} (dtype {images.dtype}). Bring all splits to one range, or "
            f"name that of the training images: {NAMED}."
        )
    notes = [f"pixels are {words}" + " and became levels" * (value_range != LEVELS)]
    if value_range == SIGNED_UNIT and low >= 0:
        notes.append(f"none is below 0 ({low:g} to {high:g}): are they 0..1, unlike others?")
    if num_clipped:
        notes.append(f"pixels just outside, clipped: {num_clipped} ({low:.8g} to {high:.8g})")
    return levels, tuple(notes)


def _blocks(images: np.ndarray) -> Iterator[np.ndarray]:
    return (images[first : first + AT_ONCE] for first in range(0, len(images), AT_ONCE))


def _ends(blocks: Iterable[np.ndarray], name_of: NameOf) -> Range:
    low, high, first = np.inf, -np.inf, 0
    for block in blocks:
        is_broken = ~np.isfinite(block)
        if is_broken.any():
            where = int(np.flatnonzero(is_broken.reshape(len(block), -1).any(axis=1))[0])
            number = int(is_broken[where].sum())
            raise ValueError(
                f"pixels must be finite: {name_of(first + where)} has {number} that are NaN or "
                "infinite. Repair it or leave it out."
            )
        low, high = min(low, float(block.min())), max(high, float(block.max()))
        first += len(block)
    return low, high


def _mean_outside(blocks: Iterable[np.ndarray], one: Range) -> float:
    """Returns the mean distance of pixels from a range, in parts of its width."""
    total = num = 0
    for block in blocks:
        x = block.astype(np.float64)
        total, num = total + float(np.abs(x - np.clip(x, *one)).sum()), num + block.size
    return total / num / (one[1] - one[0])


def _round_levels(images: np.ndarray, one: Range) -> tuple[np.ndarray, int, float]:
    """Returns levels, the number of pixels that were clipped, and ``_mean_outside``."""
    levels, num_clipped = np.empty(images.shape, np.uint8), 0
    for first, block in zip(range(0, len(images), AT_ONCE), _blocks(images), strict=True):
        block = block.astype(np.float32)
        num_clipped += int(np.count_nonzero((block < one[0]) | (block > one[1])))
        block = (np.clip(block, *one) - one[0]) * (255.0 / (one[1] - one[0]))
        levels[first : first + AT_ONCE] = np.round(block)
    return levels, num_clipped, _mean_outside(_blocks(images), one) if num_clipped else 0.0
