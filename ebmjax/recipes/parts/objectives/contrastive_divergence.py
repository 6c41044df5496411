"""Contrastive divergence: the data's energy down, the samples' up."""

from collections.abc import Mapping
from typing import Any

import jax

from ebmjax import losses
from ebmjax.recipes.parts.objectives.energies import EnergyBatch
from ebmjax.types import Metrics


def contrastive_divergence_loss(
    section: Mapping[str, Any], energies: EnergyBatch
) -> tuple[jax.Array, Metrics]:
    """An ``EnergyObjective``, see ``losses.contrastive_divergence_loss``."""
    del section
    value, metrics = losses.contrastive_divergence_loss(energies.positive, energies.negative)
    return value / energies.smoothing, metrics
