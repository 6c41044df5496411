"""Score matching, exact or in random slices: no noise, no chains."""

import jax
import jax.numpy as jnp

from ebmjax.learning import Density, Samples
from ebmjax.losses import score_matching_loss
from ebmjax.types import Key, Metrics


def score_matching(
    key: Key, model: Density, batch: Samples, *, num_slices: int = 1
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.score_matching_loss``.

    The divergence is the mean over ``num_slices`` random directions of signs for each example; 0
    slices take every coordinate. The model is differentiated twice.
    """
    x = batch.x
    score, slope_along = jax.linearize(jax.grad(lambda x: jnp.sum(model(x))), x)

    def along(direction: jax.Array) -> jax.Array:
        return jnp.sum((direction * slope_along(direction)).reshape(len(x), -1), axis=1)

    if num_slices:
        directions = jax.random.rademacher(key, (num_slices, *x.shape), x.dtype)
        divergence = jnp.mean(jax.lax.map(along, directions), axis=0)
    else:
        size = x[0].size
        units = jnp.eye(size, dtype=x.dtype).reshape(size, 1, *x.shape[1:])
        divergence = jnp.sum(
            jax.lax.map(lambda unit: along(jnp.broadcast_to(unit, x.shape)), units), axis=0
        )
    return score_matching_loss(score, divergence)
