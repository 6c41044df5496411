"""Denoising score matching at many noise levels: an energy E(x, noise), annealed chains."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data
from ebmjax.learning import NoiseLevels
from ebmjax.losses import denoising_score_matching_loss
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.parts.objectives.fitting import across, first_rows
from ebmjax.types import Key, Metrics

NUM_FITTED = 1000
"""Most examples whose distances and scale count."""


def fit(section: Mapping[str, Any], train: data.ImageData) -> NoiseLevels:
    """Returns the noise levels of the section; the training data say what it leaves open.

    Raises:
      ConfigError: if the smallest noise is not below the largest.
    """
    x = first_rows(train, NUM_FITTED)
    lowest, highest = section["min_noise_scale"], section["max_noise_scale"]
    about = ""
    if highest is None:
        squares = np.sum(np.square(x), axis=1)
        distances = squares[:, None] + squares[None] - 2 * x @ x.T
        highest, about = float(np.sqrt(distances.max())), ", the largest distance of two examples"
    if lowest >= highest:
        raise ConfigError(
            "min_noise_scale of config.loss must be below max_noise_scale"
            f"={highest:.3g}{about}; got {lowest:g}: take a smaller one."
        )
    scale = float(np.sqrt(np.mean(np.square(x))))
    return NoiseLevels(lowest, highest, scale, section["relative_step"])


def denoising_levels(
    section: Mapping[str, Any],
    key: Key,
    energy: Callable[..., jax.Array],
    x: jax.Array,
    levels: NoiseLevels,
) -> tuple[jax.Array, Metrics]:
    """A ``ChainlessObjective``, see ``losses.denoising_score_matching_loss``.

    The noise's logarithm is uniform between the levels, one stratum an example.
    """
    del section
    noise_key, level_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, x.shape, x.dtype)
    share = (jnp.arange(len(x)) + jax.random.uniform(level_key, (len(x),))) / len(x)
    noise_scale = levels.lowest * (levels.highest / levels.lowest) ** share
    noisy = x + across(noise_scale, x) * noise
    score = jax.grad(lambda x: -jnp.sum(energy(x, noise_scale)))(noisy)
    return denoising_score_matching_loss(score, noise, noise_scale=noise_scale)
