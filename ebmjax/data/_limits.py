"""Limits of sizes, checked before pixels are read."""

import os
from pathlib import Path

from ebmjax._checks import check_at_least

MAX_SIDE = 8192
"""Largest side of an image, in pixels."""
MAX_PIXELS = MAX_SIDE**2
"""Most pixels of an encoded image, by its header."""
SHARE = 0.8
"""Part of the free memory that images may take."""


def check_sizes(image_size: int | None, max_examples: int | None) -> None:
    """Raises ValueError for a side or a number of images that nothing can have."""
    if image_size is not None:
        check_at_least("image_size", image_size, 1)
        if image_size > MAX_SIDE:
            raise ValueError(f"image_size must be at most {MAX_SIDE} pixels, got {image_size}.")
    if max_examples is not None:
        check_at_least("max_examples", max_examples, 1)


def check_memory(num_bytes: int, what: str) -> None:
    """Raises ValueError unless ``num_bytes`` fit into a share of the memory that is free."""
    free = free_bytes()
    if free is not None and num_bytes > SHARE * free:
        raise ValueError(
            f"{what} need {num_bytes / 2**30:.1f} GiB of memory, and may take "
            f"{SHARE * free / 2**30:.1f} GiB: {SHARE:.0%} of what is free. Read fewer "
            "(max_examples) or smaller ones (image_size)."
        )


def free_bytes() -> int | None:
    """Returns the memory that programs can still take; None where the system does not say."""
    known = [found for found in (_available(), _of_container()) if found is not None]
    return min(known, default=None)


def _available() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if "MemAvailable" in line)
    except (OSError, StopIteration, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _of_container() -> int | None:
    """Returns the limit of the control group that a container runs in."""
    try:
        return int(Path("/sys/fs/cgroup/memory.max").read_text())
    except (OSError, ValueError):  # none, or "max"
        return None
