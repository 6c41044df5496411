"""Distances between two sets of features, by pairs of rows. Host code in NumPy, float64."""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from jax.typing import ArrayLike

from ebmjax._checks import check_positive
from ebmjax.metrics._generation import check_features

KernelFn = Callable[[np.ndarray, np.ndarray], np.ndarray]

ROWS = 1024
"""Number of rows of a Gram matrix held at a time."""
MEDIAN_ROWS = 1000
"""Number of rows of each side that the median rule uses."""


def kernel_distance(
    features_a: ArrayLike,
    features_b: ArrayLike,
    *,
    kernel: Literal["polynomial", "rbf"] = "polynomial",
    bandwidth: float | None = None,
) -> float:
    r"""Returns an unbiased estimate of the squared maximum mean discrepancy. Host code, float64.

    .. math::
        \frac{\sum_{i \ne j} k(x_i, x_j)}{n (n-1)} + \frac{\sum_{i \ne j} k(y_i, y_j)}{m (m-1)}
        - \frac{2}{n m} \sum_{i, j} k(x_i, y_j)

    It is unbiased at every size, so it needs no extrapolation and can be negative if both sides
    have one distribution. Gram matrices are made 1,024 rows at a time; time grows with (n + m)^2 d.

    Args:
      features_a, features_b: (n, d) and (m, d), n and m >= 2.
      kernel: ``"polynomial"``, ``(x.y / d + 1)^3``, that of KID; or ``"rbf"``,
        ``exp(-|x - y|^2 / (2 bandwidth^2))``.
      bandwidth: of ``"rbf"``; None is the median distance within both sides together (first 1,000
        rows of each), unless that is 0. Only numbers at one bandwidth compare, so give one for a
        table. The thermodynamic-integration thesis's is ``sqrt(d / 2)``.

    It is KID only with the 2015 Inception-v3's features and the polynomial kernel.

    Source: Gretton et al. 2012, "A Kernel Two-Sample Test", equation 3; Binkowski et al. 2018,
    "Demystifying MMD GANs".
    """
    a, b = check_sides(features_a=features_a, features_b=features_b)
    kernel_fn = make_kernel(a, b, kernel, bandwidth)
    between = sum(kernel_fn(a[i : i + ROWS], b).sum() for i in range(0, len(a), ROWS))
    within = _mean_over_pairs(a, kernel_fn) + _mean_over_pairs(b, kernel_fn)
    return float(within - 2 * between / (len(a) * len(b)))


def kernel_distances(
    features: ArrayLike, reference: ArrayLike, parts: np.ndarray, *, within: float | None = None
) -> np.ndarray:
    """Returns ``kernel_distance`` with its polynomial kernel, of each part from the reference.

    Args:
      features: (n, d).
      reference: (m, d), features that the parts are compared with.
      parts: (..., n) bool, whether a row is in the part.
      within: the mean of the kernel over pairs of the reference, if it is known.

    Returns:
      (...), float64; NaN for parts of fewer than two images.
    """
    x, y = check_sides(features=features, reference=reference)
    flat = parts.reshape(-1, parts.shape[-1]).astype(np.float64)
    sizes = flat.sum(axis=1)
    pairs, between = np.zeros((2, len(flat)))
    for start in range(0, len(x), ROWS):
        block = slice(start, start + ROWS)
        gram = _cubic_kernel(x[block], x)
        gram[np.arange(len(gram)), np.arange(len(gram)) + start] = 0.0
        pairs += np.sum((flat[:, block] @ gram) * flat, axis=1)
        between += flat[:, block] @ _cubic_kernel(x[block], y).mean(axis=1)
    within = mean_kernel(y) if within is None else within
    with np.errstate(divide="ignore", invalid="ignore"):
        found = pairs / (sizes * (sizes - 1)) - 2 * between / sizes + within
    return np.where(sizes < 2, np.nan, found).reshape(parts.shape[:-1])


