"""Sums and running averages of half-precision numbers, which half precision cannot hold."""

import jax
import jax.numpy as jnp

from ebmjax.types import PyTree


def at_least_float32(tree: PyTree) -> PyTree:
    """The leaves in float32, or in their own dtype where that is wider; no copy of either."""
    return jax.tree.map(
        lambda leaf: jnp.asarray(leaf, jnp.promote_types(jnp.result_type(leaf), jnp.float32)), tree
    )
