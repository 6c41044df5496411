"""The generative loss of SVGD-in-JEM."""

from collections.abc import Mapping
from typing import Any

import jax

from ebmjax import losses
from ebmjax.recipes.parts.objectives.energies import EnergyBatch
from ebmjax.types import Metrics


def svgd_loss(section: Mapping[str, Any], energies: EnergyBatch) -> tuple[jax.Array, Metrics]:
    """An ``EnergyObjective``, see ``losses.svgd_generative_loss``."""
    return losses.svgd_generative_loss(
        -energies.positive,
        -energies.negative,
        smoothing=energies.smoothing,
        variant=section["svgd_variant"],
    )
