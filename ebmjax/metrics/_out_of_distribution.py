"""Scores of images for out-of-distribution detection, and how well they separate.

A good score is high for in-distribution images and low elsewhere. The positive class is theirs
unless ``positive="out"`` makes it the others', as OpenOOD v1.5 does.
"""

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ebmjax._checks import check_floating, check_fraction, check_positive
from ebmjax._precision import at_least_float32, root
from ebmjax.metrics._calibration import check_values


def auroc(in_scores: jax.Array, out_scores: jax.Array) -> jax.Array:
    r"""Returns the area under the ROC curve, a probability over pairs.

    .. math::
        P(s_\mathrm{in} > s_\mathrm{out}) + \tfrac12 P(s_\mathrm{in} = s_\mathrm{out})

    over all pairs of an in-distribution and an out-of-distribution score, counted exactly by
    sorting. It is 1/2 for a score without information, 1 if the score separates, below 1/2 if it is
    misled. The sizes of the sets do not matter.

    Args:
      in_scores: (n,), of in-distribution images, the positive class.
      out_scores: (m,), of the others. Infinite scores are ordered like any other.

    Returns:
      Scalar in [0, 1]; inside ``jit`` NaN if a score is NaN.

    Source: Hanley & McNeil 1982; the measure of JEM's and SADA-JEM's tables.

    Example:
      >>> float(auroc(jnp.array([3.0, 1.0]), jnp.array([0.0, 1.0])))
      0.875
    """
    in_scores, out_scores = _check_scores(in_scores, out_scores)
    area = jnp.mean(_fraction_below(in_scores, out_scores))
    return _nan_where_nan(area, in_scores, out_scores)


def auroc_parts(in_scores: jax.Array, out_scores: jax.Array) -> tuple[jax.Array, jax.Array]:
    r"""Returns the area under the ROC curve as a sum of two means, one over each set of images.

    An in-distribution image's part is the fraction of the others below it, so the mean is
    ``auroc``. Each other image's part is the fraction of in-distribution images above it minus the
    area, so the mean is zero. Pass the pair to ``sampling_error`` or ``paired_difference``: the
    variance is then DeLong's.

    Args:
      in_scores, out_scores: as for ``auroc``.

    Returns:
      Arrays of shape (n,) and (m,); inside ``jit`` all NaN if a score is NaN.

    Source: DeLong, DeLong & Clarke-Pearson 1988, "Comparing the areas under two or more correlated
    receiver operating characteristic curves".

    Example:
      >>> inside, outside = auroc_parts(jnp.array([3.0, 1.0]), jnp.array([0.0, 1.0]))
      >>> inside.tolist(), outside.tolist()
      ([1.0, 0.75], [0.125, -0.125])
    """
    in_scores, out_scores = scores = _check_scores(in_scores, out_scores)
    inside = _fraction_below(in_scores, out_scores)
    outside = 1 - _fraction_below(out_scores, in_scores) - jnp.mean(inside)
    return _nan_where_nan(inside, *scores), _nan_where_nan(outside, *scores)


def _fraction_below(scores: jax.Array, others: jax.Array) -> jax.Array:
    """Returns, for each score, the fraction of the others below it; equal ones count half."""
    ordered = jnp.sort(others)
    below = jnp.searchsorted(ordered, scores, side="left")
    not_above = jnp.searchsorted(ordered, scores, side="right")
    return (below + not_above) / (2 * ordered.size)


def average_precision(
    in_scores: jax.Array, out_scores: jax.Array, *, positive: Literal["in", "out"] = "in"
) -> jax.Array:
    r"""Returns the area under the precision-recall curve (AUPR), a sum without interpolation.

    .. math::
        \sum_k (R_k - R_{k-1}) P_k
        = \frac1n \sum_{i \in \mathrm{in}}
          \frac{\#\{\mathrm{in} \ge s_i\}}{\#\{\mathrm{in} \ge s_i\} + \#\{\mathrm{out} \ge s_i\}}

    over the distinct scores as thresholds k, so that equal scores enter together. Unlike ``auroc``
    it depends on the sizes of the sets. A score without information gets about n / (n + m), or
    m / (n + m) with the others as positives. Compare it at equal sizes only.

    Args:
      in_scores, out_scores: as for ``auroc``.
      positive: class that counts as found: "in", or "out", for which both sets change places and
        scores their sign (static).

    Returns:
      Scalar in [0, 1]; inside ``jit`` NaN if a score is NaN.

    Source: Davis & Goadrich 2006; the same definition as scikit-learn's.

    Example:
      >>> float(average_precision(jnp.array([3.0, 1.0]), jnp.array([0.0, 2.0])))
      0.8333333730697632
    """
    in_scores, out_scores = _check_scores(in_scores, out_scores, positive)
    hits = _count_at_least(in_scores, in_scores)
    false_alarms = _count_at_least(out_scores, in_scores)
    return _nan_where_nan(jnp.mean(hits / (hits + false_alarms)), in_scores, out_scores)


