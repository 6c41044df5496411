"""Accuracy, proper scores and calibration of a classifier."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.core import Tracer

from ebmjax._checks import check_at_least, check_labels
from ebmjax._precision import at_least_float32


class ReliabilityBins(NamedTuple):
    """Means over the examples of each bin, 0 where it is empty, and their number, (num_bins,).

    Bin b holds the confidences in (edges[b], edges[b + 1]]; edges are (num_bins + 1,).
    """

    edges: jax.Array
    confidence: jax.Array
    accuracy: jax.Array
    count: jax.Array


def reliability_bins(
    probabilities: jax.Array, labels: jax.Array, *, num_bins: int = 20
) -> ReliabilityBins:
    """Returns accuracy against confidence, in bins of the examples' largest probability.

    Args:
      probabilities: (N, classes), rows that sum to 1 within 1e-3 (2e-2 in half precision).
      labels: (N,), integers in [0, classes).
      num_bins: static.

    Returns:
      A ``ReliabilityBins``. Inside ``jit`` values are not checked: a row with NaN makes the last
      bin's confidence, and so the calibration error, NaN.

    Source: Guo, Pleiss, Sun & Weinberger 2017, arXiv:1706.04599, section 2.
    """
    bins, _, _ = _bin_examples(probabilities, labels, num_bins)
    return bins


def _bin_examples(
    probabilities: jax.Array, labels: jax.Array, num_bins: int
) -> tuple[ReliabilityBins, jax.Array, jax.Array]:
    """Returns the bins, and each example's bin and its correctness (0 or 1) minus confidence."""
    check_at_least("num_bins", num_bins, 1)
    probabilities, labels = _check_probabilities(probabilities, labels)
    confidence = jnp.max(probabilities, axis=-1)
    is_correct = (jnp.argmax(probabilities, axis=-1) == labels).astype(confidence.dtype)
    # NumPy's division gives the float nearest to b / num_bins, so a confidence of 0.15 falls into
    # (0.1, 0.15]. XLA may multiply by an inexact 1 / num_bins.
    edges = jnp.asarray(np.arange(num_bins + 1) / num_bins, confidence.dtype)
    index = jnp.clip(jnp.searchsorted(edges, confidence) - 1, 0, num_bins - 1)
    # XLA adds a segment's values one by one, which loses digits: with a million examples, about
    # 1 % of a mean confidence. It adds a row pairwise.
    is_in_bin = index[None] == jnp.arange(num_bins)[:, None]
    count = jnp.sum(is_in_bin, axis=1, dtype=jnp.int32)
    mean, accuracy = (
        jnp.sum(jnp.where(is_in_bin, x[None], 0), axis=1) / jnp.maximum(count, 1).astype(x.dtype)
        for x in (confidence, is_correct)
    )
    return ReliabilityBins(edges, mean, accuracy, count), index, is_correct - confidence


def expected_calibration_error(
    probabilities: jax.Array, labels: jax.Array, *, num_bins: int = 20
) -> jax.Array:
    r"""Returns the ECE: the gap between accuracy and confidence, averaged over the examples' bins.

    .. math::
        \mathrm{ECE} = \sum_b \frac{n_b}{N} \lvert \mathrm{acc}_b - \mathrm{conf}_b \rvert

    with the bins and arguments of ``reliability_bins``; papers print it in percent.

    Source: Guo et al. 2017, equation 3; 20 bins as JEM and SADA-JEM.
    """
    bins = reliability_bins(probabilities, labels, num_bins=num_bins)
    weight = bins.count / jnp.sum(bins.count)
    return jnp.sum(weight * jnp.abs(bins.accuracy - bins.confidence))


