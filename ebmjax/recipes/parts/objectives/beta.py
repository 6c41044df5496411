"""The robust objective, whose samples count by their density to the power of beta."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax import losses
from ebmjax.recipes.parts.objectives.energies import EnergyBatch
from ebmjax.types import Metrics


def beta_loss(section: Mapping[str, Any], energies: EnergyBatch) -> tuple[jax.Array, Metrics]:
    """An ``EnergyObjective``, see ``losses.beta_objective_loss``."""
    value, metrics = losses.beta_objective_loss(
        -energies.positive / energies.smoothing,
        -energies.negative / energies.smoothing,
        beta=section["beta"] if energies.beta is None else energies.beta,
        variant=section["beta_variant"],
        output_scale=section["output_scale"],
        allow_negative=section.get("allow_negative", False),
    )
    positive, negative = -jnp.mean(energies.positive), -jnp.mean(energies.negative)
    return value, {
        **metrics,
        "positive_log_density": positive,
        "negative_log_density": negative,
        "log_density_gap": positive - negative,
    }
