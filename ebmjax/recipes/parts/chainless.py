"""Objectives without chains: noisy data, slices, perturbed copies, a Gaussian, straight paths."""

from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data, losses, samplers
from ebmjax._ranges import COUNT, FRACTION, NOT_NEGATIVE, POSITIVE, PROBABILITY, WHOLE
from ebmjax._stored import take_rows
from ebmjax.learning import Density, NoiseLevels, Samples
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.types import Key, Metrics


def denoising(
    key: Key, model: Density, batch: Samples, *, noise_scale: Annotated[Any, POSITIVE] = 0.3
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.denoising_score_matching_loss``.

    Args:
      noise_scale: noise at which scores are matched, in units of the data
    """
    noise = jax.random.normal(key, batch.x.shape, batch.x.dtype)
    return _match_scores(model, batch.x, noise, noise_scale)


def _match_scores(
    model: Density, x: jax.Array, noise: jax.Array, noise_scale: Any, *levels: jax.Array
) -> tuple[jax.Array, Metrics]:
    # Log densities of the rows are independent, so the gradient of their sum has every score.
    noisy = x + _across(jnp.asarray(noise_scale), x) * noise
    score = jax.grad(lambda x: jnp.sum(model(x, *levels)))(noisy)
    return losses.denoising_score_matching_loss(score, noise, noise_scale=noise_scale)


def _across(values: jax.Array, x: jax.Array) -> jax.Array:
    """Returns ``values`` (N,) or a scalar, shaped to multiply examples ``x`` (N, ...)."""
    return values.reshape(-1, *[1] * (x.ndim - 1))


def denoising_levels(
    key: Key,
    model: Density,
    batch: Samples,
    *,
    fitted: NoiseLevels,
    min_noise_scale: Annotated[float, POSITIVE] = 0.05,
    relative_step: Annotated[float, POSITIVE] = 0.5,
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.denoising_score_matching_loss``.

    The noise's logarithm is uniform up to the largest distance of two examples, one stratum each.

    Args:
      min_noise_scale: smallest noise, which evaluations see, in units of the data
      relative_step: step of annealed chains, in squares of a level's noise
    """
    x = batch.x
    noise_key, level_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, x.shape, x.dtype)
    share = (jnp.arange(len(x)) + jax.random.uniform(level_key, (len(x),))) / len(x)
    noise_scale = fitted.lowest * (fitted.highest / fitted.lowest) ** share
    return _match_scores(model, x, noise, noise_scale, noise_scale)


def diffusion_recovery(
    key: Key,
    model: Density,
    batch: Samples,
    *,
    fitted: NoiseLevels,
    min_noise_scale: Annotated[float, POSITIVE] = 0.05,
    num_levels: Annotated[int, COUNT] = 6,
    relative_step: Annotated[float, POSITIVE] = 0.1,
    num_steps: Annotated[int, COUNT] = 30,
) -> tuple[jax.Array, Metrics]:
    """Returns contrastive divergence of p(x_t given x_{t+1}), without a buffer.

    The levels take turns among the examples. The chains start at x_{t+1}, see
    ``samplers.run_recovery_chains``.

    Args:
      min_noise_scale: smallest noise, which evaluations see, in units of the data
      num_levels: noise levels
      relative_step: step of chains, in squares of the noise between two levels
      num_steps: steps of a training chain, from one level to the next
    """
    x = batch.x
    shift_key, low_key, step_key, chain_key = jax.random.split(key, 4)
    first = jax.random.randint(shift_key, (), 0, num_levels)
    level = (first + jnp.arange(len(x))) % num_levels
    low, between = fitted.noise_at(level), fitted.noise_between(level)
    noises = [jax.random.normal(one, x.shape, x.dtype) for one in (low_key, step_key)]
    positive = x + _across(low.astype(x.dtype), x) * noises[0]
    noisy = positive + _across(between.astype(x.dtype), x) * noises[1]
    negative = samplers.run_recovery_chains(
        chain_key,
        noisy,
        lambda x: model.constant(x, low),
        noise_scale=between,
        num_steps=num_steps,
        relative_step=fitted.relative_step,
    )
    # The term of x_{t+1} has no parameters.
    return losses.contrastive_divergence_loss(-model(positive, low), -model(negative, low))


