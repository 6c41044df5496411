"""Errors of Frechet and kernel distances, by half samples. Host code in NumPy, float64.

A mean's error is the spread of its terms. A Frechet distance is no mean, but its error also shows
in how far the two halves of a sample disagree. Resampling with replacement would repeat images,
which lowers the rank of a covariance and makes the error up to twice too large.
"""

import jax
import numpy as np
from jax.typing import ArrayLike

from ebmjax._checks import check_at_least
from ebmjax.metrics._generation import FeatureMoments, check_features, covariance_factor
from ebmjax.metrics._kernel_distance import ROWS, check_sides, cubic_kernel, mean_over_pairs
from ebmjax.types import Key

NUM_SPLITS = 50
"""Random splits of a sample; an error from them is known to about 10 %."""


def split_in_halves(key: Key, labels: ArrayLike, *, num_splits: int = NUM_SPLITS) -> np.ndarray:
    """Returns random halves of a sample, with as many images of each label in both.

    A sample with fixed numbers of each class varies less than one of random classes, and so must
    its halves. Of an odd number of images of a label, a split leaves one out.

    Args:
      key: chooses the halves. The same key and labels give the same halves: pass one key for two
        samples whose images are pairs.
      labels: (n,), the class of each image; zeros where there are no classes.
      num_splits: at least 1.

    Returns:
      (num_splits, 2, n) bool: whether an image is in the first half, and in the second.

    Example:
      >>> halves = split_in_halves(jax.random.key(0), [0, 0, 0, 1, 1], num_splits=1)
      >>> halves.sum(2).tolist(), halves[:, :, 3:].sum(2).tolist()
      ([[2, 2]], [[1, 1]])
    """
    check_at_least("num_splits", num_splits, 1)
    labels = np.asarray(labels)
    orders = jax.vmap(lambda k: jax.random.permutation(k, len(labels)))
    halves = np.zeros((num_splits, 2, len(labels)), bool)
    for split, order in enumerate(np.asarray(orders(jax.random.split(key, num_splits)))):
        for label in np.unique(labels):
            places = order[labels[order] == label]
            half = len(places) // 2
            halves[split, 0, places[:half]] = halves[split, 1, places[half : 2 * half]] = True
    return halves


def half_sample_error(values: ArrayLike, halves: np.ndarray) -> float:
    r"""Returns the standard error of a number of a whole sample, from its values on halves.

    .. math::
        \sqrt{\frac{1}{4 S} \sum_{s=1}^{S} (v_{s,1} - v_{s,2})^2}

    times the root of the share of images that a split uses. It is exact in expectation for a mean,
    with the labels' numbers of images fixed. What decreases with the square of the number of
    images counts twice, so the error of a distance near its floor is a little too large.

    Args:
      values: (S, 2), the number on both halves of each split. For a difference of two numbers of
        the same images, pass the differences: what both share cancels.
      halves: (S, 2, n), from ``split_in_halves``.

    Returns:
      The error; NaN if halves have fewer than two images.

    Source: half samples of strata: McCarthy 1969, "Pseudo-replication: half samples".

    Example:
      >>> halves = np.array([[[True, False], [False, True]]])
      >>> half_sample_error([[3.0, 1.0]], np.repeat(halves, 2, axis=2))
      1.0
    """
    values = np.asarray(values, np.float64)
    sizes = halves.sum(axis=2)
    if sizes.min() < 2:
        return float("nan")
    share = sizes[0].sum() / halves.shape[2]
    return float(np.sqrt(np.mean((values[:, 0] - values[:, 1]) ** 2) / 4 * share))


def frechet_distances(
    features: ArrayLike, reference: FeatureMoments, parts: np.ndarray
) -> np.ndarray:
    r"""Returns the Frechet distance of each part of a sample from the reference.

    With :math:`F F^T` the reference's covariance and X the centred rows of a part, the last trace
    of ``frechet_distance`` is the sum of the singular values of :math:`X F / \sqrt{n - 1}`. These
    are the roots of the eigenvalues of a Gram matrix, of rows or of columns, whichever is smaller.
    So no root of a matrix is taken, but one of the reference.

    Args:
      features: (n, d).
      reference: moments that the parts are compared with.
      parts: (..., n) bool, whether a row is in the part.

    Returns:
      (...), float64; NaN for parts of fewer than two images. Roots of rounding errors are left:
      about 1e-8 times the root of d, in units of the covariances' traces.

    Example:
      >>> from ebmjax.metrics import feature_moments
      >>> rows = np.array([[0.0, 1.0], [2.0, 0.0], [1.0, 5.0]])
      >>> frechet_distances(rows, feature_moments(rows + 1.0), np.ones((1, 3), bool)).round(6)
      array([2.])
    """
    rows = check_features("features", features) - reference.mean  # small numbers round less
    projected = rows @ covariance_factor("reference.cov", reference.cov)

    def distance(part: np.ndarray) -> float:
        if part.sum() < 2:
            return np.nan
        shift = rows[part].mean(axis=0)
        centred = projected[part] - projected[part].mean(axis=0)
        is_wide = centred.shape[0] < centred.shape[1]
        gram = centred @ centred.T if is_wide else centred.T @ centred
        roots = np.sqrt(np.maximum(np.linalg.eigvalsh(gram), 0.0))
        cross = roots.sum() / np.sqrt(part.sum() - 1)
        traces = np.var(rows[part], axis=0, ddof=1).sum() + np.trace(reference.cov)
        return float(shift @ shift + traces - 2 * cross)

    flat = parts.reshape(-1, parts.shape[-1])
    return np.array([distance(part) for part in flat]).reshape(parts.shape[:-1])


def kernel_distances(
    features: ArrayLike, reference: ArrayLike, parts: np.ndarray, *, within: float | None = None
) -> np.ndarray:
    """Returns ``kernel_distance`` with its polynomial kernel, of each part from the reference.

    Args:
      features: (n, d).
      reference: (m, d), features that the parts are compared with.
      parts: (..., n) bool, whether a row is in the part.
      within: ``mean_kernel(reference)`` if it is known, which takes m^2 d operations.

    Returns:
      (...), float64; NaN for parts of fewer than two images.

    Example:
      >>> kernel_distances([[0.0], [0.0]], [[1.0], [1.0]], np.ones((1, 2), bool))  # 1 + 2^3 - 2
      array([7.])
    """
    x, y = check_sides(features=features, reference=reference)
    flat = parts.reshape(-1, parts.shape[-1]).astype(np.float64)
    sizes = flat.sum(axis=1)
    pairs, between = np.zeros((2, len(flat)))
    for start in range(0, len(x), ROWS):
        block = slice(start, start + ROWS)
        gram = cubic_kernel(x[block], x)
        gram[np.arange(len(gram)), np.arange(len(gram)) + start] = 0.0
        pairs += np.sum((flat[:, block] @ gram) * flat, axis=1)
        between += flat[:, block] @ cubic_kernel(x[block], y).mean(axis=1)
    within = mean_kernel(y) if within is None else within
    with np.errstate(divide="ignore", invalid="ignore"):
        found = pairs / (sizes * (sizes - 1)) - 2 * between / sizes + within
    return np.where(sizes < 2, np.nan, found).reshape(parts.shape[:-1])


def mean_kernel(features: ArrayLike) -> float:
    """Returns the mean of KID's kernel over all pairs of different rows of (n, d) features.

    Example:
      >>> mean_kernel([[0.0], [1.0], [1.0]])  # (1 + 1 + 2^3) / 3
      3.3333333333333335
    """
    x = check_features("features", features)
    return float(mean_over_pairs(x, cubic_kernel))
