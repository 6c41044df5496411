"""Keeps the numbers of an evaluation image by image, to compare runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import ebmjax

FILE = "per_image.npz"

PerImage = dict[str, np.ndarray]
"""Set of images to (images,); a number is the sum of the parts' means."""

RunParts = tuple[Any, PerImage]
"""Images by their digest, and a number of each image."""


def write(folder: Path, found: Mapping[str, PerImage]) -> dict[str, float]:
    """Writes per_image.npz: its arrays are called "<name in evaluation.json>#<set of images>".

    Returns the standard error of each number, because the test set is finite. Numbers of fewer than
    two images, and those that are not finite, are left out.
    """
    arrays, errors = {}, {}
    for name, parts in found.items():
        if all(len(part) > 1 and np.isfinite(part).all() for part in parts.values()):
            errors[name] = ebmjax.metrics.sampling_error(tuple(parts.values()))
            arrays |= {f"{name}#{part}": array for part, array in parts.items()}
    np.savez_compressed(folder / FILE, **arrays)
    return errors


def read(folder: Path, name: str) -> PerImage | None:
    """Returns the number ``name`` of each image; None if it is missing."""
    path = folder / FILE
    if not path.exists():
        return None
    with np.load(path) as arrays:
        keys = [key for key in arrays if key.rpartition("#")[0] == name]
        return {key.rpartition("#")[2]: arrays[key] for key in keys} or None


def fits(runs: Sequence[RunParts]) -> bool:
    """Returns whether there are runs, all on the same images."""
    images = {(digest, *((name, len(x)) for name, x in parts.items())) for digest, parts in runs}
    return len(images) == 1


def stack_parts(runs: Sequence[RunParts]) -> tuple[np.ndarray, ...]:
    """Returns (seeds, images) of each part."""
    return tuple(np.stack([parts[name] for _, parts in runs]) for name in runs[0][1])


def difference(
    ours: Mapping[int, RunParts], theirs: Mapping[int, RunParts], *, factor: float = 1.0
) -> dict[str, Any] | None:
    """Returns the paired difference over common seeds; None without any on the same images."""
    seeds = [seed for seed in ours if seed in theirs]
    both = [ours[seed] for seed in seeds], [theirs[seed] for seed in seeds]
    if not fits([*both[0], *both[1]]):
        return None
    found = ebmjax.metrics.paired_difference(*(stack_parts(runs) for runs in both))
    low, high = sorted([factor * found.low, factor * found.high])
    ends = {"low": low, "high": high, "seeds": len(seeds)}
    return {"difference": factor * found.difference, **ends}