def calibration_gaps(
    probabilities: jax.Array, labels: jax.Array, *, num_bins: int = 20
) -> jax.Array:
    """Returns numbers (N,) in [-1, 1], whose mean is the expected calibration error.

    Each is correctness (0 or 1) minus confidence, with the sign of that gap in the example's bin.
    ``sampling_error`` and ``paired_difference`` of them take the signs as known (delta method), and
    are a little too large if a bin's gap is within its error. The arguments are those of
    ``reliability_bins``.

    Example:
      >>> probabilities = jnp.array([[0.75, 0.25], [0.75, 0.25]])
      >>> calibration_gaps(probabilities, jnp.array([0, 1])).tolist()
      [-0.25, 0.75]
    """
    bins, index, gaps = _bin_examples(probabilities, labels, num_bins)
    return jnp.sign(bins.accuracy - bins.confidence)[index] * gaps


def accuracy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Returns the fraction of examples whose largest logit (the first of equals) is the label's.

    It is NaN if a logit is.

    Args:
      logits: (N, classes); probabilities also work.
      labels: (N,), integers in [0, classes).
    """
    logits, labels = _check_examples("logits", logits, labels)
    # Without this, NaN would count as a row's largest entry, as a class like any other.
    is_right = jnp.argmax(logits, axis=-1) == labels
    return jnp.where(jnp.any(jnp.isnan(logits)), jnp.nan, jnp.mean(is_right))


def negative_log_likelihood(logits: jax.Array, labels: jax.Array) -> jax.Array:
    r"""Returns the mean of :math:`-\log p(y \mid x)`, with p the softmax of the logits, in nats.

    The arguments are those of ``accuracy``. A uniform guess has log(classes).

    Example:
      >>> round(float(negative_log_likelihood(jnp.zeros((3, 10)), jnp.array([0, 4, 9]))), 4)
      2.3026
    """
    logits, labels = _check_examples("logits", logits, labels)
    return jnp.mean(optax.losses.softmax_cross_entropy_with_integer_labels(logits, labels))


def brier_score(probabilities: jax.Array, labels: jax.Array) -> jax.Array:
    """Returns the mean squared error of the probabilities, summed over the classes.

    This is the original score for many classes (Brier 1950, equation 2), between 0 and 2. With two
    classes it is twice the score of one class's probability. The arguments are those of
    ``reliability_bins``.

    Example:
      >>> float(brier_score(jnp.array([[0.5, 0.5], [1.0, 0.0]]), jnp.array([0, 1])))
      1.25
    """
    probabilities, labels = _check_probabilities(probabilities, labels)
    target = jax.nn.one_hot(labels, probabilities.shape[-1], dtype=probabilities.dtype)
    return jnp.mean(jnp.sum(jnp.square(probabilities - target), axis=-1))


def _check_probabilities(
    probabilities: jax.Array, labels: jax.Array
) -> tuple[jax.Array, jax.Array]:
    tolerance = 1e-3 if jnp.asarray(probabilities).dtype.itemsize >= 4 else 2e-2
    probabilities, labels = _check_examples("probabilities", probabilities, labels)
    if isinstance(probabilities, Tracer):
        return probabilities, labels
    p = np.asarray(probabilities)
    is_wrong = ~((p >= 0).all(1) & (np.abs(p.sum(1) - 1) <= tolerance))  # NaN is wrong, too
    if is_wrong.any():
        raise ValueError(
            "probabilities must be zero or more and sum to one over the last axis (of logits, take "
            f"jax.nn.softmax), got {p[is_wrong][0]} and {is_wrong.sum() - 1} more such rows."
        )
    return probabilities, labels


def _check_examples(name: str, values: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns ``values`` in float32 or wider and ``labels`` in int32, after checks."""
    values, labels = jnp.asarray(values), jnp.asarray(labels)
    if values.ndim != 2 or not values.size or labels.shape != values.shape[:1]:
        raise ValueError(
            f"{name} must have shape (N, classes) and labels (N,) with N of at least 1, got "
            f"{values.shape} and {labels.shape}. Of one-hot labels, take jnp.argmax(labels, -1)."
        )
    check_labels("labels", labels, values.shape[:1], values.shape[1])
    return at_least_float32(values), labels.astype(jnp.int32)
