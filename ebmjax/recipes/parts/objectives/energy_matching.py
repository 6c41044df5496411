"""Energy matching: straight paths from noise to the data, then contrastive divergence there."""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax import data, losses
from ebmjax.learning import Density, Samples
from ebmjax.recipes.config.by_images import total_steps
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.parts.objectives.fitting import across
from ebmjax.types import Key, Metrics


def fit(config: Config, train: data.ImageData) -> int:
    """Returns the number of steps before contrastive divergence begins."""
    steps_per_epoch = len(train.images) // config.train.batch_size
    return round(config.loss.energy_matching.warmup * total_steps(config, steps_per_epoch))


def energy_matching(
    key: Key,
    model: Density,
    batch: Samples,
    *,
    step: Any,
    fitted: int,
    temperature: Any = 0.1,
    ramp_start: Any = 0.8,
    contrastive_weight: Any = 1.0,
    num_steps: int = 100,
    step_size: Any = 0.02,
) -> tuple[jax.Array, Metrics]:
    """Returns the loss, see ``losses.energy_matching_loss``.

    The potential is V = temperature E, so that exp(-E) is the density of chains at the temperature.
    From time t the weight of paths falls, and the temperature of chains from noise rises, linearly
    to time 1. Each half of the chains starts from the data, or from noise. The first ``fitted``
    steps have paths alone; pairs are matched within a shard.
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
