"""Arithmetic that rounding or a slope would spoil: half-precision sums, roots, large squares."""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._checks import check_not_negative
from ebmjax.types import PyTree


def at_least_float32(tree: PyTree) -> PyTree:
    """The leaves in float32, or in their own dtype where that is wider; no copy of either."""
    return jax.tree.map(
        lambda leaf: jnp.asarray(leaf, jnp.promote_types(jnp.result_type(leaf), jnp.float32)), tree
    )


def as_floats(
    name: str, values: Any, shape: str = "(count,)", *, ndim: int | None = 1
) -> jax.Array:
    """Returns ``values`` in float32 or wider; raises for other numbers, and for another shape.

    Args:
      name: of the argument, for messages.
      values: array or list, with at least one entry along each axis.
      shape: what they must have, for messages.
      ndim: number of axes; None for one or more.
    """
    values = jnp.asarray(values)
    if not jnp.issubdtype(values.dtype, jnp.floating):
        raise TypeError(f"{name} must hold floating-point numbers, got dtype {values.dtype}.")
    if not values.size or values.ndim != (ndim or max(values.ndim, 1)):
        hint = " Drop a trailing axis with [:, 0], merge axes with .ravel()." if ndim == 1 else ""
        raise ValueError(
            f"{name} must have shape {shape} with at least one entry along each axis, got shape "
            f"{values.shape}.{hint}"
        )
    return at_least_float32(values)


def root(value: jax.Array) -> jax.Array:
    """The square root, elementwise, with the derivative 0 at 0 instead of an infinite one.

    Behind ``root(x**2)`` an infinite slope would meet a zero, and their product is NaN.
    """
    is_zero = value == 0
    return jnp.where(is_zero, 0.0, jnp.sqrt(jnp.where(is_zero, 1.0, value)))


def energy_penalty(energy_l2: Any, positive_energy: Any, negative_energy: Any) -> jax.Array:
    """Returns ``energy_l2`` times the sum of both energies' mean squares.

    The weight goes into the squares, so that a weight of 0 gives 0 where they overflow: in float32
    beyond 1.8e19.

    Args:
      energy_l2: scalar weight, at least 0; may be traced.
      positive_energy: energies or log densities of the data, shape (N,), nats.
      negative_energy: of the samples, shape (M,).

    Returns:
      Scalar, float32 or float64 as the energies are.

    Example:
      >>> float(energy_penalty(0.5, jnp.array([1.0, 3.0]), jnp.array([2.0])))
      4.5
    """
    check_not_negative("energy_l2", energy_l2, is_scalar=True)

    def mean_square(values: jax.Array) -> jax.Array:
        return jnp.mean(jnp.asarray(energy_l2, values.dtype) * values * values)

    positive, negative = at_least_float32((positive_energy, negative_energy))
    return mean_square(positive) + mean_square(negative)
