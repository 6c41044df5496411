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
    """Returns ``evaluate.evidence`` of the first ``eval.evidence.num_images`` images.

    Args:
      keys: one for each repeat.
      params: parameters of each repeat; several are a leading axis of the answer.
      model: the latent EBM.
      images: uint8, (N, H, W, C).
      config: sections model and eval are read.
    """
    section = config.eval.evidence
    repeats = [
        evaluate.evidence(
            key,
            one,
            model,
            images[: section.num_images],
            latent_dim=config.model.latent_dim,
            methods=section.methods,
            num_chains=section.num_chains,
            num_intervals=section.num_intervals,
            num_steps=section.num_steps,
            step_size=section.step_size,
            with_divergences=section.divergences,
        )
        for key, one in zip(keys, params, strict=True)
    ]
    return common.stack_arrays(repeats)
