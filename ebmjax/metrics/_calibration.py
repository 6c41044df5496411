"""Accuracy, proper scores and calibration of a classifier."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.core import Tracer

from ebmjax._checks import check_at_least, check_labels


class ReliabilityBins(NamedTuple):
    """A reliability diagram of ``num_bins`` bins of equal width.

    Attributes:
      edges: (num_bins + 1,), from 0 to 1; bin b holds the confidences in (edges[b], edges[b + 1]].
      confidence: (num_bins,), the mean confidence in a bin; 0 where it is empty.
      accuracy: (num_bins,), the fraction of correct predictions in a bin; 0 where it is empty.
      count: (num_bins,), int32, how many examples a bin holds.
    """

    edges: jax.Array
    confidence: jax.Array
    accuracy: jax.Array
    count: jax.Array


def reliability_bins(
    probabilities: jax.Array, labels: jax.Array, *, num_bins: int = 20
) -> ReliabilityBins:
    """Returns accuracy against confidence, in bins of the examples' largest probability.

    A calibrated model is right in 80% of the cases in which it is 80% sure. The prediction is the
    first of the most probable classes.

    Args:
      probabilities: (N, classes), rows that sum to 1 within 1e-3 (2e-2 in half precision).
      labels: (N,), integers in [0, classes).
      num_bins: static.

    Returns:
      A ``ReliabilityBins``. Inside ``jit`` values are not checked: a row with NaN makes the last
      bin's confidence, and so the calibration error, NaN.

    Source: Guo, Pleiss, Sun & Weinberger 2017, arXiv:1706.04599, section 2.

    Example:
      >>> probabilities = jnp.array([[0.7, 0.3], [0.2, 0.8]])
      >>> bins = reliability_bins(probabilities, jnp.array([0, 0]), num_bins=2)
      >>> bins.accuracy.tolist(), bins.count.tolist()
      ([0.0, 0.5], [0, 2])
    """
    check_at_least("num_bins", num_bins, 1)
    return _count_bins(*check_probabilities(probabilities, labels), num_bins)


@partial(jax.jit, static_argnums=2, inline=True)
def _count_bins(probabilities: jax.Array, labels: jax.Array, num_bins: int) -> ReliabilityBins:
    confidence = jnp.max(probabilities, axis=-1)
    is_correct = (jnp.argmax(probabilities, axis=-1) == labels).astype(confidence.dtype)
    edges, index = bins_of(confidence, num_bins)
    count = sum_bins(jnp.ones_like(index), index, num_bins).astype(jnp.int32)
    size = jnp.maximum(count, 1)

    def mean(values: jax.Array) -> jax.Array:
        return sum_bins(values, index, num_bins) / size.astype(values.dtype)

    return ReliabilityBins(edges, mean(confidence), mean(is_correct), count)


def sum_bins(values: jax.Array, index: jax.Array, num_bins: int) -> jax.Array:
    """Returns the sum of ``values`` (N,) in each bin, by the index of each one's bin."""
    # XLA adds a segment's values one by one, which loses digits: with a million examples, about
    # 1 % of a mean confidence. It adds a row pairwise.
    is_in_bin = index[None] == jnp.arange(num_bins)[:, None]
    return jnp.sum(jnp.where(is_in_bin, values[None], 0), axis=1)


def expected_calibration_error(
    probabilities: jax.Array, labels: jax.Array, *, num_bins: int = 20
) -> jax.Array:
    r"""Returns the ECE: the gap between accuracy and confidence, averaged over the examples' bins.

    .. math::
        \mathrm{ECE} = \sum_b \frac{n_b}{N} \lvert \mathrm{acc}_b - \mathrm{conf}_b \rvert

    with the bins of ``reliability_bins``: equal width, (lo, hi], by the largest probability. It has
    the same arguments. The scalar is in [0, 1]; papers print it in percent.

    Source: Guo et al. 2017, equation 3; 20 bins as JEM and SADA-JEM.

    Example:
      >>> probabilities = jnp.array([[0.75, 0.25], [0.75, 0.25]])
      >>> float(expected_calibration_error(probabilities, jnp.array([0, 1])))
      0.25
    """
    bins = reliability_bins(probabilities, labels, num_bins=num_bins)
    weight = bins.count / jnp.sum(bins.count)
    return jnp.sum(weight * jnp.abs(bins.accuracy - bins.confidence))


