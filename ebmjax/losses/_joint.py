"""A classifier as an energy-based model: its logits as log densities, and its cross-entropy."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from ebmjax.losses._inputs import as_labels, as_logits
from ebmjax.types import Metrics


def joint_log_density(logits: Any) -> jax.Array:
    r"""Returns the log density :math:`f(x) = \log \sum_y e^{h(x)[y]}` that logits :math:`h` imply.

    Args:
      logits: shape (..., num_classes), any floating dtype.

    Returns:
      Shape (...), float32 or float64 as the logits are, unnormalised, in nats.

    Source: Grathwohl et al. 2019; robust-objective paper, Eq. 39.
    """
    return jax.nn.logsumexp(as_logits(logits), axis=-1)


def joint_energy(logits: Any) -> jax.Array:
    """Returns ``-joint_log_density(logits)``: low where some class is confidently present."""
    return -joint_log_density(logits)


def class_log_density(logits: Any, labels: Any) -> jax.Array:
    """Returns the log density of x within one class: ``logits[..., label]``, unnormalised.

    Its negative is the class-conditional energy, which class-conditional chains descend.

    Args:
      logits: shape (..., num_classes), any floating dtype.
      labels: integers of shape (...), each in [0, num_classes).

    Returns:
      Shape (...), float32 or float64 as the logits are; NaN for a traced label out of range.

    Example:
      >>> class_log_density(jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.array([1, 0])).tolist()
      [2.0, 3.0]
    """
    logits = as_logits(logits)
    labels = as_labels(logits, labels)
    picked = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return _nan_out_of_range(picked, logits, labels)


def cross_entropy_loss(logits: Any, labels: Any) -> tuple[jax.Array, Metrics]:
    """Returns the mean negative log probability of the labels, in nats: the -log p(y|x) of JEM.

    Args:
      logits: shape (..., num_classes), any floating dtype.
      labels: integers of shape (...), each in [0, num_classes).

    Returns:
      The scalar loss, float32 or float64 as the logits are, and metrics ``cross_entropy`` (the
      loss) and ``accuracy`` (the fraction whose largest logit is the label's). A traced label out
      of range makes the loss NaN.
    """
    logits = as_logits(logits)
    labels = as_labels(logits, labels)
    each = optax.losses.softmax_cross_entropy_with_integer_labels(logits, labels)
    loss = jnp.mean(_nan_out_of_range(each, logits, labels))
    accuracy = jnp.mean(jnp.argmax(logits, axis=-1) == labels, dtype=logits.dtype)
    return loss, {"cross_entropy": loss, "accuracy": accuracy}


def _nan_out_of_range(values: jax.Array, logits: jax.Array, labels: jax.Array) -> jax.Array:
    # Indexing with a negative label would wrap round to the last class.
    is_valid = (labels >= 0) & (labels < logits.shape[-1])
    return jnp.where(is_valid, values, jnp.nan)
