"""Temperature scaling, and calibration errors by class, of equal bins and without bias."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax._checks import check_at_least
from ebmjax.metrics._calibration import bins_of, check_logits, check_probabilities, sum_bins

LARGEST, HALVINGS = 1e3, 60
"""Largest temperature that is fitted, inverse of the smallest; and steps of the search."""


class TemperatureFit(NamedTuple):
    """A temperature for logits, above 1 if they are too sure, and its error over the examples."""

    temperature: jax.Array
    standard_error: jax.Array


def fit_temperature(logits: jax.Array, labels: jax.Array) -> TemperatureFit:
    r"""Returns the T that minimises the negative log likelihood of softmax(logits / T).

    The loss is convex in 1 / T, so the zero of its slope is found by halving between 1e-3 and 1e3.
    T does not change which class is the most probable. Fit it on examples that the classifier has
    not learned from, and judge it by others. The arguments are those of ``accuracy``.

    T is at an end of its range if the likelihood has no maximum within, for example if every answer
    is right. The standard error (of Huber's sandwich) is NaN then.

    Source: Guo, Pleiss, Sun & Weinberger 2017, arXiv:1706.04599, section 4.2.

    Example:
      >>> logits = jnp.log(jnp.array([[0.8, 0.2]] * 5))
      >>> fit = fit_temperature(3.0 * logits, jnp.array([0, 0, 0, 0, 1]))
      >>> round(float(fit.temperature), 3)
      3.0
    """
    return _fit(*check_logits(logits, labels))


@jax.jit
def _fit(logits: jax.Array, labels: jax.Array) -> TemperatureFit:
    logits = logits - jnp.take_along_axis(logits, labels[:, None], axis=1)
    slopes = jax.jacfwd(lambda inverse: jax.nn.logsumexp(inverse * logits, axis=1))

    def halve(_: jax.Array, ends: jax.Array) -> jax.Array:
        middle = jnp.mean(ends)
        is_below = jnp.mean(slopes(jnp.exp(middle))) <= 0
        return jnp.where(jnp.stack([is_below, ~is_below]), middle, ends)

    range_ = jnp.log(jnp.asarray([1 / LARGEST, LARGEST], logits.dtype))
    ends = jax.lax.fori_loop(0, HALVINGS, halve, range_)
    inverse = jnp.exp(jnp.mean(ends))
    variance = jnp.mean(jnp.square(slopes(inverse))) / len(logits)
    error = jnp.sqrt(variance) / jnp.mean(jax.jacfwd(slopes)(inverse)) / jnp.square(inverse)
    return TemperatureFit(1 / inverse, jnp.where(jnp.all(ends != range_), error, jnp.nan))


def classwise_calibration_error(
    probabilities: jax.Array, labels: jax.Array, *, num_bins: int = 20
) -> jax.Array:
    r"""Returns the calibration error of every class's probability, averaged over the classes.

    .. math::
        \frac1K \sum_k \sum_b \frac{n_{bk}}{N} \lvert \mathrm{frequency}_{bk} -
        \mathrm{mean\ probability}_{bk} \rvert

    Bins have equal width, as in ``reliability_bins``. ``expected_calibration_error`` sees the
    largest probability alone. With many classes most probabilities are near 0 and the mean is
    small, so compare at one number of classes. It has the same arguments.

    Source: Kull et al. 2019, arXiv:1910.12656, section 2; Nixon et al. 2019, arXiv:1904.01685.

    Example:
      >>> probabilities = jnp.array([[0.75, 0.25], [0.75, 0.25]])
      >>> float(classwise_calibration_error(probabilities, jnp.array([0, 1])))
      0.25
    """
    check_at_least("num_bins", num_bins, 1)
    return _classwise(*check_probabilities(probabilities, labels), num_bins)


@partial(jax.jit, static_argnums=2, inline=True)
def _classwise(probabilities: jax.Array, labels: jax.Array, num_bins: int) -> jax.Array:
    def of_class(label: jax.Array) -> jax.Array:
        p = probabilities[:, label]
        sums = sum_bins((labels == label) - p, bins_of(p, num_bins)[1], num_bins)
        return jnp.sum(jnp.abs(sums)) / len(p)

    return jnp.mean(jax.lax.map(of_class, jnp.arange(probabilities.shape[1])))


def adaptive_calibration_error(
    probabilities: jax.Array, labels: jax.Array, *, num_bins: int = 20
) -> jax.Array:
    """Returns the ECE in bins of as many examples each, sorted by the largest probability.

    Bins of equal width leave most of a confident classifier's examples in the last one. These see
    differences within it. The arguments are those of ``reliability_bins``, with at least
    ``num_bins`` examples.

    Source: Nguyen & O'Connor 2015, arXiv:1508.05154; Nixon et al. 2019, arXiv:1904.01685.

    Example:
      >>> probabilities = jnp.array([[0.75, 0.25], [0.5, 0.5]])
      >>> float(adaptive_calibration_error(probabilities, jnp.array([0, 0]), num_bins=2))
      0.375
    """
    bins = _equal_bins(probabilities, labels, num_bins, 1)
    return jnp.sum(jnp.stack([len(gaps) * jnp.abs(jnp.mean(gaps)) for gaps in bins])) / len(labels)


def calibration_error_without_bias(
    probabilities: jax.Array, labels: jax.Array, *, num_bins: int = 20
) -> jax.Array:
    r"""Returns the squared calibration error, without the bias that few examples give it.

    .. math::
        \sum_b \frac{n_b}{N} \Big( \bar g_b^2 - \frac{s_b^2}{n_b} \Big)

    with g correctness (0 or 1) minus confidence, and its mean and sample variance in a bin. Bins
    hold as many examples each. A perfectly calibrated classifier has 0 in expectation, at every
    number of examples and bins, so the number may be negative. Plain errors of such a classifier
    are above 0 and grow with the bins. Its root, where it is positive, compares with them.

    The arguments are those of ``reliability_bins``, with at least ``2 * num_bins`` examples.

    Source: Kumar, Liang & Ma 2019, arXiv:1909.10155, section 5. The variance is that of g, theirs
    for a confidence that is constant in a bin.

    Example:
      >>> probabilities = jnp.array([[0.75, 0.25]] * 4)
      >>> error = calibration_error_without_bias(probabilities, jnp.array([0, 0, 0, 1]), num_bins=1)
      >>> float(error)  # 0^2 - (1 / 4) / 4
      -0.0625
    """
    bins = _equal_bins(probabilities, labels, num_bins, 2)
    squares = [len(g) * jnp.square(jnp.mean(g)) - jnp.var(g, ddof=1) for g in bins]
    return jnp.sum(jnp.stack(squares)) / len(labels)


def _equal_bins(
    probabilities: jax.Array, labels: jax.Array, num_bins: int, least: int
) -> list[jax.Array]:
    """Returns correctness minus confidence, in bins of as many examples each."""
    check_at_least("num_bins", num_bins, 1)
    probabilities, labels = check_probabilities(probabilities, labels)
    num = len(labels)
    if num < least * num_bins:
        raise ValueError(
            f"num_bins={num_bins} bins of at least {least} need {least * num_bins} examples, got "
            f"{num}: lower num_bins."
        )
    confidence = jnp.max(probabilities, axis=1)
    gaps = (jnp.argmax(probabilities, axis=1) == labels) - confidence
    return jnp.split(gaps[jnp.argsort(confidence)], np.arange(1, num_bins) * num // num_bins)
