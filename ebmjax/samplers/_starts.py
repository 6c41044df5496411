"""Laws that chains start from: uniform, Gaussian, and informative (one Gaussian a class)."""

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax._axes import row_of
from ebmjax._checks import (
    check_at_least,
    check_box,
    check_broadcasts,
    check_finite,
    check_labels,
    check_positive,
    trim,
)
from ebmjax._stored import AT_ONCE, StoredRows, map_rows
from ebmjax.types import Key, PyTree

AT_ONCE_BYTES = 2**27
"""Most memory that draws of a large law take at once, where ``vmap`` draws many."""

StartFn = Callable[[Key, jax.Array], PyTree]
"""``start_fn(key, label) -> position``: one start of one chain, given a class (int32 scalar).

``jax.vmap(start_fn)(keys, labels)`` gives many. Those made here are PyTrees with their constants as
leaves: pass one to ``jit`` as an argument to keep large constants out of the program.
"""


def check_start_fn(start_fn: Any, shapes: PyTree = None) -> None:
    """Raises TypeError or ValueError unless ``start_fn(key, label)`` returns one position.

    ``shapes`` is a PyTree of the position's shapes; None for any.
    """
    contract = "start_fn must be start_fn(key, label) -> position, floating-point arrays"
    if not callable(start_fn):
        raise TypeError(f"{contract}; got a {type(start_fn).__name__}.")
    arguments = inspect.signature(start_fn)
    try:
        arguments.bind(None, None)
    except TypeError as error:
        raise TypeError(f"{contract}; its arguments are {arguments}.") from error
    found = jax.eval_shape(start_fn, jax.random.key(0), jnp.int32(0))
    # A chain may remember whole numbers, too.
    if not any(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(found)):
        raise TypeError(f"{contract}; it returns {found}.")
    got = jax.tree.map(lambda leaf: leaf.shape, found)
    if shapes not in (None, got):
        raise ValueError(f"{contract}, here of shape {shapes}; got {got}.")


