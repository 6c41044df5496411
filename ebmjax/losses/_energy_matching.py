"""Energy matching: scores of a potential that carry noise to the data by straight paths."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from ebmjax._precision import at_least_float32
from ebmjax.types import Metrics

MATCHED = range(16, 65)
"""Sizes of the groups within which pairs are matched, whose time grows as their cube."""


def match_pairs(noise: Any, x: Any) -> jax.Array:
    r"""Returns ``x`` in the order in which optimal transport pairs it with ``noise``.

    The sum of the squared distances of the pairs is least, by the Hungarian algorithm. The largest
    of 16 to 64 that divides N is the size of groups that are matched apart from each other; where
    none does, all N are one group.

    Args:
      noise: where paths begin, (N, ...).
      x: where they end, the same shape.
    """
    noise, x = jnp.asarray(noise), jnp.asarray(x)
    if noise.shape != x.shape:
        raise ValueError(f"x must have the shape of noise, {noise.shape}, got {x.shape}.")
    size = max((size for size in MATCHED if len(x) % size == 0), default=len(x))

    def match(noise: jax.Array, x: jax.Array) -> jax.Array:
        a, b = (at_least_float32(part).reshape(size, -1) for part in (noise, x))
        # The squares of each alone add up to the same in any order.
        rows, columns = optax.assignment.hungarian_algorithm(-a @ b.T)
        return x[columns[jnp.argsort(rows)]]

    grouped = (part.reshape(-1, size, *x.shape[1:]) for part in (noise, x))
    return jax.vmap(match)(*grouped).reshape(x.shape)


def energy_matching_loss(
    score: Any, displacement: Any, *, weights: Any = 1.0
) -> tuple[jax.Array, Metrics]:
    r"""Returns the error of a potential's descent along straight paths from noise to data.

    .. math::
        L = \overline{w(t) \left(-\nabla V(x_t) - (x_1 - x_0)\right)^2}, \qquad
        x_t = (1 - t)\, x_0 + t\, x_1

    The mean is over examples and coordinates. With pairs :math:`(x_0, x_1)` of optimal transport,
    see ``match_pairs``, descent of V takes noise to the data within time 1. Contrastive divergence
    of V / T with samples at temperature T, beside it, makes exp(-V / T) the data's density; then
    weights w(t) fall to 0 at the data.

    Args:
      score: :math:`-\nabla V` at :math:`x_t`, (N, ...), in units of the data.
      displacement: :math:`x_1 - x_0`, of the same shape.
      weights: w(t), a scalar or one a pair, (N,).

    Returns:
      The scalar loss, float32 or float64 as the scores are, and metrics: ``transport_error``, the
      root of the unweighted mean square.

    Source: Balcerak et al. 2025 (arXiv 2504.10612), Algorithms 1 and 2; per coordinate.

    Example:
      >>> loss, _ = energy_matching_loss(jnp.array([[1.0, 2.0]]), jnp.array([[1.0, 0.0]]))
      >>> float(loss)
      2.0
    """
    score, displacement = jnp.asarray(score), jnp.asarray(displacement)
    weights = jnp.asarray(weights)
    if score.shape != displacement.shape or score.ndim < 2:
        raise ValueError(
            f"displacement must have the shape of score, (N, ...), {score.shape}; got "
            f"{displacement.shape}."
        )
    if weights.shape not in ((), score.shape[:1]):
        raise ValueError(
            f"weights must be a scalar or one a pair, {score.shape[:1]}, got shape {weights.shape}."
        )
    squares = jnp.square(at_least_float32(score) - displacement).reshape(len(score), -1)
    errors = jnp.mean(squares, axis=1)
    return jnp.mean(weights * errors), {"transport_error": jnp.sqrt(jnp.mean(errors))}