def mean_kernel(features: np.ndarray) -> float:
    """Returns the mean of KID's kernel over all pairs of different rows of (n, d) features."""
    return float(_mean_over_pairs(check_features("features", features), _cubic_kernel))


def energy_distance(samples_a: ArrayLike, samples_b: ArrayLike) -> float:
    r"""Returns the distance between two laws, from samples of each. Host code, float64.

    .. math::
        D = \sqrt{2\, \overline{|a_i - b_j|} - \overline{|a_i - a_j|} - \overline{|b_i - b_j|}}

    with Euclidean norms and means over all pairs, including a sample with itself. It is 0 only
    between equal laws. Samples of one law have a positive distance: E[D^2] is the mean distance of
    two draws times ``1 / n + 1 / m``. Its unit is the square root of the samples'.

    Args:
      samples_a, samples_b: (n, d) and (m, d), n and m >= 2, finite, in the same units.

    Source: Székely & Rizzo 2013, "Energy statistics".
    """
    a, b = check_sides(samples_a=samples_a, samples_b=samples_b)
    mean = lambda x, y: np.mean([np.mean(np.linalg.norm(y - row, axis=1)) for row in x])  # noqa: E731
    return math.sqrt(max(2 * mean(a, b) - mean(a, a) - mean(b, b), 0.0))


def check_sides(**sides: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Returns both sides' checked features; raises ValueError unless they have one dimension."""
    (name_a, a), (name_b, b) = ((k, check_features(k, one)) for k, one in sides.items())
    if a.shape[1] != b.shape[1]:
        raise ValueError(
            f"both sides need rows of one length, as of one extractor: {name_a} has shape "
            f"{a.shape}, {name_b} {b.shape}."
        )
    return a, b


def make_kernel(a: np.ndarray, b: np.ndarray, kernel: str, bandwidth: float | None) -> KernelFn:
    """Returns the kernel of all rows of x (n, d) and all rows of y (m, d), (n, m)."""
    if kernel not in ("polynomial", "rbf"):
        raise ValueError(f"kernel must be 'polynomial' or 'rbf', got kernel={kernel!r}.")
    if kernel == "polynomial":
        if bandwidth is not None:
            raise ValueError(f"only kernel='rbf' has a bandwidth, got bandwidth={bandwidth}.")
        return _cubic_kernel
    if bandwidth is None:
        rows = np.concatenate([a[:MEDIAN_ROWS], b[:MEDIAN_ROWS]])
        distances = np.sqrt(_squared_distances(rows, rows))
        bandwidth = float(np.median(distances[np.triu_indices(len(rows), 1)]))
        if bandwidth == 0:
            raise ValueError(
                "features_a and features_b must differ in more than half of their pairs for the "
                "median rule, whose distance is 0 here; give a bandwidth."
            )
    check_positive("bandwidth", bandwidth)
    width = 2 * bandwidth**2
    return lambda x, y: np.exp(-_squared_distances(x, y) / width)


def _cubic_kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns KID's kernel (n, m) of all rows of x (n, d) and all rows of y (m, d)."""
    return (x @ y.T / x.shape[1] + 1) ** 3


def _squared_distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns (n, m), from all rows of x (n, d) to all rows of y (m, d)."""
    origin = y.mean(axis=0)  # distances do not change with it, their rounding does
    x, y = x - origin, y - origin
    squared = np.sum(x**2, 1)[:, None] + np.sum(y**2, 1)[None] - 2 * x @ y.T
    return np.maximum(squared, 0)


def _mean_over_pairs(rows: np.ndarray, kernel_fn: KernelFn) -> float:
    """Returns the mean of a kernel over all pairs of different rows (n, d)."""
    total = 0.0
    for start in range(0, len(rows), ROWS):
        gram = kernel_fn(rows[start : start + ROWS], rows)
        total += gram.sum() - gram.trace(offset=start)
    return total / (len(rows) * (len(rows) - 1))
