"""Log evidence of test images by the methods that a configuration names."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ebmjax import evaluate, latent
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.models import build as common


def compare(
    keys: Sequence[jax.Array],
    params: Sequence[latent.LatentParams],
    model: latent.LatentModel,
    images: np.ndarray,
    config: Config,
) -> dict[str, Any]:
    """Returns ``evaluate.evidence`` of the first ``eval.evidence_images`` images.

    Args:
      keys: one for each repeat.
      params: parameters of each repeat; several are a leading axis of the answer.
      model: the latent EBM.
      images: uint8, (N, H, W, C).
      config: sections model and eval are read.
    """
    section = config.eval
    repeats = [
        evaluate.evidence(
            key,
            one,
            model,
            images[: section.evidence_images],
            latent_dim=config.model.latent_dim,
            methods=section.evidence_methods,
            num_chains=section.evidence_chains,
            num_intervals=section.evidence_intervals,
            num_steps=section.evidence_steps,
            step_size=section.evidence_step_size,
            with_divergences=section.evidence_divergences,
        )
        for key, one in zip(keys, params, strict=True)
    ]
    return common.stack_arrays(repeats)
