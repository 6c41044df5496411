"""Scores of images for out-of-distribution detection, and how well they separate.

A good score is high for in-distribution images, the positive class, and low for others. The
measures are host code in float64; NaN where a score is NaN.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax._checks import check_finite, check_floating
from ebmjax._precision import at_least_float32, root


def auroc(in_scores: Any, out_scores: Any) -> float:
    r"""Returns the area under the ROC curve, a probability over pairs. Host code.

    .. math::
        P(s_\mathrm{in} > s_\mathrm{out}) + \tfrac12 P(s_\mathrm{in} = s_\mathrm{out})

    counted exactly by sorting. It is 1/2 for a score without information and does not depend on the
    sizes of the sets.

    Args:
      in_scores: (n,), of in-distribution images, the positive class.
      out_scores: (m,), of the others. Infinite scores are ordered like any other.

    Source: Hanley & McNeil 1982; the measure of JEM's and SADA-JEM's tables.
    """
    return float(np.mean(auroc_parts(in_scores, out_scores)[0]))


def auroc_parts(in_scores: Any, out_scores: Any) -> tuple[np.ndarray, np.ndarray]:
    r"""Returns the area under the ROC curve as a sum of two means, one over each set of images.

    An in-distribution image's part is the fraction of the others below it, so the mean is
    ``auroc``. Each other image's part is the fraction of in-distribution images above it minus the
    area, so the mean is zero. Pass the pair to ``sampling_error`` or ``paired_difference``: the
    variance is then DeLong's. The arguments are those of ``auroc``. Host code.

    Source: DeLong, DeLong & Clarke-Pearson 1988, "Comparing the areas under two or more correlated
    receiver operating characteristic curves".

    Example:
      >>> inside, outside = auroc_parts([3.0, 1.0], [0.0, 1.0])
      >>> inside.tolist(), outside.tolist()
      ([1.0, 0.75], [0.125, -0.125])
    """
    ours, theirs, nan = _check_scores(in_scores, out_scores)
    inside = _fraction_below(ours, theirs) + nan
    return inside, 1 - _fraction_below(theirs, ours) - np.mean(inside)


def _fraction_below(scores: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Returns, for each score, the fraction of the others below it; equal ones count half."""
    below, not_above = (
        np.searchsorted(np.sort(others), scores, side) for side in ("left", "right")
    )
    return (below + not_above) / (2 * len(others))


def ood_scores(
    logits_fn: Callable[[jax.Array], jax.Array], images: jax.Array
) -> dict[str, jax.Array]:
    r"""Returns three scores of each image, high if the classifier, as an energy model, knows it.

    - ``"log_density"``: :math:`\log \sum_k e^{f_k(x)}`, the joint energy model's log p(x) up to a
      constant that is the same for all images; nats.
    - ``"max_probability"``: the largest softmax probability, in (0, 1].
    - ``"negative_score_norm"``: minus the Euclidean norm, over an image's pixels and channels, of
      the score :math:`\nabla_x \log p(x)`; nats per unit of the pixels' range.

    All come from one evaluation and one gradient of the sum over the batch, so an image's logits
    must depend on that image alone: batch normalisation must use running statistics here.

    Args:
      logits_fn: (N, ...) to (N, classes), parameters bound.
      images: (N, ...), floating point and finite, as the network takes them; usually (N, H, W, C).
        For many images, call this (jitted) on batches and concatenate.

    Returns:
      A dict of three arrays of shape (N,), float32 at least.

    Source: Grathwohl et al. 2020 (JEM), arXiv:1912.03263, section 5.3.
    """
    images = jnp.asarray(images)
    check_floating("images", images)
    if images.ndim < 2 or not images.size:
        raise ValueError(
            f"images must have shape (N, ...) with at least one image, got {images.shape}. "
            "For a single image pass images[None]."
        )
    check_finite("images", images)

    def summed_log_density(x: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        logits = logits_fn(x)
        if logits.ndim != 2 or len(logits) != len(x):
            raise ValueError(
                f"logits_fn must map {len(x)} images to logits of shape ({len(x)}, classes), got "
                f"{logits.shape}."
            )
        logits = at_least_float32(logits)
        log_density = jax.nn.logsumexp(logits, axis=-1)
        # exp(max - log_density) would lose digits at large logits.
        max_probability = jnp.max(jax.nn.softmax(logits, axis=-1), axis=-1)
        return jnp.sum(log_density), (log_density, max_probability)

    gradient, (log_density, max_probability) = jax.grad(summed_log_density, has_aux=True)(images)
    gradient = gradient.reshape(len(images), -1).astype(log_density.dtype)
    return {
        "log_density": log_density,
        "max_probability": max_probability,
        "negative_score_norm": -root(jnp.sum(jnp.square(gradient), axis=-1)),
    }


def _check_scores(in_scores: Any, out_scores: Any) -> tuple[np.ndarray, np.ndarray, float]:
    """Returns both sets in float64, and NaN if a score is, which sorting would rank as perfect."""
    found = [np.asarray(scores, np.float64) for scores in (in_scores, out_scores)]
    for name, scores in zip(("in_scores", "out_scores"), found, strict=True):
        if scores.ndim != 1 or not scores.size:
            raise ValueError(
                f"{name} must have shape (n,) with one score per image and at least one image, "
                f"got {scores.shape}."
            )
    return found[0], found[1], np.nan if np.isnan(np.concatenate(found)).any() else 0.0
