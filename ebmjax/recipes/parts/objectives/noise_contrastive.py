"""Noise-contrastive estimation against a Gaussian that is fitted to the data."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data
from ebmjax.learning import Density, Samples
from ebmjax.losses import noise_contrastive_loss
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.parts.objectives.fitting import first_rows
from ebmjax.types import Key, Metrics

MAX_SIZE = 4096
"""Most coordinates of an example: the Gaussian's factor has the square of them."""
NUM_FITTED = 10_000
"""Most examples that the Gaussian is fitted to."""


class Gaussian(NamedTuple):
    """N(mean, factor factor') of flattened examples, with its log normaliser in nats."""

    mean: jax.Array
    factor: jax.Array
    log_normaliser: jax.Array


def fit(config: Config, train: data.ImageData) -> Gaussian:
    """Returns the Gaussian of the training data, blurred by ``noise_scale`` of its section.

    Raises:
      ConfigError: if examples have more than ``MAX_SIZE`` coordinates.
    """
    x, noise_scale = first_rows(train, NUM_FITTED), config.loss.noise_contrastive.noise_scale
    size = x.shape[1]
    if size > MAX_SIZE:
        raise ConfigError(
            "config.loss.name=noise_contrastive fits a Gaussian to the data, for at most "
            f"{MAX_SIZE} numbers an example, got {size}: take smaller images, "
            "--config.data.image_size=, or another objective."
        )
    covariance = np.cov(x, rowvar=False, bias=True).reshape(size, size)
    factor = np.linalg.cholesky(covariance + noise_scale**2 * np.eye(size))
    log_normaliser = np.sum(np.log(np.diag(factor))) + 0.5 * size * np.log(2 * np.pi)
    return Gaussian(
        *(jnp.asarray(part, jnp.float32) for part in (x.mean(0), factor, log_normaliser))
    )


def noise_contrastive(
    key: Key, model: Density, batch: Samples, *, noise_ratio: int = 1, fitted: Gaussian
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.noise_contrastive_loss``.

    The model's own constant is what is learned of the partition function.
    """
    x = batch.x
    white = jax.random.normal(key, (noise_ratio * len(x), len(fitted.mean)))
    noise = (fitted.mean[None] + white @ fitted.factor.T).reshape(len(white), *x.shape[1:])

    def log_noise(x: jax.Array) -> jax.Array:
        centred = x.reshape(len(x), -1) - fitted.mean[None]
        scaled = jax.scipy.linalg.solve_triangular(fitted.factor, centred.T, lower=True)
        return -0.5 * jnp.sum(jnp.square(scaled), axis=0) - fitted.log_normaliser

    ratios = (model(some) - log_noise(some) for some in (x, noise.astype(x.dtype)))
    return noise_contrastive_loss(*ratios)
