"""Sets of other images, and how well scores tell them from a model's own."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ebmjax import data, metrics

Parts = dict[str, np.ndarray]
"""Set of images to one value an image; a number is the sum of the parts' means."""

TEST = "test"
"""Name of the set of test images."""
PATCH_SIDE = 32
"""Side below which patches come from smaller photographs."""


def ood_sets(images: np.ndarray, *, seed: int = 0) -> dict[str, np.ndarray]:
    """Returns four sets of images that a model of ``images`` should find unlikely.

    - "interp", means of random pairs of different images, each image in two pairs, is near.
    - "natural_patches" are cut from photographs: see ``ebmjax.data.natural_patches``.
    - "noise" has independent uniform pixels. A score that fails here detects nothing.
    - "constant" has one random colour an image. Smooth images can score above the data.

    The sets are the same for every model.

    Args:
      images: uint8 (N, H, H, C), at least two, grey or colour.
      seed: of the sets.

    Returns:
      As many of each as ``images``, in their shape.

    Source: Du & Mordatch 2019 for the means; Nalisnick et al. 2019 for constants.
    """
    if images.ndim != 4 or images.dtype != np.uint8 or len(images) < 2:
        raise ValueError(
            "images must be at least two, uint8 of shape (N, height, width, channels), got "
            f"{images.dtype} of shape {images.shape}."
        )
    num, size, _, channels = images.shape
    downscale = max(1, PATCH_SIDE // size)
    order = data.epoch_indices(seed, 0, num)
    sums = images[order].astype(np.uint16) + images[np.roll(order, 1)]
    return {
        "natural_patches": data.natural_patches(
            num, size=size, channels=channels, seed=seed, downscale=downscale
        ),
        "interp": np.rint(sums / 2).astype(np.uint8),
        "noise": _random_levels(seed, images.shape),
        "constant": np.tile(_random_levels(seed, (num, 1, 1, channels)), (1, size, size, 1)),
    }


def _random_levels(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Returns the bytes of the raw Philox stream, low byte first; NumPy guarantees that stream."""
    stream = np.random.Philox(key=np.array([seed, 0], np.uint64))
    count = int(np.prod(shape))
    words = stream.random_raw(-(-count // 8)).astype("<u8")
    return words.view(np.uint8)[:count].reshape(shape).copy()


def out_of_distribution(
    inside: Mapping[str, Any], outside: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Returns "ood" of ``classifier``: how well each score tells the sets outside from inside.

    Args:
      inside: score name to (n,), high for images that the model finds likely.
      outside: set name to the same scores of its images.
    """
    sets: dict[str, dict[str, Any]] = {
        name: {
            "num_images": _number(theirs),
            **{
                score: {"auroc": metrics.auroc(ours, theirs[score])}
                for score, ours in inside.items()
            },
        }
        for name, theirs in outside.items()
    }
    return {"sets": sets, "num_images": _number(inside)}


def _number(scores: Mapping[str, Any]) -> int:
    return len(next(iter(scores.values())))


def areas_by_image(
    tested: Mapping[str, np.ndarray], others: Mapping[str, Mapping[str, np.ndarray]]
) -> dict[str, Parts]:
    """Returns the area of every score and set, image by image."""
    found: dict[str, Parts] = {}
    for score, inside in tested.items():
        for name, other in others.items():
            ours, theirs = metrics.auroc_parts(inside, other[score])
            found[f"ood.sets.{name}.{score}.auroc"] = {TEST: ours, name: theirs}
    return found
