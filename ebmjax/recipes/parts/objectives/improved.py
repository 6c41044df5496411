"""Improved contrastive divergence: with the gradient through the chains' last steps."""

from typing import Any

import jax

from ebmjax import losses
from ebmjax.learning import Density, Samples
from ebmjax.types import Key, Metrics


def improved(
    key: Key,
    model: Density,
    batch: Samples,
    negatives: Samples,
    *,
    kl_weight: Any = 1.0,
    entropy_weight: Any,
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.improved_contrastive_divergence_loss``."""
    del key, model
    return losses.improved_contrastive_divergence_loss(
        -batch.log_density,
        -negatives.log_density,
        -negatives.live,
        negatives.entropy,
        kl_weight=kl_weight,
        entropy_weight=entropy_weight,
    )
