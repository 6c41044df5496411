"""Values for single images whose means are the numbers of a joint model's evaluation."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import metrics
from ebmjax.recipes.core.per_image import Parts as Parts

TEST = "test"
"""Name of the set of test images."""


def classification(logits: np.ndarray, labels: np.ndarray, num_bins: int) -> dict[str, Parts]:
    """Returns accuracy, calibration error, log likelihood and Brier score, image by image."""

    @jax.jit
    def numbers(logits: jax.Array, labels: jax.Array) -> dict[str, jax.Array]:
        probabilities = jax.nn.softmax(logits)

        def one(logits: jax.Array, probabilities: jax.Array, label: jax.Array) -> list[jax.Array]:
            # Means over one image.
            return [
                metrics.accuracy(logits[None], label[None]) > 0.5,
                metrics.negative_log_likelihood(logits[None], label[None]),
                metrics.brier_score(probabilities[None], label[None]),
            ]

        right, nll, brier = jax.vmap(one)(logits, probabilities, labels)
        gaps = metrics.calibration_gaps(probabilities, labels, num_bins=num_bins)
        return {"accuracy": right, "ece": gaps, "nll": nll, "brier": brier}

    if not np.isfinite(logits).all():
        return {}
    found = numbers(jnp.asarray(logits), jnp.asarray(labels))
    return {f"classification.{name}": {TEST: np.asarray(array)} for name, array in found.items()}


def detection(
    tested: Mapping[str, np.ndarray], others: Mapping[str, Mapping[str, np.ndarray]]
) -> dict[str, Parts]:
    """Returns areas of every score and set, and means over the sets; see ``ood.detections``."""
    parts_of = jax.jit(metrics.auroc_parts)
    found: dict[str, Parts] = {}
    for score, inside in tested.items():
        parts = {name: parts_of(inside, theirs[score]) for name, theirs in others.items()}
        for name, (ours, theirs) in parts.items():
            found[f"ood.sets.{name}.{score}.auroc"] = {
                TEST: np.asarray(ours),
                name: np.asarray(theirs),
            }
        mean = {TEST: np.mean([ours for ours, _ in parts.values()], axis=0)}
        mean |= {name: np.asarray(theirs) / len(parts) for name, (_, theirs) in parts.items()}
        found[f"ood.mean_auroc.{score}"] = mean
    return found
