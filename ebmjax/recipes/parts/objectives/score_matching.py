"""Score matching, exact or in random slices: no noise, no chains."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax.losses import score_matching_loss
from ebmjax.types import Key, Metrics


def score_matching(
    section: Mapping[str, Any], key: Key, energy: Callable[[jax.Array], jax.Array], x: jax.Array
) -> tuple[jax.Array, Metrics]:
    """A ``ChainlessObjective``, see ``losses.score_matching_loss``.

    The divergence is the mean over ``num_slices`` random directions of signs for each example; 0
    slices take every coordinate. The energy is differentiated twice.
    """

    def score_fn(x: jax.Array) -> jax.Array:
        return jax.grad(lambda x: -jnp.sum(energy(x)))(x)

    score, slope_along = jax.linearize(score_fn, x)

    def along(direction: jax.Array) -> jax.Array:
        return jnp.sum((direction * slope_along(direction)).reshape(len(x), -1), axis=1)

    num = section["num_slices"]
    if num:
        directions = jax.random.rademacher(key, (num, *x.shape), x.dtype)
        divergence = jnp.mean(jax.lax.map(along, directions), axis=0)
    else:
        size = x[0].size
        units = jnp.eye(size, dtype=x.dtype).reshape(size, 1, *x.shape[1:])
        divergence = jnp.sum(
            jax.lax.map(lambda unit: along(jnp.broadcast_to(unit, x.shape)), units), axis=0
        )
    return score_matching_loss(score, divergence)
