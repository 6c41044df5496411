"""A threshold below which an image counts as out of distribution, and how well it is known."""

import math
from typing import NamedTuple

import numpy as np
from jax.typing import ArrayLike


class NoveltyThreshold(NamedTuple):
    """A threshold below which a score counts as out of distribution.

    Attributes:
      low, high: interval of the threshold that has exactly the wanted rate; infinite ends are those
        that so few scores cannot give.
      rate: false-alarm rate that the threshold has in expectation.
      rate_low, rate_high: interval of its false-alarm rate.
    """

    threshold: float
    low: float
    high: float
    rate: float
    rate_low: float
    rate_high: float


def novelty_threshold(
    scores: ArrayLike, rate: float = 0.05, *, confidence: float = 0.95
) -> NoveltyThreshold:
    r"""Returns the threshold that a share ``rate`` of in-distribution images falls below.

    It is the k-th smallest of n scores, with :math:`k = \lfloor rate\,(n + 1) \rfloor`. The share
    of further images of the same law below it then follows the law Beta(k, n + 1 - k), whatever
    the law of the scores is. Its mean k / (n + 1) is at most ``rate``. Equal scores make it
    smaller. Host code.

    Args:
      scores: (n,), high for images that the model finds likely, such as log densities. The images
        must be neither trained on nor chosen by; images held out are.
      rate: false-alarm rate, in (0, 1); n must be at least ``1 / rate - 1``.
      confidence: of both intervals, in (0, 1).

    Returns:
      A ``NoveltyThreshold`` of floats. The interval of the threshold is that of a quantile, by two
      order statistics. Too few scores and NaN are a ValueError.

    Source: Wilks 1941, "Determination of sample sizes for setting tolerance limits"; David &
    Nagaraja 2003, "Order statistics", section 7.1.

    Example:
      >>> found = novelty_threshold(np.arange(99.0), rate=0.1)
      >>> found.threshold, found.rate, round(found.rate_low, 3), round(found.rate_high, 3)
      (9.0, 0.1, 0.05, 0.166)
    """
    from scipy import stats

    values = np.sort(np.asarray(scores, np.float64))
    for name, value in {"rate": rate, "confidence": confidence}.items():
        if not 0 < value < 1:
            raise ValueError(f"{name} must lie between 0 and 1, got {name}={value}.")
    if values.ndim != 1 or np.isnan(values).any():
        got = f"shape {values.shape} and {np.isnan(values).sum()} NaN"
        raise ValueError(f"scores must have shape (n,) and hold no NaN, got {got}.")
    num, tail = len(values), (1 - confidence) / 2
    k = math.floor(rate * (num + 1) + 1e-9)  # 0.1 * 30 is a little less than 3
    if k < 1:
        raise ValueError(
            f"rate={rate:g} needs at least {math.ceil(1 / rate - 1 - 1e-9)} scores, got {num}: "
            "hold more images out, or take a larger rate."
        )
    ends = np.concatenate([[-np.inf], values, [np.inf]])  # ends[i] is the i-th smallest score
    first, last = stats.binom.ppf([tail, 1 - tail], num, rate).astype(int)
    # The rate's quantile lies in [ends[i], ends[j]] if at least i and fewer than j scores are less.
    rates = stats.beta(k, num + 1 - k).ppf([tail, 1 - tail])
    found = ends[k], ends[first], ends[last + 1], k / (num + 1), *rates
    return NoveltyThreshold(*map(float, found))
