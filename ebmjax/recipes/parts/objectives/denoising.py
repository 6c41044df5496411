"""Denoising score matching at one noise level: no chains, no buffer."""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax.learning import Density, Samples
from ebmjax.losses import denoising_score_matching_loss
from ebmjax.types import Key, Metrics


def denoising(
    key: Key, model: Density, batch: Samples, *, noise_scale: Any = 0.3
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.denoising_score_matching_loss``.

    The model is differentiated twice, so a piecewise linear network learns little.
    """
    x = batch.x
    noise = jax.random.normal(key, x.shape, x.dtype)
    # Log densities of the rows are independent, so the gradient of their sum has every score.
    score = jax.grad(lambda x: jnp.sum(model(x)))(x + noise_scale * noise)
    return denoising_score_matching_loss(score, noise, noise_scale=noise_scale)