def calibration_gaps(
    probabilities: jax.Array, labels: jax.Array, *, num_bins: int = 20
) -> jax.Array:
    """Returns a number for each example; their mean is the expected calibration error.

    It is correctness (0 or 1) minus confidence, with the sign of that gap in the example's bin.
    ``sampling_error`` and ``paired_difference`` of these numbers take the signs as known (delta
    method). They are a little too large if a bin's gap is within its error. The arguments are those
    of ``reliability_bins``, the result has shape (N,) and lies in [-1, 1].

    Example:
      >>> probabilities = jnp.array([[0.75, 0.25], [0.75, 0.25]])
      >>> calibration_gaps(probabilities, jnp.array([0, 1])).tolist()
      [-0.25, 0.75]
    """
    bins = reliability_bins(probabilities, labels, num_bins=num_bins)
    probabilities, labels = check_probabilities(probabilities, labels)
    confidence = jnp.max(probabilities, axis=-1)
    is_correct = jnp.argmax(probabilities, axis=-1) == labels
    _, index = bins_of(confidence, num_bins)
    return jnp.sign(bins.accuracy - bins.confidence)[index] * (is_correct - confidence)


def bins_of(confidence: jax.Array, num_bins: int) -> tuple[jax.Array, jax.Array]:
    """Returns the bins' edges, and for each confidence the bin that holds it."""
    # NumPy's division gives the float nearest to b / num_bins, so a confidence of 0.15 falls into
    # (0.1, 0.15]. XLA may multiply by an inexact 1 / num_bins.
    edges = jnp.asarray(np.arange(num_bins + 1) / num_bins, confidence.dtype)
    return edges, jnp.clip(jnp.searchsorted(edges, confidence) - 1, 0, num_bins - 1)


def accuracy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Returns the fraction of examples whose largest logit (the first of equals) is the label's.

    Args:
      logits: (N, classes); probabilities also work.
      labels: (N,), integers in [0, classes).

    Returns:
      Scalar in [0, 1]; NaN if a traced logit is NaN.

    Example:
      >>> float(accuracy(jnp.array([[2.0, -1.0], [0.5, 3.0]]), jnp.array([0, 0])))
      0.5
    """
    logits, labels = check_logits(logits, labels)
    # Without this, NaN would count as a row's largest entry, as a class like any other.
    is_right = jnp.argmax(logits, axis=-1) == labels
    return jnp.where(jnp.any(jnp.isnan(logits)), jnp.nan, jnp.mean(is_right))


def negative_log_likelihood(logits: jax.Array, labels: jax.Array) -> jax.Array:
    r"""Returns the mean of :math:`-\log p(y \mid x)`, with p the softmax of the logits.

    Args:
      logits, labels: as in ``accuracy``.

    Returns:
      Scalar, in nats per example; log(classes) for a uniform guess.

    Example:
      >>> round(float(negative_log_likelihood(jnp.zeros((3, 10)), jnp.array([0, 4, 9]))), 4)
      2.3026
    """
    logits, labels = check_logits(logits, labels)
    return jnp.mean(optax.losses.softmax_cross_entropy_with_integer_labels(logits, labels))


def brier_score(probabilities: jax.Array, labels: jax.Array) -> jax.Array:
    r"""Returns the mean squared error of the probabilities, summed over the classes.

    .. math::
        \frac1N \sum_n \sum_k (p_{nk} - [y_n = k])^2

    This is the original score for many classes, between 0 and 2. With two classes it is twice the
    score of one class's probability.

    Args:
      probabilities, labels: as in ``reliability_bins``.

    Source: Brier 1950, equation 2.

    Example:
      >>> float(brier_score(jnp.array([[0.5, 0.5], [1.0, 0.0]]), jnp.array([0, 1])))
      1.25
    """
    probabilities, labels = check_probabilities(probabilities, labels)
    target = jax.nn.one_hot(labels, probabilities.shape[-1], dtype=probabilities.dtype)
    return jnp.mean(jnp.sum(jnp.square(probabilities - target), axis=-1))


def check_values(
    name: str, values: jax.Array, is_valid: Callable[[np.ndarray], Any], requirement: str
) -> None:
    """Raises ValueError, with the first offender, unless every concrete value ``is_valid``."""
    if isinstance(values, Tracer):
        return
    numbers = np.asarray(values)
    offenders = numbers[~is_valid(numbers)]
    if offenders.size:
        raise ValueError(
            f"{name} must {requirement}, got {offenders[0]} "
            f"({offenders.size} such among {numbers.size})."
        )


def check_logits(logits: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    logits, labels = _check_examples("logits", logits, labels)
    hint = "hold no NaN (look for NaN images or parameters)"
    check_values("logits", logits, lambda x: ~np.isnan(x), hint)
    return logits, labels


def check_probabilities(probabilities: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    tolerance = 1e-3 if jnp.asarray(probabilities).dtype.itemsize >= 4 else 2e-2
    probabilities, labels = _check_examples("probabilities", probabilities, labels)
    check_values("probabilities", probabilities, lambda p: p >= 0, "be zero or more")
    hint = "sum to one over the last axis (of logits, take jax.nn.softmax)"
    sums = jnp.sum(probabilities, axis=-1)
    check_values("probabilities", sums, lambda s: np.abs(s - 1) <= tolerance, hint)
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
    return values.astype(jnp.promote_types(values.dtype, jnp.float32)), labels.astype(jnp.int32)
