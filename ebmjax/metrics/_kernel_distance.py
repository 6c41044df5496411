"""Maximum mean discrepancy between two sets of features: KID. Host code in NumPy, float64."""

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple, get_args

import jax
import numpy as np
from jax.typing import ArrayLike

from ebmjax._checks import check_at_least, check_positive
from ebmjax.metrics._generation import check_features
from ebmjax.types import Key

Kernel = Literal["polynomial", "rbf"]
"""Kernel of a distance between sets of features."""
KernelFn = Callable[[np.ndarray, np.ndarray], np.ndarray]

ROWS = 1024
"""Number of rows of a Gram matrix held at a time."""
MEDIAN_ROWS = 1000
"""Number of rows of each side that the median rule uses."""


class KernelDistance(NamedTuple):
    """A kernel distance and how well it is known.

    Attributes:
      mean: over disjoint subsets, an unbiased estimate of the squared discrepancy.
      standard_error: of that mean.
    """

    mean: float
    standard_error: float


def kernel_distance(
    features_a: ArrayLike,
    features_b: ArrayLike,
    *,
    kernel: Kernel = "polynomial",
    bandwidth: float | None = None,
) -> float:
    r"""Returns an unbiased estimate of the squared maximum mean discrepancy. Host code, float64.

    .. math::
        \frac{\sum_{i \ne j} k(x_i, x_j)}{n (n-1)} + \frac{\sum_{i \ne j} k(y_i, y_j)}{m (m-1)}
        - \frac{2}{n m} \sum_{i, j} k(x_i, y_j)

    It is unbiased at every size, so it needs no extrapolation and can be negative if both sides
    have one distribution. Gram matrices are made 1,024 rows at a time, in 8 * 1024 * max(n, m)
    bytes; time grows with (n + m)^2 d.

    Args:
      features_a, features_b: (n, d) and (m, d), n and m >= 2.
      kernel: ``"polynomial"``, ``(x.y / d + 1)^3``, that of KID; or ``"rbf"``,
        ``exp(-|x - y|^2 / (2 bandwidth^2))``.
      bandwidth: of ``"rbf"``; None is the median distance within both sides together (first 1,000
        rows of each), unless that is 0. Only numbers at one bandwidth compare, so give one for a
        table. The thermodynamic-integration thesis's is ``sqrt(d / 2)``.

    Returns:
      The estimate, which is KID only with the 2015 Inception-v3's features and the polynomial
      kernel.

    Source: Gretton et al. 2012, "A Kernel Two-Sample Test", equation 3; Binkowski et al. 2018,
    "Demystifying MMD GANs".

    Example:
      >>> kernel_distance([[0.0], [0.0]], [[1.0], [1.0]])  # 1 + 2^3 - 2
      7.0
    """
    a, b = check_sides(features_a=features_a, features_b=features_b)
    return _estimate_unbiased(a, b, make_kernel(a, b, kernel, bandwidth))


def kernel_distance_subsets(
    key: Key,
    features_a: ArrayLike,
    features_b: ArrayLike,
    *,
    num_subsets: int = 10,
    subset_size: int = 1000,
    kernel: Kernel = "polynomial",
    bandwidth: float | None = None,
) -> KernelDistance:
    """Returns ``kernel_distance`` over random disjoint subsets, with standard error. Host code.

    Subsets share no image, so their estimates are independent and the standard error is valid. The
    usual hundred overlapping subsets have the same expectation and too small an error.

    Args:
      key: chooses the subsets.
      features_a, features_b: (n, d) and (m, d); n and m at least num_subsets * subset_size.
      num_subsets: at least 2.
      subset_size: rows of either side in a subset, at least 2.
      kernel, bandwidth: as in ``kernel_distance``; one bandwidth for all subsets.
    """
    check_at_least("num_subsets", num_subsets, 2)
    check_at_least("subset_size", subset_size, 2)
    a, b = check_sides(features_a=features_a, features_b=features_b)
    if min(len(a), len(b)) < num_subsets * subset_size:
        raise ValueError(
            f"{num_subsets} disjoint subsets of {subset_size} need {num_subsets * subset_size} "
            f"rows a side, got {len(a)} and {len(b)}; lower num_subsets or subset_size."
        )
    kernel_fn = make_kernel(a, b, kernel, bandwidth)
    shape = (num_subsets, subset_size)
    rows_a, rows_b = (
        np.asarray(jax.random.permutation(k, len(rows)))[: num_subsets * subset_size].reshape(shape)
        for k, rows in zip(jax.random.split(key), (a, b), strict=True)
    )
    estimates = [
        _estimate_unbiased(a[i], b[j], kernel_fn) for i, j in zip(rows_a, rows_b, strict=True)
    ]
    standard_error = np.std(estimates, ddof=1) / np.sqrt(num_subsets)
    return KernelDistance(float(np.mean(estimates)), float(standard_error))


