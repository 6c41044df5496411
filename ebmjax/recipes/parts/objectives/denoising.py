"""Denoising score matching at one noise level: no chains, no buffer."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax.losses import denoising_score_matching_loss
from ebmjax.types import Key, Metrics


def denoising(
    section: Mapping[str, Any], key: Key, energy: Callable[[jax.Array], jax.Array], x: jax.Array
) -> tuple[jax.Array, Metrics]:
    """A ``ChainlessObjective``, see ``losses.denoising_score_matching_loss``.

    The energy is differentiated twice, so a piecewise linear network learns little.
    """
    noise, noise_scale = jax.random.normal(key, x.shape, x.dtype), section["noise_scale"]
    # Energies of the rows are independent, so the gradient of their sum has every score.
    score = jax.grad(lambda x: -jnp.sum(energy(x)))(x + noise_scale * noise)
    return denoising_score_matching_loss(score, noise, noise_scale=noise_scale)
