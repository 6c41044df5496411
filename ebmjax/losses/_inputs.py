"""Checks a loss's arrays (shape, dtype) and converts them to float32 or wider."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._checks import check_labels
from ebmjax._precision import at_least_float32


def as_batch(name: str, values: Any) -> jax.Array:
    """Returns ``values`` of shape (count,), count at least 1, in float32 or wider; or raises."""
    values = jnp.asarray(values)
    if not jnp.issubdtype(values.dtype, jnp.floating):
        raise TypeError(f"{name} must hold floating-point numbers, got dtype {values.dtype}.")
    if values.ndim != 1 or values.size == 0:
        raise ValueError(
            f"{name} must be one number per example, shape (count,) with count at least 1, got "
            f"shape {values.shape}. Drop a trailing axis with [:, 0], merge axes with .ravel()."
        )
    return at_least_float32(values)


def as_logits(logits: Any) -> jax.Array:
    """Returns ``logits`` of shape (..., num_classes) in float32 or wider."""
    logits = jnp.asarray(logits)
    if not jnp.issubdtype(logits.dtype, jnp.floating):
        raise TypeError(f"logits must hold floating-point numbers, got dtype {logits.dtype}.")
    if jnp.ndim(logits) == 0 or 0 in jnp.shape(logits):
        raise ValueError(
            "logits must end in an axis of classes and hold at least one example, shape "
            f"(..., num_classes), got shape {jnp.shape(logits)}."
        )
    return at_least_float32(logits)


def as_labels(logits: jax.Array, labels: Any) -> jax.Array:
    """Returns ``labels``, one class an example of ``logits``, in int32.

    With eight bits, labels would be compared with a number of classes that wraps round.
    """
    check_labels("labels", labels, logits.shape[:-1], logits.shape[-1])
    return jnp.asarray(labels, jnp.int32)


def check_variant(variant: str, variants: Sequence[str]) -> None:
    """Raises ValueError unless ``variant`` is one of ``variants``."""
    if variant not in variants:
        raise ValueError(f"variant must be one of {', '.join(variants)}, got {variant!r}.")
