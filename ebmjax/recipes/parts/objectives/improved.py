"""Improved contrastive divergence: with the gradient through the chains' last steps."""

from collections.abc import Mapping
from typing import Any

import jax

from ebmjax import losses
from ebmjax.recipes.parts.objectives.energies import EnergyBatch
from ebmjax.types import Metrics


def improved_loss(section: Mapping[str, Any], energies: EnergyBatch) -> tuple[jax.Array, Metrics]:
    """An ``EnergyObjective``, see ``losses.improved_contrastive_divergence_loss``."""
    return losses.improved_contrastive_divergence_loss(
        energies.positive,
        energies.negative,
        energies.live,
        energies.entropy,
        kl_weight=section["kl_weight"],
        entropy_weight=section["entropy_weight"],
    )