def score_matching(
    key: Key, model: Density, batch: Samples, *, num_slices: Annotated[int, WHOLE] = 1
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.score_matching_loss``.

    Args:
      num_slices: random directions of each example; 0: exact, along every coordinate
    """
    x = batch.x
    score, slope_along = jax.linearize(jax.grad(lambda x: jnp.sum(model(x))), x)

    def along(direction: jax.Array) -> jax.Array:
        direction = jnp.broadcast_to(direction, x.shape)
        return jnp.sum((direction * slope_along(direction)).reshape(len(x), -1), axis=1)

    if num_slices:
        directions = jax.random.rademacher(key, (num_slices, *x.shape), x.dtype)
        return losses.score_matching_loss(score, jnp.mean(jax.lax.map(along, directions), axis=0))
    units = jnp.eye(x[0].size, dtype=x.dtype).reshape(-1, 1, *x.shape[1:])
    return losses.score_matching_loss(score, jnp.sum(jax.lax.map(along, units), axis=0))


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


def noise_contrastive(
    key: Key,
    model: Density,
    batch: Samples,
    *,
    fitted: samplers.FactorGaussian,
    noise_ratio: Annotated[int, COUNT] = 1,
    noise_scale: Annotated[float, POSITIVE] = 0.1,
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.noise_contrastive_loss``.

    The model's own constant is what is learned of the partition function.

    Args:
      noise_ratio: draws of the noise for each example
      noise_scale: what blurs the Gaussian of the data that the noise is
    """
    x = batch.x
    white = jax.random.normal(key, (noise_ratio * len(x), fitted.mean.size))
    noise = jax.vmap(fitted.place)(white).reshape(-1, *x.shape[1:]).astype(x.dtype)

    def log_noise(x: jax.Array) -> jax.Array:
        squares = jnp.square(jax.vmap(fitted.coordinates_of)(x.reshape(len(x), -1)))
        constant = fitted.log_volume() + 0.5 * fitted.mean.size * np.log(2 * np.pi)
        return -0.5 * jnp.sum(squares, axis=1) - constant

    return losses.noise_contrastive_loss(*(model(some) - log_noise(some) for some in (x, noise)))


def energy_matching(
    key: Key,
    model: Density,
    batch: Samples,
    *,
    step: Any,
    total_steps: int,
    warmup: Annotated[Any, PROBABILITY] = 0.5,
    temperature: Annotated[Any, POSITIVE] = 0.1,
    ramp_start: Annotated[Any, FRACTION] = 0.8,
    contrastive_weight: Annotated[Any, NOT_NEGATIVE] = 1.0,
    num_steps: Annotated[int, COUNT] = 100,
    step_size: Annotated[Any, POSITIVE] = 0.02,
) -> tuple[jax.Array, Metrics]:
    """Returns the loss, see ``losses.energy_matching_loss``.

    The potential is V = temperature E, so that exp(-E) is the density of chains at the temperature.
    From time t the weight of paths falls, and the temperature of chains from noise rises, linearly
    to time 1. Each half of the chains starts from the data, or from noise. Pairs are matched within
    a shard.

    Args:
      warmup: share of the run's steps before contrastive divergence begins
      temperature: temperature of the density that chains follow
      ramp_start: time from which paths fade and chains warm up
      contrastive_weight: weight of contrastive divergence beside the paths
      num_steps: steps of a training chain
      step_size: time of a step; noise reaches the data at time 1
    """
    x, is_second = batch.x, step >= jnp.round(warmup * total_steps)
    noise_key, time_key, start_key, chain_key = jax.random.split(key, 4)
    noise = jax.random.normal(noise_key, x.shape, x.dtype)
    displacement = losses.match_pairs(noise, x) - noise
    time = jax.random.uniform(time_key, (len(x),))
    between = noise + _across(time, x).astype(x.dtype) * displacement
    from_data = jnp.arange(len(x)) < len(x) // 2
    starts = jnp.where(_across(from_data, x), x, jax.random.normal(start_key, x.shape, x.dtype))

    def rise(time: Any) -> jax.Array:
        return jnp.clip((time - ramp_start) / (1.0 - ramp_start), 0.0, 1.0)

    def move(number: jax.Array, x: jax.Array) -> jax.Array:
        warmth = jnp.where(from_data, 1.0, rise(number * step_size))
        scale = jnp.sqrt(2.0 * step_size * temperature * warmth)
        noise = jax.random.normal(jax.random.fold_in(chain_key, number), x.shape, x.dtype)
        score = jax.grad(lambda x: jnp.sum(model.constant(x)))(x)
        return (x + step_size * temperature * score + _across(scale, x) * noise).astype(x.dtype)

    negative = jax.lax.fori_loop(0, jnp.where(is_second, num_steps, 0), move, starts)
    score = temperature * jax.grad(lambda x: jnp.sum(model(x)))(between)
    weights = jnp.where(is_second, 1.0 - rise(time), 1.0)
    paths, metrics = losses.energy_matching_loss(score, displacement, weights=weights)
    contrast, energies = losses.contrastive_divergence_loss(-model(x), -model(negative))
    weight = jnp.where(is_second, contrastive_weight, 0.0) * temperature / x[0].size
    return paths + weight * contrast, {**energies, **metrics}


def fit(config: Config, train: data.ImageData) -> NoiseLevels | samplers.FactorGaussian:
    """Returns what the objective of ``config.loss`` fits to the first training examples.

    Raises:
      ConfigError: if the smallest noise is not below the largest distance of two examples.
    """
    name, section = config.loss.name, config.loss[config.loss.name]
    is_gaussian = name == noise_contrastive.__name__
    most = min(len(train.images), 4000 if is_gaussian else 1000)
    rows = np.asarray(take_rows(train.images, np.arange(most)))
    x = np.asarray(data.to_signed_unit(jnp.asarray(rows)) if rows.dtype == np.uint8 else rows)
    x = x.reshape(most, -1).astype(np.float64)
    if is_gaussian:
        return samplers.fit_factor_gaussian(x, jitter=section.noise_scale**2).one(0)
    squares = np.sum(np.square(x), axis=1)
    highest = float(np.sqrt((squares[:, None] + squares[None] - 2 * x @ x.T).max()))
    lowest, num_levels = section.min_noise_scale, section.get("num_levels")
    if lowest >= highest:
        raise ConfigError(
            f"config.loss.{name}.min_noise_scale must be below the largest distance of two "
            f"examples, {highest:.3g}, got {lowest:g}."
        )
    scale = float(np.sqrt(np.mean(np.square(x))))
    return NoiseLevels(lowest, highest, scale, section.relative_step, num_levels)
