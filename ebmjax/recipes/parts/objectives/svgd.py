"""The generative loss of SVGD-in-JEM."""

from typing import Any

import jax

from ebmjax import losses
from ebmjax.learning import Density, Samples
from ebmjax.types import Key, Metrics


def svgd(
    key: Key,
    model: Density,
    batch: Samples,
    negatives: Samples,
    *,
    smoothing: Any,
    svgd_variant: str = "corrected",
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.svgd_generative_loss``."""
    del key, model
    return losses.svgd_generative_loss(
        batch.f, negatives.f, smoothing=smoothing, variant=svgd_variant
    )
