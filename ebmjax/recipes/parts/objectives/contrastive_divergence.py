"""Contrastive divergence: the data's log density up, the samples' down."""

import jax

from ebmjax import losses
from ebmjax.learning import Density, Samples
from ebmjax.types import Key, Metrics


def contrastive_divergence(
    key: Key, model: Density, batch: Samples, negatives: Samples
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.contrastive_divergence_loss``."""
    del key, model
    return losses.contrastive_divergence_loss(-batch.log_density, -negatives.log_density)
