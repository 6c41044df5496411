"""Frechet distance and inception score of generated images, also at infinitely many images.

Features come from a device in batches. Their statistics are taken on the host by NumPy in float64,
because float32 loses differences of traces over 2048 dimensions. So nothing here can be jitted.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from ebmjax._checks import check_at_least
from ebmjax._stored import StoredRows
from ebmjax.types import PyTree


class FeatureMoments(NamedTuple):
    """Mean (d,) and unbiased covariance (d, d) of features, float64, for the Frechet distance."""

    mean: np.ndarray
    cov: np.ndarray


def extract_in_batches(
    features_fn: Callable[[Any], PyTree], images: ArrayLike, batch_size: int
) -> PyTree:
    """Returns features of all images, computed ``batch_size`` at a time, as NumPy arrays.

    Copies of the last image fill up the last batch and are dropped, so ``features_fn`` sees one
    shape and compiles once.

    Args:
      features_fn: an extractor, ``(batch_size, H, W, C) -> (batch_size, d)`` or a PyTree of such
        outputs. Every image's features must depend on that image alone.
      images: (N, H, W, C), uint8 for extractors of natural images.
      batch_size: images a call.
    """
    check_at_least("batch_size", batch_size, 1)
    rows: Any = images if isinstance(images, StoredRows) else np.asarray(images)
    if rows.ndim < 2 or len(rows) == 0:
        raise ValueError(f"images must have shape (N, H, W, C), N >= 1, got shape {rows.shape}.")
    batches = []
    for start in range(0, len(rows), batch_size):
        batch = rows[start : start + batch_size]
        missing = batch_size - len(batch)
        filled = np.concatenate([batch, np.repeat(batch[-1:], missing, axis=0)])
        features = jax.tree.map(np.asarray, features_fn(filled))
        shapes = [leaf.shape for leaf in jax.tree.leaves(features)]
        if not shapes or any(shape[:1] != (batch_size,) for shape in shapes):
            raise ValueError(
                f"features_fn must return one row an image: {batch_size} of them, got shapes "
                f"{shapes}."
            )
        batches.append(features)
    return jax.tree.map(lambda *parts: np.concatenate(parts)[: len(rows)], *batches)


def feature_moments(features: ArrayLike) -> FeatureMoments:
    """Returns mean and unbiased covariance of features (n, d), n >= 2. Host code, float64."""
    rows = check_features("features", features)
    return FeatureMoments(rows.mean(0), np.atleast_2d(np.cov(rows, rowvar=False)))


def check_features(name: str, features: ArrayLike) -> np.ndarray:
    """Returns features in float64; raises ValueError unless (n, d) with n >= 2, and finite."""
    rows = np.asarray(features, np.float64)
    if rows.ndim != 2 or rows.shape[0] < 2 or rows.shape[1] < 1:
        raise ValueError(
            f"{name} must have shape (n, d), one row an image and at least two, "
            f"got shape {rows.shape}."
        )
    if not np.isfinite(rows).all():
        raise ValueError(
            f"{name} must be finite; {np.sum(~np.isfinite(rows).all(1))} of {len(rows)} rows are "
            "not. Leave no diverged sample out silently: count them, and say so."
        )
    return rows


def frechet_distance(
    mean_a: ArrayLike, cov_a: ArrayLike, mean_b: ArrayLike, cov_b: ArrayLike
) -> float:
    r"""Returns the squared Frechet (2-Wasserstein) distance of two Gaussians. Host code, float64.

    .. math::
        |m_a - m_b|^2 + \mathrm{tr}\, S_a + \mathrm{tr}\, S_b
        - 2\, \mathrm{tr} (S_a^{1/2} S_b S_a^{1/2})^{1/2}

    The last trace is the sum of the singular values of ``F_a^T F_b``, where ``S = F F^T`` from the
    eigenvectors of S. So singular covariances (fewer images than dimensions) are as exact as others
    and need nothing added to their diagonals. It is FID only with the 2015 Inception-v3's features.

    Args:
      mean_a, mean_b: means of both distributions, shape (d,).
      cov_a, cov_b: covariances, shape (d, d), symmetric and without negative eigenvalues.

    Source: Dowson and Landau 1982; Heusel et al. 2017, equation 6.
    """
    mean_a, cov_a = _check_moments("a", mean_a, cov_a)
    mean_b, cov_b = _check_moments("b", mean_b, cov_b)
    if mean_a.shape != mean_b.shape:
        raise ValueError(
            f"both sides need features of one extractor: mean_a has shape {mean_a.shape}, mean_b "
            f"{mean_b.shape}."
        )
    product = _covariance_factor(cov_a).T @ _covariance_factor(cov_b)
    cross = np.linalg.svd(product, compute_uv=False).sum()
    shift = np.sum((mean_a - mean_b) ** 2)
    return float(shift + np.trace(cov_a) + np.trace(cov_b) - 2 * cross)


def frechet_distances(
    features: ArrayLike, reference: FeatureMoments, parts: np.ndarray
) -> np.ndarray:
    r"""Returns the Frechet distance of each part of a sample from the reference.

    With :math:`F F^T` the reference's covariance and X the centred rows of a part, the last trace
    of ``frechet_distance`` is the sum of the singular values of :math:`X F / \sqrt{n - 1}`: roots
    of the eigenvalues of a Gram matrix, of rows or of columns, whichever is smaller.

    Args:
      features: (n, d).
      reference: moments that the parts are compared with.
      parts: (..., n) bool, whether a row is in the part.

    Returns:
      (...), float64; NaN for parts of fewer than two images.
    """
    rows = check_features("features", features) - reference.mean  # small numbers round less
    projected = rows @ _covariance_factor(reference.cov)

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


def _check_moments(side: str, mean: ArrayLike, cov: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    mean, cov = np.asarray(mean, np.float64), np.asarray(cov, np.float64)
    if mean.ndim != 1 or mean.size < 1 or cov.shape != 2 * mean.shape:
        raise ValueError(
            f"mean_{side} must have shape (d,) and cov_{side} (d, d), got shapes {mean.shape} and "
            f"{cov.shape}."
        )
    is_finite = np.isfinite(mean).all() and np.isfinite(cov).all()
    if not is_finite or np.abs(cov - cov.T).max() > 1e-3 * np.abs(cov).max():
        raise ValueError(f"mean_{side} and cov_{side} must be finite, and cov_{side} symmetric.")
    return mean, cov


def _covariance_factor(cov: np.ndarray) -> np.ndarray:
    """Returns F (d, rank) with ``F F^T = cov``; eigenvalues within rounding of zero are zero."""
    values, vectors = np.linalg.eigh((cov + cov.T) / 2)
    if values[0] < -1e-3 * values[-1]:
        raise ValueError(f"a covariance has the negative eigenvalue {values[0]}.")
    kept = values > len(values) * np.finfo(np.float64).eps * values[-1]
    return vectors[:, kept] * np.sqrt(values[kept])


def inception_score(probabilities: ArrayLike) -> float:
    r"""Returns exp of the mean divergence of each image's classes from all images'. Host code.

    .. math::
        \exp \mathbb{E}_x\, \mathrm{KL}(p(y|x) \,\|\, p(y))

    It is between 1 and the number of classes. Papers average it over ten parts of 5,000 images,
    each with a separate p(y).

    Args:
      probabilities: (n, classes), rows that sum to one: softmax of logits.

    Source: Salimans et al. 2016, "Improved Techniques for Training GANs".
    """
    from scipy.special import rel_entr

    p = np.asarray(probabilities, np.float64)
    # A float32 softmax sums to one up to its classes' rounding; logits do not.
    if p.ndim != 2 or not ((p >= 0).all() and np.allclose(p.sum(1), 1, rtol=0, atol=1e-3)):
        raise ValueError(
            "probabilities must have shape (n, classes), be zero or more and sum to one in every "
            f"row; logits want jax.nn.softmax first. Got shape {p.shape}."
        )
    return float(np.exp(rel_entr(p, p.mean(0)).sum(1).mean()))


def extrapolate_to_infinity(sizes: ArrayLike, values: ArrayLike) -> float:
    """Returns the intercept of the least-squares line of ``values`` over ``1 / sizes``. Host code.

    To first order FID is biased in proportion to 1/N, by an amount that depends on the model. So
    numbers at one N can order models wrongly. KID has no such bias; extrapolation only adds noise.

    Args:
      sizes: (k,), numbers of images, at least two different ones.
      values: (k,), the metric at each size, of a random subset drawn anew.

    Source: Chong and Forsyth 2020, "Effectively Unbiased FID and Inception Score".
    """
    from scipy import stats

    sizes, values = np.asarray(sizes, np.float64), np.asarray(values, np.float64)
    is_valid = np.isfinite(sizes) & (sizes > 0)
    if sizes.ndim != 1 or sizes.shape != values.shape or not is_valid.all():
        raise ValueError(f"sizes must be positive, one for each value, got {sizes=}, {values=}.")
    if len(np.unique(sizes)) < 2 or not np.isfinite(values).all():
        raise ValueError(
            "sizes must hold at least two different ones, and values be finite, got "
            f"{sizes=}, {values=}."
        )
    line: Any = stats.linregress(1 / sizes, values)
    return float(line.intercept)
