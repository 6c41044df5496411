"""A classifier as an energy-based model: its logits as log densities, and its cross-entropy."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from ebmjax._checks import check_labels
from ebmjax._precision import as_floats
from ebmjax.types import Metrics


def joint_log_density(logits: Any) -> jax.Array:
    r"""Returns the log density :math:`f(x) = \log \sum_y e^{h(x)[y]}` that logits :math:`h` imply.

    Args:
      logits: shape (..., num_classes), any floating dtype.

    Returns:
      Shape (...), float32 or float64 as the logits are, unnormalised, in nats.

    Source: Grathwohl et al. 2019; robust-objective paper, Eq. 39.
    """
    return jax.nn.logsumexp(as_floats("logits", logits, "(..., num_classes)", ndim=None), axis=-1)


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
    logits, labels, is_valid = _with_labels(logits, labels)
    picked = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return jnp.where(is_valid, picked, jnp.nan)


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
    logits, labels, is_valid = _with_labels(logits, labels)
    each = optax.losses.softmax_cross_entropy_with_integer_labels(logits, labels)
    loss = jnp.mean(jnp.where(is_valid, each, jnp.nan))
    accuracy = jnp.mean(jnp.argmax(logits, axis=-1) == labels, dtype=logits.dtype)
    return loss, {"cross_entropy": loss, "accuracy": accuracy}


def _with_labels(logits: Any, labels: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns logits, one label for each example, and whether this is one of the classes.

    With eight bits, labels would be compared with a number of classes that wraps round.
    """
    logits = as_floats("logits", logits, "(..., num_classes)", ndim=None)
    check_labels("labels", labels, logits.shape[:-1], logits.shape[-1])
    labels = jnp.asarray(labels, jnp.int32)
    # Indexing with a negative label would wrap round to the last class.
    return logits, labels, (labels >= 0) & (labels < logits.shape[-1])
