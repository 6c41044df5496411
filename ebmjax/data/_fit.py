"""Makes squares of images, resizes them, and limits their size before pixels are read."""

import contextlib
from collections.abc import Collection
from pathlib import Path

import numpy as np

from ebmjax._extras import needs_experiments

MAX_SIDE = 8192
"""Largest side of an image, in pixels."""
MAX_PIXELS = MAX_SIDE**2
"""Most pixels of an encoded image, by its header."""
SHARE = 0.8
"""Part of the free memory that images may take."""

FITS = {
    "crop": ("cut to the central square", min),
    "pad": ("padded to a square with black", max),
    "stretch": ("stretched to a square", min),
}
"""Words for what is done to images that are no squares, and the square's side from theirs."""


def fit_shape(height: int, width: int, size: int | None, fit: str) -> tuple[int, int]:
    """Returns the height and width that ``fit_image`` makes."""
    if fit not in FITS:
        raise ValueError(f"fit must be one of {list(FITS)}, got {fit!r}.")
    side = size or FITS[fit][1](height, width)
    return side, side


def fit_image(image: np.ndarray, size: int | None, fit: str = "crop") -> np.ndarray:
    """Returns uint8 (height, width, channels) as a square, resized bilinearly to ``size`` pixels.

    Without a size the side is the shorter one, or the longer one for "pad".
    """
    height, width, channels = image.shape
    shape = fit_shape(height, width, size, fit)
    if image.shape[:2] == shape:
        return image
    if height != width and fit == "crop":
        short = min(height, width)
        top, left = (height - short) // 2, (width - short) // 2
        image = image[top : top + short, left : left + short]
    if height != width and fit == "pad":
        long = max(height, width)
        square = np.zeros((long, long, channels), np.uint8)
        top, left = (long - height) // 2, (long - width) // 2
        square[top : top + height, left : left + width] = image
        image = square
    if image.shape[:2] == shape:
        return image
    with needs_experiments("resizing images (image_size)", "pillow"):
        from PIL import Image

    # Pillow resizes RGB together, any other number of channels one by one.
    layers = [image] if channels == 3 else np.moveaxis(image, -1, 0)
    layers = [Image.fromarray(one).resize(shape, Image.Resampling.BILINEAR) for one in layers]
    return np.concatenate([np.asarray(layer).reshape(*shape, -1) for layer in layers], axis=-1)


def about_fitting(
    sizes: Collection[tuple[int, int]], size: int | None, fit: str
) -> tuple[str, ...]:
    """Returns the note that says which sizes (height, width) ``fit_image`` changed; () for none."""
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
