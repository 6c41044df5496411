"""Extrapolates a metric to infinitely many images. Host code in NumPy, float64."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.typing import ArrayLike

from ebmjax.metrics._generation import check_features
from ebmjax.types import Key


class LineFit(NamedTuple):
    """The least-squares line ``intercept + slope / N``.

    Attributes:
      intercept: the extrapolated value.
      slope: the bias of the metric, times the number of images N.
      standard_error: of the intercept, from the scatter about the line; NaN for two sizes. It is
        too small for ``metric_at_sizes``, whose values share images: repeat the whole for a valid
        one.
    """

    intercept: float
    slope: float
    standard_error: float


def extrapolate_to_infinity(sizes: ArrayLike, values: ArrayLike) -> float:
    """Returns the intercept of the least-squares line of ``values`` over ``1 / sizes``. Host code.

    To first order FID is biased in proportion to 1/N, by an amount that depends on the model. So
    numbers at one N can order models wrongly. KID has no such bias; extrapolation only adds noise.

    Args:
      sizes: (k,), numbers of images, at least two different ones.
      values: (k,), the metric at each size.

    Source: Chong and Forsyth 2020, "Effectively Unbiased FID and Inception Score".

    Example:
      >>> round(extrapolate_to_infinity([1000, 2000, 4000], [13.0, 11.5, 10.75]), 9)
      10.0
    """
    return fit_in_inverse_size(sizes, values).intercept


def fit_in_inverse_size(sizes: ArrayLike, values: ArrayLike) -> LineFit:
    """Returns the line of ``extrapolate_to_infinity`` with slope and standard error. Host code.

    Example:
      >>> fit = fit_in_inverse_size([1, 2, 4], [1.0, 3.0, 2.0])
      >>> round(fit.intercept, 3), round(fit.slope, 3), round(fit.standard_error, 3)
      (3.0, -1.714, 1.309)
    """
    from scipy import stats

    sizes, values = np.asarray(sizes, np.float64), np.asarray(values, np.float64)
    if sizes.ndim != 1 or sizes.shape != values.shape:
        raise ValueError(
            "sizes and values must be two lists of one length, got shapes "
            f"{sizes.shape} and {values.shape}."
        )
    if not ((sizes > 0) & np.isfinite(sizes)).all() or len(np.unique(sizes)) < 2:
        raise ValueError(
            f"sizes must be positive and hold at least two different ones, got sizes={sizes}."
        )
    if not np.isfinite(values).all():
        raise ValueError(f"values must be finite, got values={values}.")
    line: Any = stats.linregress(1 / sizes, values)
    error = line.intercept_stderr if len(sizes) > 2 else np.nan
    return LineFit(float(line.intercept), float(line.slope), float(error))


def metric_at_sizes(
    key: Key,
    metric_fn: Callable[[np.ndarray], float],
    features: ArrayLike,
    sizes: Sequence[int],
) -> np.ndarray:
    """Returns the metric of a random subset of every size, to be extrapolated. Host code.

    Every size draws anew, without replacement.

    Args:
      key: chooses the subsets.
      metric_fn: from the features (N, d) of N images to a number.
      features: (n, d).
      sizes: numbers of images, from 2 to n.

    Returns:
      (len(sizes),) float64.

    Example:
      >>> features = np.arange(12.0).reshape(6, 2)
      >>> metric_at_sizes(jax.random.key(0), len, features, [2, 4, 6]).tolist()
      [2.0, 4.0, 6.0]
    """
    rows = check_features("features", features)
    if not len(sizes) or not all(2 <= size <= len(rows) for size in sizes):
        raise ValueError(f"sizes must lie from 2 to the {len(rows)} images, got sizes={sizes}.")
    keys = jax.random.split(key, len(sizes))
    subsets = (
        np.asarray(jax.random.permutation(k, len(rows)))[:size]
        for k, size in zip(keys, sizes, strict=True)
    )
    return np.array([float(metric_fn(rows[subset])) for subset in subsets])
