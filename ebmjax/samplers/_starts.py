"""Laws that chains start from: uniform, Gaussian, and informative (one Gaussian a class)."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax._axes import row_of
from ebmjax._checks import (
    check_at_least,
    check_broadcasts,
    check_finite,
    check_interval,
    check_labels,
    check_positive,
    trim,
)
from ebmjax._stored import AT_ONCE, is_stored, map_rows
from ebmjax.types import Key, PyTree

StartFn = Callable[[Key, jax.Array], PyTree]
"""``start_fn(key, label) -> position``: one start of one chain, given a class (int32 scalar).

``jax.vmap(start_fn)(keys, labels)`` gives many. Those made here are PyTrees with their constants as
leaves: pass one to ``jit`` as an argument to keep large constants out of the program.
"""


def uniform_start(shape: tuple[int, ...], low: Any, high: Any) -> StartFn:
    """Returns starts of independent uniform entries on [low, high); the label is ignored.

    Args:
      shape: of one position.
      low, high: ends, in the position's units: numbers, or arrays of shape ``shape``.

    Example:
      >>> start_fn = uniform_start((8, 8, 1), -1.0, 1.0)
      >>> start_fn(jax.random.key(0), jnp.int32(0)).shape
      (8, 8, 1)
    """
    check_interval(low, high)
    for name, end in {"low": low, "high": high}.items():
        check_finite(name, end)
        check_broadcasts(name, end, jax.ShapeDtypeStruct(shape, float))
    ends = [jnp.broadcast_to(jnp.asarray(end, float), shape) for end in (low, high)]
    check_finite("high - low", ends[1] - ends[0])  # which the draw is scaled by
    return jax.tree_util.Partial(functools.partial(_draw_uniform, tuple(shape)), low, high)


def gaussian_start(shape: tuple[int, ...], mean: Any = 0.0, scale: Any = 1.0) -> StartFn:
    """Returns starts of independent N(mean, scale^2) entries; the label is ignored.

    Args:
      shape: of one position.
      mean: a number, or an array of shape ``shape``.
      scale: standard deviation, in the same forms.
    """
    check_positive("scale", scale)
    for name, value in {"mean": mean, "scale": scale}.items():
        check_broadcasts(name, value, jax.ShapeDtypeStruct(shape, float))
    return jax.tree_util.Partial(functools.partial(_draw_gaussian, tuple(shape)), mean, scale)


def informative_start(
    images: Any,
    labels: Any,
    num_classes: int,
    *,
    jitter: float = 1e-4,
    low: float = -1.0,
    high: float = 1.0,
) -> StartFn:
    """Returns starts with a class's mean and covariance, Gaussian but clipped to the box.

    The covariance is the maximum-likelihood one (division by n) of the flattened images, plus
    ``jitter`` times the identity: fewer images than pixels have no density otherwise. Its Cholesky
    factor is taken once, on the host in float64. Because of clipping, a draw is Gaussian only if
    the box is wide. JEM++'s box is not wide; its draws are clipped in the same way.

    Args:
      images: (n, *shape), floating point, un-augmented, within the box; some are read at a time.
      labels: (n,) integers in [0, num_classes).
      num_classes: each with one image at least.
      jitter: variance added to every pixel, in squared units of the images.
      low, high: ends of the box.

    Returns:
      A ``StartFn`` that holds num_classes * d * (d + 1) numbers on the device, with d pixels an
      image. Ten
      classes of 32 x 32 x 3 in float32 take 377 MB.

    Source: JEM++ (Yang & Ji 2021), informative initialisation, as SADA-JEM uses it.

    Example:
      >>> images = np.linspace(-1.0, 1.0, 24).reshape(6, 2, 2, 1)
      >>> start_fn = informative_start(images, [0, 1, 0, 1, 0, 1], 2)
      >>> start_fn(jax.random.key(0), jnp.int32(1)).shape
      (2, 2, 1)
    """
    check_positive("jitter", jitter)
    check_interval(low, high)
    if is_stored(images):
        images = map_rows(lambda some: _check_images(some, low, high), images, images.dtype)
    else:
        images = _check_images(images, low, high)
    labels = np.asarray(labels)
    _check_labels(labels, len(images), num_classes)

    moments = [
        _class_moments(images, np.flatnonzero(labels == label), jitter)
        for label in range(num_classes)
    ]
    means, factors = (jnp.stack(arrays) for arrays in zip(*moments, strict=True))
    draw = functools.partial(_draw_informative, images.shape[1:])
    return jax.tree_util.Partial(draw, means, factors, low, high)


def _draw_uniform(shape: tuple[int, ...], low: Any, high: Any, key: Key, label: Any) -> jax.Array:
    del label
    return jax.random.uniform(key, shape, minval=low, maxval=high)


def _draw_gaussian(shape: tuple[int, ...], mean: Any, scale: Any, key: Key, label: Any) -> PyTree:
    del label
    return mean + scale * jax.random.normal(key, shape)


def _draw_informative(
    shape: tuple[int, ...], means: Any, factors: Any, low: Any, high: Any, key: Key, label: Any
) -> jax.Array:
    mean, factor = row_of(means, label), row_of(factors, label)
    draw = mean + factor @ jax.random.normal(key, mean.shape, mean.dtype)
    return jnp.clip(draw, low, high).astype(mean.dtype).reshape(shape)


def _class_moments(images: Any, places: np.ndarray, jitter: float) -> tuple[jax.Array, jax.Array]:
    """Returns mean and Cholesky factor of the images at ``places``, in the default float type.

    They are computed in float64, from sums over parts, each relative to the mean of the first part.
    """
    origin: Any = None
    total: Any = 0.0
    squares: Any = 0.0
    for first in range(0, len(places), AT_ONCE):
        some = images[places[first : first + AT_ONCE]]
        flat = some.reshape(len(some), -1).astype(np.float64)
        origin = flat.mean(axis=0) if origin is None else origin
        flat -= origin
        total = total + flat.sum(axis=0)
        squares = squares + flat.T @ flat
    shift = total / len(places)
    mean = origin + shift
    covariance = squares / len(places) - np.outer(shift, shift)
    covariance[np.diag_indices_from(covariance)] += jitter
    default = jnp.result_type(float)
    return jnp.asarray(mean, default), jnp.asarray(np.linalg.cholesky(covariance), default)


def _check_images(images: Any, low: float, high: float) -> np.ndarray:
    images = np.asarray(images)
    if not jnp.issubdtype(images.dtype, jnp.floating):
        raise TypeError(
            f"images must be floating point in [{low}, {high}], got dtype {images.dtype}. "
            "Scale them first, for bytes to [-1, 1] by images / 127.5 - 1."
        )
    if images.ndim < 2 or not images.size:
        raise ValueError(f"images must have shape (n, ...) with n > 0, got shape {images.shape}.")
    if not np.all((images >= low) & (images <= high)):
        raise ValueError(
            f"images must lie in [low, high] = [{low}, {high}] without NaN, got values from "
            f"{images.min()} to {images.max()}, {np.isnan(images).sum()} NaN. Pass the range they "
            "have as low and high, or scale them."
        )
    return images


def _check_labels(labels: np.ndarray, num_images: int, num_classes: int) -> None:
    check_at_least("num_classes", num_classes, 1)
    check_labels("labels", labels, (num_images,), num_classes)
    empty = np.flatnonzero(np.bincount(labels, minlength=num_classes) == 0)
    if len(empty):
        raise ValueError(
            f"labels must hold every class at least once, got none of {trim(empty.tolist())} out "
            f"of num_classes={num_classes}."
        )
