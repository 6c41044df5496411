"""Objectives without chains: slices, perturbed copies, a reference density, straight paths."""

from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data, losses
from ebmjax._ranges import COUNT, FRACTION, NOT_NEGATIVE, POSITIVE, PROBABILITY, WHOLE
from ebmjax.learning import Density, Samples
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.parts.objectives.denoising import across, first_rows, fitted_by
from ebmjax.types import Key, Metrics

MAX_SIZE = 4096
"""Most coordinates of an example: the Gaussian's factor has the square of them."""
NUM_FITTED = 10_000
"""Most examples that the Gaussian is fitted to."""


def score_matching(
    key: Key, model: Density, batch: Samples, *, num_slices: Annotated[int, WHOLE] = 1
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.score_matching_loss``.

    The model is differentiated twice.

    Args:
      num_slices: random directions of each example; 0: exact, along every coordinate
    """
    x = batch.x
    score, slope_along = jax.linearize(jax.grad(lambda x: jnp.sum(model(x))), x)

    def along(direction: jax.Array) -> jax.Array:
        return jnp.sum((direction * slope_along(direction)).reshape(len(x), -1), axis=1)

    if num_slices:
        directions = jax.random.rademacher(key, (num_slices, *x.shape), x.dtype)
        divergence = jnp.mean(jax.lax.map(along, directions), axis=0)
    else:
        size = x[0].size
        units = jnp.eye(size, dtype=x.dtype).reshape(size, 1, *x.shape[1:])
        divergence = jnp.sum(
            jax.lax.map(lambda unit: along(jnp.broadcast_to(unit, x.shape)), units), axis=0
        )
    return losses.score_matching_loss(score, divergence)


def energy_discrepancy(
    key: Key,
    model: Density,
    batch: Samples,
    *,
    noise_scale: Annotated[Any, POSITIVE] = 0.3,
    num_copies: Annotated[int, COUNT] = 16,
    stabiliser: Annotated[Any, NOT_NEGATIVE] = 1.0,
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.energy_discrepancy_loss``; t is ``noise_scale``^2.

    Args:
      noise_scale: sqrt(t): each of two noises of a copy, in units of the data
      num_copies: perturbed copies of each example
      stabiliser: w: weight of the example itself
    """
    x = batch.x
    centre_key, copy_key = jax.random.split(key)
    moved = x + noise_scale * jax.random.normal(centre_key, x.shape, x.dtype)
    shape = (num_copies, *x.shape)
    copies = moved[None] + noise_scale * jax.random.normal(copy_key, shape, x.dtype)
    return losses.energy_discrepancy_loss(
        -model(x), -jax.vmap(model)(copies).T, stabiliser=stabiliser
    )


class Gaussian(NamedTuple):
    """N(mean, factor factor') of flattened examples, with its log normaliser in nats."""

    mean: jax.Array
    factor: jax.Array
    log_normaliser: jax.Array


def fit_gaussian(
    train: data.ImageData, total_steps: int, *, noise_scale: Annotated[float, POSITIVE] = 0.1
) -> Gaussian:
    """Returns the Gaussian of the training data, blurred.

    Args:
      noise_scale: what blurs the Gaussian of the data that the noise is

    Raises:
      ConfigError: if examples have more than ``MAX_SIZE`` coordinates.
    """
    del total_steps
    x = first_rows(train, NUM_FITTED)
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


@fitted_by(fit_gaussian)
def noise_contrastive(
    key: Key,
    model: Density,
    batch: Samples,
    *,
    fitted: Gaussian,
    noise_ratio: Annotated[int, COUNT] = 1,
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.noise_contrastive_loss``.

    The model's own constant is what is learned of the partition function.

    Args:
      noise_ratio: draws of the noise for each example
    """
    x = batch.x
    white = jax.random.normal(key, (noise_ratio * len(x), len(fitted.mean)))
    noise = (fitted.mean[None] + white @ fitted.factor.T).reshape(len(white), *x.shape[1:])

    def log_noise(x: jax.Array) -> jax.Array:
        centred = x.reshape(len(x), -1) - fitted.mean[None]
        scaled = jax.scipy.linalg.solve_triangular(fitted.factor, centred.T, lower=True)
        return -0.5 * jnp.sum(jnp.square(scaled), axis=0) - fitted.log_normaliser

    ratios = (model(some) - log_noise(some) for some in (x, noise.astype(x.dtype)))
    return losses.noise_contrastive_loss(*ratios)


def fit_warmup(
    train: data.ImageData, total_steps: int, *, warmup: Annotated[float, PROBABILITY] = 0.5
) -> int:
    """Returns the number of steps before contrastive divergence begins.

    Args:
      warmup: share of the run's steps before contrastive divergence begins
    """
    del train
    return round(warmup * total_steps)


@fitted_by(fit_warmup)
def energy_matching(
    key: Key,
    model: Density,
    batch: Samples,
    *,
    step: Any,
    fitted: int,
    temperature: Annotated[Any, POSITIVE] = 0.1,
    ramp_start: Annotated[Any, FRACTION] = 0.8,
    contrastive_weight: Annotated[Any, NOT_NEGATIVE] = 1.0,
    num_steps: Annotated[int, COUNT] = 100,
    step_size: Annotated[Any, POSITIVE] = 0.02,
) -> tuple[jax.Array, Metrics]:
    """Returns the loss, see ``losses.energy_matching_loss``.

    The potential is V = temperature E, so that exp(-E) is the density of chains at the temperature.
    From time t the weight of paths falls, and the temperature of chains from noise rises, linearly
    to time 1. Each half of the chains starts from the data, or from noise. The first ``fitted``
    steps have paths alone; pairs are matched within a shard.

    Args:
      temperature: temperature of the density that chains follow
      ramp_start: time from which paths fade and chains warm up
      contrastive_weight: weight of contrastive divergence beside the paths
      num_steps: steps of a training chain
      step_size: time of a step; noise reaches the data at time 1
    """
    x, is_second = batch.x, step >= fitted
    noise_key, time_key, start_key, chain_key = jax.random.split(key, 4)
    noise = jax.random.normal(noise_key, x.shape, x.dtype)
    displacement = losses.match_pairs(noise, x) - noise
    time = jax.random.uniform(time_key, (len(x),))
    between = noise + across(time, x).astype(x.dtype) * displacement
    from_data = jnp.arange(len(x)) < len(x) // 2
    starts = jnp.where(across(from_data, x), x, jax.random.normal(start_key, x.shape, x.dtype))

    def rise(time: Any) -> jax.Array:
        return jnp.clip((time - ramp_start) / (1.0 - ramp_start), 0.0, 1.0)

    def move(number: jax.Array, x: jax.Array) -> jax.Array:
        warmth = jnp.where(from_data, 1.0, rise(number * step_size))
        scale = jnp.sqrt(2.0 * step_size * temperature * warmth)
        noise = jax.random.normal(jax.random.fold_in(chain_key, number), x.shape, x.dtype)
        score = jax.grad(lambda x: jnp.sum(model.constant(x)))(x)
        return (x + step_size * temperature * score + across(scale, x) * noise).astype(x.dtype)

    negative = jax.lax.fori_loop(0, jnp.where(is_second, num_steps, 0), move, starts)
    score = temperature * jax.grad(lambda x: jnp.sum(model(x)))(between)
    weights = jnp.where(is_second, 1.0 - rise(time), 1.0)
    paths, metrics = losses.energy_matching_loss(score, displacement, weights=weights)
    contrast, energies = losses.contrastive_divergence_loss(-model(x), -model(negative))
    weight = jnp.where(is_second, contrastive_weight, 0.0) * temperature / x[0].size
    return paths + weight * contrast, {**energies, **metrics}
