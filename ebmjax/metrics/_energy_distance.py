"""Energy distance between two sets of samples. Host code in NumPy, float64."""

import math

import numpy as np
from jax.typing import ArrayLike

from ebmjax.metrics._kernel_distance import check_sides


def energy_distance(samples_a: ArrayLike, samples_b: ArrayLike) -> float:
    r"""Returns the distance between two laws, from samples of each. Host code, float64.

    .. math::
        D = \sqrt{2\, \overline{|a_i - b_j|} - \overline{|a_i - a_j|} - \overline{|b_i - b_j|}}

    with Euclidean norms and means over all pairs, including a sample with itself. There is no
    kernel or bandwidth to choose, and it is 0 only between equal laws. Samples of one law have a
    positive distance: E[D^2] is the mean distance of two draws times ``1 / n + 1 / m``. Compare
    with the score of as many fresh samples.

    Args:
      samples_a, samples_b: (n, d) and (m, d), n and m >= 2, finite, in the same units.

    Returns:
      Zero or more, in the square root of the samples' unit; in one dimension
      ``scipy.stats.energy_distance``. Time grows with (n + m)^2 d, memory with (n + m) d.

    Source: Székely & Rizzo 2013, "Energy statistics".

    Example:
      >>> energy_distance([[0.0], [0.0]], [[3.0], [5.0]])  # sqrt(2 * 4 - 0 - 1)
      2.6457513110645907
    """
    a, b = check_sides(samples_a=samples_a, samples_b=samples_b)
    squared = 2 * _mean_distance(a, b) - _mean_distance(a, a) - _mean_distance(b, b)
    return math.sqrt(max(squared, 0.0))


def _mean_distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.mean([np.mean(np.linalg.norm(b - row, axis=1)) for row in a]))
