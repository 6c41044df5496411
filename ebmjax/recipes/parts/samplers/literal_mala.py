"""Densities of a Langevin move and of the move back, for accept ratios."""

from typing import Any

import jax
import jax.numpy as jnp


def log_proposal_ratio(
    step_size: Any, noise: jax.Array, state: Any, proposed: Any, variance: Any
) -> jax.Array:
    """``log q(x | y) - log q(y | x)`` of Gaussians of ``variance`` about the drifted positions."""
    back = noise + step_size * (state.score + proposed.score)
    return -jnp.sum(jnp.square(back) - jnp.square(noise)) / (2.0 * variance)
