"""The robust objective, whose samples count by their density to the power of beta."""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax import losses
from ebmjax.learning import Density, Samples
from ebmjax.recipes.parts.objectives.fitting import log_density_means
from ebmjax.types import Key, Metrics


def beta(
    key: Key,
    model: Density,
    batch: Samples,
    negatives: Samples,
    *,
    beta: Any,
    beta_variant: str = "default",
    output_scale: Any = 1.0,
    allow_negative: bool = False,
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.beta_objective_loss``; ``beta`` is that of the step."""
    del key, model
    value, metrics = losses.beta_objective_loss(
        batch.log_density,
        negatives.log_density,
        beta=beta,
        variant=beta_variant,
        output_scale=output_scale,
        allow_negative=allow_negative,
    )
    return value, {**metrics, **log_density_means(batch, negatives), "beta": jnp.float32(beta)}
