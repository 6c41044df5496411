"""Distances between two sets of features, by pairs of rows. Host code in NumPy, float64."""

import math
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from jax.typing import ArrayLike

from ebmjax._checks import check_at_least, check_positive
from ebmjax.metrics._generation import check_features

KernelFn = Callable[[np.ndarray, np.ndarray], np.ndarray]

ROWS = 1024
"""Number of rows of a Gram matrix held at a time."""
MEDIAN_ROWS = 1000
"""Number of rows of each side that the median rule uses."""


class ManifoldScores(NamedTuple):
    """Overlap of two sets of features, measured by neighbourhoods: see ``manifold_scores``."""

    precision: float
    recall: float
    density: float
    coverage: float


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
    squared = 2 * _mean_distance(a, b) - _mean_distance(a, a) - _mean_distance(b, b)
    return math.sqrt(max(squared, 0.0))


def _mean_distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.mean([np.mean(np.linalg.norm(b - row, axis=1)) for row in a]))


def manifold_scores(
    generated_features: ArrayLike, reference_features: ArrayLike, *, num_neighbours: int = 5
) -> ManifoldScores:
    r"""Returns precision, recall, density and coverage by neighbours. Host code, float64.

    The ball :math:`B(x)` of an image reaches to the ``num_neighbours``-th nearest *other* image of
    its set, included. With n generated images y and m of the reference x

    .. math::
        \mathrm{precision} = \frac1n \sum_j \Big[y_j \in \bigcup_i B(x_i)\Big], \quad
        \mathrm{recall} = \frac1m \sum_i \Big[x_i \in \bigcup_j B(y_j)\Big],

        \mathrm{density} = \frac{1}{k n} \sum_{i, j} [y_j \in B(x_i)], \quad
        \mathrm{coverage} = \frac1m \sum_i \Big[\exists j: y_j \in B(x_i)\Big].

    All four depend on n, m and k: compare at equal ones. Precision and recall trust outliers, whose
    balls are large. For two samples of one distribution without atoms, the expected density is 1
    and the expected coverage about :math:`1 - 2^{-k}` if n = m.

    Images at a ball's edge (copies, for example) count as inside: radii are larger by the bound of
    rounding. Time grows with (n^2 + m^2 + n m) d.

    Args:
      generated_features: (n, d), n > num_neighbours.
      reference_features: (m, d), m > num_neighbours, of the same extractor.
      num_neighbours: k; 5 in the paper of density and coverage, 3 in that of precision and recall.

    Source: Kynkaanniemi et al. 2019, arXiv:1904.06991, equations 1 and 2; Naeem et al. 2020,
    arXiv:2002.09797, section 3, whose code leaves out images at a ball's edge.
    """
    check_at_least("num_neighbours", num_neighbours, 1)
    generated, reference = check_sides(
        generated_features=generated_features, reference_features=reference_features
    )
    if min(len(generated), len(reference)) <= num_neighbours:
        raise ValueError(
            f"both sides must have more rows than num_neighbours={num_neighbours}, got "
            f"{len(generated)} and {len(reference)}. Give more images, or a lower number."
        )
    # Rounding of distances grows with the norms, which an offset would make large.
    centre = reference.mean(0)
    generated, reference = generated - centre, reference - centre
    generated_radii = _squared_radii(generated, num_neighbours)
    reference_radii = _squared_radii(reference, num_neighbours)
    num_balls = np.empty(len(generated), int)
    is_recalled, is_covered = np.zeros((2, len(reference)), bool)
    for start in range(0, len(generated), ROWS):
        block = slice(start, start + ROWS)
        distances = _squared_distances(generated[block], reference)
        is_in_reference = distances <= reference_radii
        num_balls[block] = is_in_reference.sum(1)
        is_covered |= is_in_reference.any(0)
        is_recalled |= (distances <= generated_radii[block, None]).any(0)
    return ManifoldScores(
        precision=float(np.mean(num_balls > 0)),
        recall=float(np.mean(is_recalled)),
        density=float(np.mean(num_balls) / num_neighbours),
        coverage=float(np.mean(is_covered)),
    )


def _squared_radii(rows: np.ndarray, num_neighbours: int) -> np.ndarray:
    """Returns squared distances (n,) to the ``num_neighbours``-th nearest other row, plus rounding.

    The addition is the rounding of a difference of two squared distances. A squared distance of
    centred rows is accurate within ``(d + 4) eps / 2 (|x| + |y|)^2``. If y lies at x's radius r,
    then |y| is at most |x| + r, and this at most ``3 (d + 4) eps (|x|^2 + r^2)``.
    """
    radii = np.empty(len(rows))
    for start in range(0, len(rows), ROWS):
        block = slice(start, start + ROWS)
        distances = _squared_distances(rows[block], rows)
        # The nearest row is the row itself.
        radii[block] = np.partition(distances, num_neighbours, axis=1)[:, num_neighbours]
    slack = 6 * (rows.shape[1] + 4) * np.finfo(np.float64).eps
    return radii + slack * (np.sum(rows**2, 1) + radii)


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
    return partial(_gaussian, bandwidth)


def _cubic_kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns KID's kernel (n, m) of all rows of x (n, d) and all rows of y (m, d)."""
    return (x @ y.T / x.shape[1] + 1) ** 3


def _gaussian(bandwidth: float, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.exp(-_squared_distances(x, y) / (2 * bandwidth**2))


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
