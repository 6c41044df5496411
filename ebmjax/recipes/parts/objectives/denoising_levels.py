"""Denoising score matching at many noise levels: an energy E(x, noise), annealed chains."""

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data
from ebmjax.learning import Density, NoiseLevels, Samples
from ebmjax.losses import denoising_score_matching_loss
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.parts.objectives.fitting import across, first_rows
from ebmjax.types import Key, Metrics

NUM_FITTED = 1000
"""Most examples whose distances and scale count."""


def fit(config: Config, train: data.ImageData) -> NoiseLevels:
    """Returns the noise levels of the objective; the training data say what it leaves open.

    Raises:
      ConfigError: if the smallest noise is not below the largest.
    """
    section, x = config.loss[config.loss.name], first_rows(train, NUM_FITTED)
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
    key: Key, model: Density, batch: Samples, *, fitted: NoiseLevels
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.denoising_score_matching_loss``.

    The noise's logarithm is uniform between the levels, one stratum an example.
    """
    x = batch.x
    noise_key, level_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, x.shape, x.dtype)
    share = (jnp.arange(len(x)) + jax.random.uniform(level_key, (len(x),))) / len(x)
    noise_scale = fitted.lowest * (fitted.highest / fitted.lowest) ** share
    noisy = x + across(noise_scale, x) * noise
    score = jax.grad(lambda x: jnp.sum(model(x, noise_scale)))(noisy)
    return denoising_score_matching_loss(score, noise, noise_scale=noise_scale)
