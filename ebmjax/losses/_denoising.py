"""Denoising score matching: a loss without negatives, from scores at noisy data."""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._checks import check_positive
from ebmjax.types import Metrics


def denoising_score_matching_loss(
    score: Any, noise: Any, *, noise_scale: Any
) -> tuple[jax.Array, Metrics]:
    r"""Returns the error of scores that should point from noisy data back to the data.

    .. math:: L = \overline{(\sigma\, s(x + \sigma\epsilon) + \epsilon)^2}

    The mean is over examples and coordinates: of many noise levels each has the weight
    :math:`\sigma^2`. A score of 0 has L = 1. The best score is that of the
    data's density blurred by :math:`\sigma`; its L is above 0.

    Args:
      score: s at the noisy data, (N, ...), per unit of the data.
      noise: standard normal :math:`\epsilon`, of the same shape.
      noise_scale: :math:`\sigma`, positive, in units of the data: a scalar, or one an example,
        (N,). May be traced.

    Returns:
      The scalar loss, float32 or float64 as the scores are, and metrics: ``score_norm``, the root
      of the mean squared score times :math:`\sigma`.

    Source: Vincent 2011, Eq. 17, times :math:`2 \sigma^2` and per coordinate; Song & Ermon 2019,
    Eq. 6, for many levels.

    Example:
      >>> noise = jnp.array([[1.0, -2.0]])
      >>> float(denoising_score_matching_loss(-noise / 0.5, noise, noise_scale=0.5)[0])
      0.0
    """
    check_positive("noise_scale", noise_scale)
    score, noise = jnp.asarray(score), jnp.asarray(noise)
    if score.shape != noise.shape:
        raise ValueError(f"noise must have the shape of score, {score.shape}, got {noise.shape}.")
    noise_scale = jnp.asarray(noise_scale)
    if noise_scale.shape not in ((), score.shape[:1]):
        raise ValueError(
            f"noise_scale must be a scalar or one an example, {score.shape[:1]}, got shape "
            f"{noise_scale.shape}."
        )
    if noise_scale.ndim:
        noise_scale = noise_scale.reshape(-1, *[1] * (score.ndim - 1))
    scaled = noise_scale * score
    loss = jnp.mean(jnp.square(scaled + noise))
    return loss, {"score_norm": jnp.sqrt(jnp.mean(jnp.square(scaled)))}
