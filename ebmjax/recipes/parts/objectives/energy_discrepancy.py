"""Energy discrepancy: no chains, no scores."""

from typing import Any

import jax

from ebmjax.learning import Density, Samples
from ebmjax.losses import energy_discrepancy_loss
from ebmjax.types import Key, Metrics


def energy_discrepancy(
    key: Key,
    model: Density,
    batch: Samples,
    *,
    noise_scale: Any = 0.3,
    num_copies: int = 16,
    stabiliser: Any = 1.0,
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.energy_discrepancy_loss``; t is ``noise_scale``^2."""
    x = batch.x
    centre_key, copy_key = jax.random.split(key)
    moved = x + noise_scale * jax.random.normal(centre_key, x.shape, x.dtype)
    shape = (num_copies, *x.shape)
    copies = moved[None] + noise_scale * jax.random.normal(copy_key, shape, x.dtype)
    return energy_discrepancy_loss(-model(x), -jax.vmap(model)(copies).T, stabiliser=stabiliser)