def uniform_start(shape: tuple[int, ...], low: Any, high: Any) -> StartFn:
    """Returns starts of independent uniform entries on [low, high); the label is ignored.

    Args:
      shape: of one position.
      low, high: ends, in the position's units: numbers, or arrays of shape ``shape``.
    """
    check_box(low, high, jax.ShapeDtypeStruct(shape, float))
    for name, end in {"low": low, "high": high}.items():
        check_finite(name, end)
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
    ``jitter`` times the identity: fewer images than pixels have no density otherwise. Draws are
    clipped as in JEM++.

    Args:
      images: (n, *shape), un-augmented, floating point within the box, or bytes (uint8), of which 0
        stands for ``low`` and 255 for ``high``; some are read at a time.
      labels: (n,) integers in [0, num_classes).
      num_classes: each with one image at least.
      jitter: variance added to every pixel, in squared units of the box.
      low, high: ends of the box.

    Returns:
      A ``StartFn``. It holds a Cholesky factor for each class, 377 MB for CIFAR-10; or the images,
      where every class has fewer of them than pixels, 154 MB for CIFAR-100 in bytes. Many draws at
      once take ``AT_ONCE_BYTES`` more.

    Source: JEM++ (Yang & Ji 2021), informative initialisation, as SADA-JEM uses it.
    """
    check_positive("jitter", jitter)
    check_box(low, high)
    if isinstance(images, StoredRows):
        images = map_rows(lambda some: _check_images(some, low, high), images, images.dtype)
    else:
        images = _check_images(images, low, high)
    labels = np.asarray(labels)
    check_at_least("num_classes", num_classes, 1)
    check_labels("labels", labels, (len(images),), num_classes)
    default, is_bytes = jnp.result_type(float), images.dtype == np.uint8
    if is_bytes:
        check_finite("high - low, for images in bytes,", high - low)
    unit, offset = ((high - low) / 255, low) if is_bytes else (1.0, 0.0)
    classes = [np.flatnonzero(labels == label) for label in range(num_classes)]
    if empty := [label for label, places in enumerate(classes) if not len(places)]:
        raise ValueError(f"labels must hold every class at least once, got none of {trim(empty)}.")
    most, size = max(map(len, classes)), math.prod(images.shape[1:])
    if most < size:
        rows = np.zeros((num_classes, most, size), np.uint8 if is_bytes else default)
        means = np.zeros((num_classes, size), default)
        for own, mean, places in zip(rows, means, classes, strict=True):
            own[: len(places)] = images[places].reshape(len(places), -1)
            mean[:] = np.mean(own[: len(places)], axis=0, dtype=np.float64) * unit + offset
        counts = jnp.asarray([len(places) for places in classes])
        stored = (jnp.asarray(means), jnp.asarray(rows), counts, unit, offset, jitter)
        draw = _draw_of_images
    else:
        moments = [_class_moments(images, places, unit, offset, jitter) for places in classes]
        stored = tuple(jnp.asarray(np.stack(some), default) for some in zip(*moments, strict=True))
        draw = _draw_of_factor
    drawn = functools.partial(_draw_informative, draw, images.shape[1:])
    return jax.tree_util.Partial(drawn, stored, low, high)


def _draw_uniform(shape: tuple[int, ...], low: Any, high: Any, key: Key, label: Any) -> jax.Array:
    del label
    return jax.random.uniform(key, shape, minval=low, maxval=high)


def _draw_gaussian(shape: tuple[int, ...], mean: Any, scale: Any, key: Key, label: Any) -> PyTree:
    del label
    return mean + scale * jax.random.normal(key, shape)


def _draw_informative(
    draw: Callable[..., jax.Array],
    shape: tuple[int, ...],
    stored: Any,
    low: Any,
    high: Any,
    key: Key,
    label: Any,
) -> jax.Array:
    num_bytes = math.prod(stored[1].shape[1:]) * stored[0].dtype.itemsize
    found = _in_groups(draw, num_bytes)(stored, key, label)
    return jnp.clip(found, low, high).astype(found.dtype).reshape(shape)


def _draw_of_factor(stored: Any, key: Key, label: Any) -> jax.Array:
    mean, factor = (row_of(rows, label) for rows in stored)
    return mean + factor @ jax.random.normal(key, mean.shape, mean.dtype)


def _draw_of_images(stored: Any, key: Key, label: Any) -> jax.Array:
    means, images, counts, unit, offset, jitter = stored
    mean, rows, count = (row_of(some, label) for some in (means, images, counts))
    weight_key, noise_key = jax.random.split(key)
    weights = jax.random.normal(weight_key, (len(rows),), mean.dtype)
    weights = jnp.where(jnp.arange(len(rows)) < count, weights, 0.0) / jnp.sqrt(count)
    noise = jax.random.normal(noise_key, mean.shape, mean.dtype)
    centred = rows.astype(mean.dtype) * unit + (offset - mean)[None]
    return mean + weights @ centred + jnp.sqrt(jitter) * noise


def _in_groups(draw: Callable[..., jax.Array], num_bytes: int) -> Callable[..., jax.Array]:
    """``draw(stored, key, label)``, whose ``vmap`` takes what fits ``AT_ONCE_BYTES`` at once.

    ``vmap`` alone would copy the rows of a class, ``num_bytes``, for every draw.
    """
    num_at_once = max(AT_ONCE_BYTES // num_bytes, 1)
    many = jax.custom_batching.sequential_vmap(jax.vmap(draw, in_axes=(None, 0, 0)))
    one = jax.custom_batching.custom_vmap(draw)

    @one.def_vmap
    def _(num: int, are_mapped: Any, stored: Any, key: Key, label: Any) -> tuple[jax.Array, bool]:
        if any(jax.tree.leaves(are_mapped[0])):  # laws themselves are mapped
            axes = jax.tree.map(lambda is_mapped: 0 if is_mapped else None, tuple(are_mapped))
            return jax.vmap(draw, in_axes=axes)(stored, key, label), True
        key, label = (
            given if is_mapped else jnp.broadcast_to(given, (num, *jnp.shape(given)))
            for given, is_mapped in zip((key, label), are_mapped[1:], strict=True)
        )
        if num <= num_at_once:
            return many(stored, key, label), True
        end = num - num % num_at_once
        groups = [given[:end].reshape(-1, num_at_once, *given.shape[1:]) for given in (key, label)]
        found = jax.lax.map(lambda group: many(stored, *group), tuple(groups))
        rest = many(stored, key[end:], label[end:])
        return jnp.concatenate([found.reshape(end, *rest.shape[1:]), rest]), True

    return one


def _class_moments(
    images: Any, places: np.ndarray, unit: float, offset: float, jitter: float
) -> tuple[np.ndarray, np.ndarray]:
    """Returns mean and Cholesky factor of the images at ``places``.

    They are computed in float64, from sums over parts, each relative to the mean of the first part.
    """
    origin: Any = None
    total: Any = 0.0
    squares: Any = 0.0
    for first in range(0, len(places), AT_ONCE):
        some = images[places[first : first + AT_ONCE]]
        flat = some.reshape(len(some), -1).astype(np.float64) * unit + offset
        origin = flat.mean(axis=0) if origin is None else origin
        flat -= origin
        total = total + flat.sum(axis=0)
        squares = squares + flat.T @ flat
    shift = total / len(places)
    covariance = squares / len(places) - np.outer(shift, shift)
    covariance[np.diag_indices_from(covariance)] += jitter
    return origin + shift, np.linalg.cholesky(covariance)


def _check_images(images: Any, low: float, high: float) -> np.ndarray:
    images = np.asarray(images)
    is_bytes = images.dtype == np.uint8
    if not is_bytes and not jnp.issubdtype(images.dtype, jnp.floating):
        raise TypeError(f"images must be bytes (uint8) or floating point, got {images.dtype}.")
    if images.ndim < 2 or not images.size:
        raise ValueError(f"images must have shape (n, ...) with n > 0, got shape {images.shape}.")
    if not is_bytes and not np.all((images >= low) & (images <= high)):
        raise ValueError(
            f"images must lie in [low, high] = [{low}, {high}] without NaN, got values from "
            f"{images.min()} to {images.max()}. Pass the range they have as low and high."
        )
    return images
