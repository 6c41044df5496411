"""Energies or losses around trained parameters, along directions scaled by filter."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from ebmjax._checks import check_floating
from ebmjax.types import Key, PyTree


def filter_normalised_direction(key: Key, params: PyTree) -> PyTree:
    r"""Returns a Gaussian direction in which a step of 1 changes every filter by its norm.

    Scaling one layer up and the next one down keeps the function, yet changes its sharpness along a
    plain Gaussian direction. Therefore each filter i of each kernel j is rescaled,

    .. math::
        d_{ij} \leftarrow \frac{d_{ij}}{\lVert d_{ij} \rVert} \lVert w_{ij} \rVert,

    where a filter is everything that feeds one output feature: a block (h, w, inputs) of a kernel
    (h, w, inputs, outputs), a column of (inputs, outputs). Leaves with one axis or none (biases,
    scales and offsets of normalisations, running statistics) get the direction zero, as in the
    authors' code, because they can dominate the picture.

    Args:
      key: consumed by the Gaussian.
      params: PyTree of floating-point arrays whose last axis counts output features, as Flax's
        kernels.

    Returns:
      A PyTree like ``params``. A filter of zeros gets the direction zero.

    Source: Li, Xu, Taylor, Studer & Goldstein 2018, arXiv:1712.09913, section 4.

    Example:
      >>> params = {"kernel": jnp.array([[3.0, 0.0], [4.0, 1.0]]), "bias": jnp.ones(2)}
      >>> direction = filter_normalised_direction(jax.random.key(0), params)
      >>> jnp.linalg.norm(direction["kernel"], axis=0).round(5).tolist(), direction["bias"].tolist()
      ([5.0, 1.0], [0.0, 0.0])
    """
    check_floating("params", params)
    params = jax.tree.map(jnp.asarray, params)
    gaussian = optax.tree.random_like(key, params, jax.random.normal)
    return jax.tree.map(_with_the_norms_of, gaussian, params)


def energy_landscape(
    value_fn: Callable[[PyTree], jax.Array],
    params: PyTree,
    direction_x: PyTree,
    direction_y: PyTree,
    coordinates_x: jax.Array,
    coordinates_y: jax.Array,
) -> jax.Array:
    """Returns ``value_fn(params + a * direction_x + b * direction_y)`` on a grid of (a, b).

    Points are evaluated one after the other, in the memory of one. For a line instead of a plane,
    pass zero as the only ``coordinates_y``.

    Args:
      value_fn: parameters to a scalar, with the data bound; for example the mean energy of some
        training images.
      params: PyTree of floating-point arrays: the centre.
      direction_x, direction_y: PyTrees like ``params``, see ``filter_normalised_direction``.
      coordinates_x, coordinates_y: (len_x,) and (len_y,), the values of a and of b; between -1 and
        1 in the papers.

    Returns:
      (len_y, len_x) in the units of ``value_fn``, rows along y as for ``matplotlib``'s ``contour``.

    Source: Li et al. 2018; SADA-JEM, Figures 1 and 7.

    Example:
      >>> along_x, along_y = jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0])
      >>> def value_fn(params):
      ...     return params[0] + 10 * params[1]
      >>> energy_landscape(
      ...     value_fn, jnp.zeros(2), along_x, along_y, jnp.arange(3), jnp.arange(2)).tolist()
      [[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]]
    """
    check_floating("params", params)
    params = jax.tree.map(jnp.asarray, params)
    shapes = [jax.tree.map(jnp.shape, tree) for tree in (params, direction_x, direction_y)]
    if shapes.count(shapes[0]) < 3:
        raise ValueError(
            "direction_x and direction_y must have the structure and shapes of params, got "
            f"{shapes[1]} and {shapes[2]} for {shapes[0]}."
        )
    coordinates = jnp.asarray(coordinates_x), jnp.asarray(coordinates_y)
    if any(values.ndim != 1 or not values.size for values in coordinates):
        raise ValueError(
            "coordinates_x and coordinates_y must have shape (n,) with at least one value, got "
            f"{coordinates[0].shape} and {coordinates[1].shape}."
        )
    found = jax.tree.map(jnp.shape, jax.eval_shape(value_fn, params))
    if found != ():
        raise ValueError(f"value_fn must return a scalar, got shape {found}. Sum or average it.")

    def value(a: jax.Array, b: jax.Array) -> jax.Array:
        moved = jax.tree.map(
            lambda w, x, y: (w + a * x + b * y).astype(w.dtype), params, direction_x, direction_y
        )
        return value_fn(moved)

    def row(b: jax.Array) -> jax.Array:
        return jax.lax.map(lambda a: value(a, b), coordinates[0])

    return jax.lax.map(row, coordinates[1])


def _with_the_norms_of(direction: jax.Array, weights: jax.Array) -> jax.Array:
    if weights.ndim <= 1:
        return jnp.zeros_like(weights)
    norm = _filter_norms(direction)
    scale = jnp.where(norm > 0, _filter_norms(weights) / jnp.where(norm > 0, norm, 1.0), 0.0)
    return (direction * scale).astype(weights.dtype)


def _filter_norms(weights: jax.Array) -> jax.Array:
    weights = weights.astype(jnp.promote_types(weights.dtype, jnp.float32))
    squares = jnp.square(weights)
    return jnp.sqrt(jnp.sum(squares, axis=tuple(range(weights.ndim - 1)), keepdims=True))
