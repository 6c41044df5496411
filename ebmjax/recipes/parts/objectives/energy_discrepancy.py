"""Energy discrepancy: no chains, no scores."""

from collections.abc import Callable, Mapping
from typing import Any

import jax

from ebmjax.losses import energy_discrepancy_loss
from ebmjax.types import Key, Metrics


def energy_discrepancy(
    section: Mapping[str, Any], key: Key, energy: Callable[[jax.Array], jax.Array], x: jax.Array
) -> tuple[jax.Array, Metrics]:
    """A ``ChainlessObjective``, see ``losses.energy_discrepancy_loss``; t is ``noise_scale``^2."""
    centre_key, copy_key = jax.random.split(key)
    moved = x + section["noise_scale"] * jax.random.normal(centre_key, x.shape, x.dtype)
    shape = (section["num_copies"], *x.shape)
    copies = moved[None] + section["noise_scale"] * jax.random.normal(copy_key, shape, x.dtype)
    perturbed = jax.vmap(energy)(copies).T
    return energy_discrepancy_loss(energy(x), perturbed, stabiliser=section["stabiliser"])