def check_sides(**sides: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Returns both sides' checked features; raises ValueError unless they have one dimension."""
    (name_a, a), (name_b, b) = (
        (name, check_features(name, features)) for name, features in sides.items()
    )
    if a.shape[1] != b.shape[1]:
        raise ValueError(
            f"both sides need rows of one length, as of one extractor: {name_a} has shape "
            f"{a.shape}, {name_b} {b.shape}."
        )
    return a, b


def make_kernel(a: np.ndarray, b: np.ndarray, kernel: str, bandwidth: float | None) -> KernelFn:
    """Returns the kernel of all rows of x (n, d) and all rows of y (m, d), (n, m)."""
    if kernel not in get_args(Kernel):
        raise ValueError(f"kernel must be 'polynomial' or 'rbf', got kernel={kernel!r}.")
    if kernel == "polynomial":
        if bandwidth is not None:
            raise ValueError(f"only kernel='rbf' has a bandwidth, got bandwidth={bandwidth}.")
        return cubic_kernel
    if bandwidth is None:
        rows = np.concatenate([a[:MEDIAN_ROWS], b[:MEDIAN_ROWS]])
        distances = np.sqrt(squared_distances(rows, rows))
        bandwidth = float(np.median(distances[np.triu_indices(len(rows), 1)]))
        if bandwidth == 0:
            raise ValueError(
                "features_a and features_b must differ in more than half of their pairs for the "
                "median rule, whose distance is 0 here; give a bandwidth."
            )
    check_positive("bandwidth", bandwidth)
    return partial(_gaussian, bandwidth)


def cubic_kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns KID's kernel (n, m) of all rows of x (n, d) and all rows of y (m, d)."""
    return (x @ y.T / x.shape[1] + 1) ** 3


def _gaussian(bandwidth: float, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.exp(-squared_distances(x, y) / (2 * bandwidth**2))


def squared_distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns (n, m), from all rows of x (n, d) to all rows of y (m, d)."""
    origin = y.mean(axis=0)  # distances do not change with it, their rounding does
    x, y = x - origin, y - origin
    squared = np.sum(x**2, 1)[:, None] + np.sum(y**2, 1)[None] - 2 * x @ y.T
    return np.maximum(squared, 0)


def _estimate_unbiased(a: np.ndarray, b: np.ndarray, kernel_fn: KernelFn) -> float:
    between = sum(kernel_fn(a[i : i + ROWS], b).sum() for i in range(0, len(a), ROWS))
    within = mean_over_pairs(a, kernel_fn) + mean_over_pairs(b, kernel_fn)
    return float(within - 2 * between / (len(a) * len(b)))


def mean_over_pairs(rows: np.ndarray, kernel_fn: KernelFn) -> float:
    """Returns the mean of a kernel over all pairs of different rows (n, d)."""
    total = 0.0
    for start in range(0, len(rows), ROWS):
        gram = kernel_fn(rows[start : start + ROWS], rows)
        total += gram.sum() - gram.trace(offset=start)
    return total / (len(rows) * (len(rows) - 1))
