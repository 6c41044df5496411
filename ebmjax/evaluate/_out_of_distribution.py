"""Sets of other images, and how well scores tell them from a model's own."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from ebmjax import data, metrics

Parts = dict[str, np.ndarray]
"""Set of images to one value an image; a number is the sum of the parts' means."""

TEST = "test"
"""Name of the set of test images."""
PATCH_SIDE = 32
"""Side below which patches come from smaller photographs, which show structure in 32 pixels."""


def ood_sets(images: np.ndarray, *, seed: int = 0) -> dict[str, np.ndarray]:
    """Returns four sets of images that a model of ``images`` should find unlikely.

    "interp", means of pairs of the images, is near the images. "natural_patches" (of photographs),
    "noise" and "constant" are far, and the last two easy. See ``ebmjax.data``. The sets are the
    same for every model.

    Args:
      images: uint8 (N, H, H, C), at least two, grey or colour.
      seed: of the sets.

    Returns:
      As many of each as ``images``, in their shape.

    Example:
      >>> sets = ood_sets(np.zeros((2, 8, 8, 1), np.uint8))
      >>> [(name, found.shape) for name, found in sets.items()][0]
      ('natural_patches', (2, 8, 8, 1))
    """
    interpolated = data.interpolated_images(images, seed=seed)
    num, size, _, channels = images.shape
    shape: dict[str, int] = {"size": size, "channels": channels, "seed": seed}
    return {
        "natural_patches": data.natural_patches(num, downscale=max(1, PATCH_SIDE // size), **shape),
        "interp": interpolated,
        "noise": data.uniform_noise_images(num, **shape),
        "constant": data.constant_images(num, **shape),
    }


def out_of_distribution(
    inside: Mapping[str, Any], outside: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Returns how well each score tells the sets outside from the images inside.

    Args:
      inside: score name to (n,), high for images that the model finds likely. For an energy that is
        ``{"log_density": -energies}``.
      outside: set name to the same scores of its images.

    Returns:
      "num_images" inside, and "sets": for each set its "num_images" and numbers for each score.
      They are "auroc", "aupr_in_positive" and "fpr95_in_positive" with the images inside as the
      positive class, "aupr_out_positive" and "fpr95_out_positive" with those outside, as in OpenOOD
      v1.5. NaN if a score is NaN. There is no mean over sets: it would mix easy and hard ones.

    Example:
      >>> found = out_of_distribution({"log_density": np.array([2.0, 3.0])},
      ...                             {"noise": {"log_density": np.array([1.0, 2.5])}})
      >>> found["sets"]["noise"]["log_density"]["auroc"], found["sets"]["noise"]["num_images"]
      (0.75, 2)
    """
    if not outside:
        raise ValueError("outside must name at least one set of images, got none.")
    for name, theirs in outside.items():
        if missing := sorted(inside.keys() - theirs.keys()):
            raise ValueError(f"outside[{name!r}] must have the scores of inside, lacks {missing}.")
    sets: dict[str, dict[str, Any]] = {
        name: {
            "num_images": _number(theirs),
            **{
                score: {k: float(v) for k, v in _compare(_detection, ours, theirs[score]).items()}
                for score, ours in inside.items()
            },
        }
        for name, theirs in outside.items()
    }
    return {"sets": sets, "num_images": _number(inside)}


def _number(scores: Mapping[str, Any]) -> int:
    return len(next(iter(scores.values())))


def _compare(numbers_of: Callable[[Any, Any], Any], inside: Any, outside: Any) -> Any:
    """Returns numbers of two sets of scores; NaN where a score is, which only jit lets through.

    Outside of jit scores are ranked as they are, and not rounded to float32 before.
    """
    has_nan = any(np.isnan(scores).any() for scores in (inside, outside))
    return (jax.jit(numbers_of) if has_nan else numbers_of)(inside, outside)


def _detection(in_scores: jax.Array, out_scores: jax.Array) -> dict[str, jax.Array]:
    return {
        "auroc": metrics.auroc(in_scores, out_scores),
        **{
            f"{name}_{positive}_positive": metric(in_scores, out_scores, positive=positive)
            for name, metric in (("aupr", metrics.average_precision), ("fpr95", metrics.fpr_at_tpr))
            for positive in ("in", "out")
        },
    }


def areas_by_image(
    tested: Mapping[str, np.ndarray], others: Mapping[str, Mapping[str, np.ndarray]]
) -> dict[str, Parts]:
    """Returns the area of every score and set, image by image."""
    found: dict[str, Parts] = {}
    for score, inside in tested.items():
        for name, other in others.items():
            ours, theirs = map(np.asarray, _compare(metrics.auroc_parts, inside, other[score]))
            found[f"ood.sets.{name}.{score}.auroc"] = {TEST: ours, name: theirs}
    return found
