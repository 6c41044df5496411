"""Noise-contrastive estimation: a classifier of data against noise of a known density."""

import math
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._precision import as_floats
from ebmjax.types import Metrics


def noise_contrastive_loss(data_log_ratio: Any, noise_log_ratio: Any) -> tuple[jax.Array, Metrics]:
    r"""Returns the loss of telling data from noise by the model's density.

    .. math::
        L = -\overline{\log \sigma(u(x) - \log\nu)} - \nu\, \overline{\log \sigma(\log\nu - u(y))}

    with :math:`u = \log p - \log q`, q the noise's normalised density, and :math:`\nu = M / N`. At
    the minimum p is the data's density, *normalised*: the energy's free constant is learned, and
    exp of minus it is the partition function of the rest.

    Args:
      data_log_ratio: u of the data, shape (N,), nats.
      noise_log_ratio: u of draws from q, shape (M,).

    Returns:
      The scalar loss, float32 or float64 as the ratios are, and metrics: ``noise_accuracy``, the
      share of both that the sign of :math:`u - \log\nu` tells apart.

    Source: Gutmann & Hyvarinen 2010.

    Example:
      >>> loss, metrics = noise_contrastive_loss(jnp.zeros(4), jnp.zeros(4))
      >>> round(float(loss), 4)  # 2 log 2: a coin for each of both
      1.3863
    """
    data = as_floats("data_log_ratio", data_log_ratio)
    noise = as_floats("noise_log_ratio", noise_log_ratio)
    ratio = len(noise) / len(data)
    data, noise = data - math.log(ratio), noise - math.log(ratio)
    loss = jnp.mean(jax.nn.softplus(-data)) + ratio * jnp.mean(jax.nn.softplus(noise))
    is_told = jnp.concatenate([data > 0, noise <= 0])
    return loss, {"noise_accuracy": jnp.mean(is_told.astype(loss.dtype))}
