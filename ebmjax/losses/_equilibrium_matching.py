"""Equilibrium matching: one landscape, without a time, whose descent carries noise to the data."""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax.losses._energy_matching import energy_matching_loss
from ebmjax.types import Metrics


def equilibrium_matching_loss(
    score: Any, displacement: Any, time: Any, *, decay_start: Any = 0.8, peak: Any = 4.0
) -> tuple[jax.Array, Metrics]:
    r"""Returns the error of scores that point from noise to the data, and vanish at the data.

    .. math::
        L = \overline{\left(s(x_t) - c(t) (x - \epsilon)\right)^2}, \qquad
        x_t = t x + (1 - t) \epsilon, \qquad
        c(t) = \lambda \min\left(1, \frac{1 - t}{1 - a}\right)

    The mean is over examples and coordinates, and s does not see t. The best s is the mean of
    :math:`c(t) (x - \epsilon)` given :math:`x_t`: no density's score, and its energy is no -log p.

    Args:
      score: s at :math:`x_t`, (N, ...): minus the gradient of an energy.
      displacement: :math:`x - \epsilon`, of the same shape.
      time: t in [0, 1], 0 at the noise, (N,).
      decay_start: a in [0, 1), where c begins to fall to 0.
      peak: :math:`\lambda`, the c before.

    Returns:
      The scalar loss, as wide as the scores are, and its root, the metric ``transport_error``.

    Source: Wang & Du 2025 (arXiv 2510.02300), truncated decay, explicit energy.
    """
    time, displacement = jnp.asarray(time), jnp.asarray(displacement)
    if time.shape != displacement.shape[:1]:
        raise ValueError(f"time must have shape {displacement.shape[:1]}, got {time.shape}.")
    weight = peak * jnp.minimum(1.0, (1.0 - time) / (1.0 - decay_start))
    wide = weight.reshape(-1, *[1] * (displacement.ndim - 1))
    return energy_matching_loss(score, wide * displacement)