def fpr_at_tpr(
    in_scores: jax.Array,
    out_scores: jax.Array,
    *,
    tpr: float | jax.Array = 0.95,
    positive: Literal["in", "out"] = "in",
) -> jax.Array:
    """Returns FPR@95: the fraction of the others accepted with 95% of in-distribution images.

    The threshold is the highest in-distribution score that a fraction ``tpr`` of in-distribution
    scores reaches. The result is the fraction of the others that reach it. With ``positive="out"``
    it is the fraction of in-distribution images that are refused with 95% of the others. The two
    are different points of the ROC curve.

    Args:
      in_scores, out_scores: as for ``auroc``.
      tpr: in (0, 1].
      positive: as for ``average_precision``.

    Returns:
      Scalar in [0, 1], small is good; inside ``jit`` NaN if a score is NaN.

    Source: Hendrycks & Gimpel 2017; Liang, Li & Srikant 2018: "in". Zhang et al. 2023, OpenOOD
    v1.5: "out". Without interpolation.

    Example:
      >>> float(fpr_at_tpr(jnp.array([3.0, 2.0, 1.0, 0.0]), jnp.array([0.5, 1.5]), tpr=0.75))
      0.5
    """
    check_fraction("tpr", tpr)
    check_positive("tpr", tpr)
    in_scores, out_scores = _check_scores(in_scores, out_scores, positive)
    # Compares with k / n, because the rounding of n * tpr can require one score more.
    recall = jnp.asarray(np.arange(1, in_scores.size + 1) / in_scores.size, in_scores.dtype)
    num_above = jnp.sum(recall < jnp.asarray(tpr, recall.dtype))
    threshold = jnp.sort(in_scores)[in_scores.size - 1 - num_above]
    rate = _count_at_least(out_scores, threshold) / out_scores.size
    return _nan_where_nan(rate, in_scores, out_scores)


def ood_scores(
    logits_fn: Callable[[jax.Array], jax.Array], images: jax.Array
) -> dict[str, jax.Array]:
    r"""Returns three scores of each image, high if the classifier, as an energy model, knows it.

    - ``"log_density"``: :math:`\log \sum_k e^{f_k(x)}`, the joint energy model's log p(x) up to a
      constant that is the same for all images; nats.
    - ``"max_probability"``: the largest softmax probability, in (0, 1].
    - ``"negative_score_norm"``: minus the Euclidean norm, over an image's pixels and channels, of
      the score :math:`\nabla_x \log p(x)`; nats per unit of the pixels' range.

    All scores come from one evaluation and one gradient of the batch. The gradient is of the sum of
    log densities, so an image's logits must depend on that image alone: batch normalisation must
    use running statistics here.

    Args:
      logits_fn: (N, ...) to (N, classes), parameters bound.
      images: (N, ...), floating point and finite, as the network takes them; usually (N, H, W, C).
        For many images, call this (jitted) on batches and concatenate.

    Returns:
      A dict of three arrays of shape (N,), float32 at least.

    Source: Grathwohl et al. 2020 (JEM), arXiv:1912.03263, section 5.3.

    Example:
      >>> scores = ood_scores(lambda x: jnp.concatenate([x, 0.0 * x], axis=-1), jnp.zeros((1, 1)))
      >>> {name: round(float(score[0]), 4) for name, score in scores.items()}
      {'log_density': 0.6931, 'max_probability': 0.5, 'negative_score_norm': -0.5}
    """
    images = jnp.asarray(images)
    check_floating("images", images)
    if images.ndim < 2 or not images.size:
        raise ValueError(
            f"images must have shape (N, ...) with at least one image, got {images.shape}. "
            "For a single image pass images[None]."
        )
    check_values("images", images, np.isfinite, "be finite")

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


def _check_scores(
    in_scores: jax.Array, out_scores: jax.Array, positive: Literal["in", "out"] = "in"
) -> tuple[jax.Array, jax.Array]:
    """Returns scores of the positive class and of the other, high for the first."""
    if positive not in ("in", "out"):
        raise ValueError(f"positive must be 'in' or 'out', got {positive=}.")
    in_scores, out_scores = map(jnp.asarray, _rank_scores(in_scores, out_scores))
    for name, scores in {"in_scores": in_scores, "out_scores": out_scores}.items():
        if scores.ndim != 1 or not scores.size:
            raise ValueError(
                f"{name} must have shape (n,) with one score per image and at least one image, "
                f"got {scores.shape}."
            )
        check_values(name, scores, lambda s: ~np.isnan(s), "hold no NaN")
    dtype = jnp.promote_types(jnp.promote_types(in_scores.dtype, out_scores.dtype), jnp.float32)
    in_scores, out_scores = in_scores.astype(dtype), out_scores.astype(dtype)
    return (in_scores, out_scores) if positive == "in" else (-out_scores, -in_scores)


def _rank_scores(*scores: Any) -> tuple[Any, ...]:
    """Returns ranks of NumPy's float64 scores, because some would tie in float32."""
    if any(isinstance(s, Tracer) for s in scores):
        return scores
    arrays = [np.asarray(s) for s in scores]
    wide = ["int32", "int64", "uint32", "uint64"]
    if jnp.asarray(0.5).dtype != np.float64:
        wide.append("float64")
    if not any(a.dtype.name in wide for a in arrays) or any(
        a.ndim != 1 or np.isnan(a).any() for a in arrays
    ):  # refused below
        return scores
    _, ranks = np.unique(np.concatenate(arrays), return_inverse=True)
    return tuple(np.split(ranks, [len(arrays[0])]))


def _count_at_least(scores: jax.Array, thresholds: jax.Array) -> jax.Array:
    """Counts the ``scores`` that reach each of ``thresholds``."""
    return scores.size - jnp.searchsorted(jnp.sort(scores), thresholds, side="left")


def _nan_where_nan(result: jax.Array, in_scores: jax.Array, out_scores: jax.Array) -> jax.Array:
    """Returns NaN for scores with NaN: sorting would rank NaN as a perfect score."""
    has_nan = jnp.any(jnp.isnan(in_scores)) | jnp.any(jnp.isnan(out_scores))
    return jnp.where(has_nan, jnp.nan, result)
