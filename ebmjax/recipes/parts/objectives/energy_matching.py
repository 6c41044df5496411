"""Energy matching: straight paths from noise to the data, then contrastive divergence there."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax import data, learning, losses
from ebmjax._axes import AxisName
from ebmjax._numbers import as_arguments
from ebmjax.recipes.config.by_images import total_steps
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.parts.objectives.fitting import across
from ebmjax.types import Key, Metrics


class Drawn(NamedTuple):
    """Draws of one step.

    Attributes:
      between: points of the paths, (N, ...).
      displacement: data minus noise of their pairs, like ``between``.
      weights: of the pairs, (N,).
      negative: ends of the chains, (N, ...); in the first phase their starts.
      contrastive_weight: scalar, 0 in the first phase.
    """

    between: jax.Array
    displacement: jax.Array
    weights: jax.Array
    negative: jax.Array
    contrastive_weight: jax.Array


def energy_matching(
    config: Config, train: data.ImageData, batch_axis: AxisName
) -> learning.LossWithMemory:
    """Returns the loss, see ``losses.energy_matching_loss``; its memory counts the steps.

    The potential is V = temperature E, so that exp(-E) is the density of chains at the temperature.
    From time t the weight of paths falls, and the temperature of chains from noise rises, linearly
    to time 1. Each half of the chains starts from the data, or from noise.
    """
    del batch_axis  # pairs are matched within a shard
    section = config.loss.energy_matching
    steps_per_epoch = len(train.images) // config.train.batch_size
    first_steps = round(section.warmup * total_steps(config, steps_per_epoch))
    numbers = as_arguments(section.to_dict())

    def rise(time: Any) -> jax.Array:
        start = numbers()["ramp_start"]
        return jnp.clip((time - start) / (1.0 - start), 0.0, 1.0)

    def run_chains(key: Key, energy: Any, starts: jax.Array, from_data: Any, num: Any) -> jax.Array:
        step_size, temperature = numbers()["step_size"], numbers()["temperature"]
        gradient_fn = jax.grad(lambda x: jnp.sum(energy(x)))

        def move(step: jax.Array, x: jax.Array) -> jax.Array:
            warmth = jnp.where(from_data, 1.0, rise(step * step_size))
            scale = jnp.sqrt(2.0 * step_size * temperature * warmth)
            noise = jax.random.normal(jax.random.fold_in(key, step), x.shape, x.dtype)
            drift = step_size * temperature * gradient_fn(x)
            return (x - drift + across(scale, x) * noise).astype(x.dtype)

        return jax.lax.fori_loop(0, num, move, starts)

    def draw(key: Key, energy: Any, x: jax.Array, step: jax.Array) -> Any:
        noise_key, time_key, start_key, chain_key = jax.random.split(key, 4)
        noise = jax.random.normal(noise_key, x.shape, x.dtype)
        displacement = losses.match_pairs(noise, x) - noise
        time = jax.random.uniform(time_key, (len(x),))
        is_second = step >= first_steps
        from_data = jnp.arange(len(x)) < len(x) // 2
        fresh = jax.random.normal(start_key, x.shape, x.dtype)
        starts = jnp.where(across(from_data, x), x, fresh)
        num = jnp.where(is_second, section.num_steps, 0)
        drawn = Drawn(
            between=noise + across(time, x).astype(x.dtype) * displacement,
            displacement=displacement,
            weights=jnp.where(is_second, 1.0 - rise(time), 1.0),
            negative=run_chains(chain_key, energy, starts, from_data, num),
            contrastive_weight=jnp.where(is_second, numbers()["contrastive_weight"], 0.0),
        )
        return drawn, step + 1, {}

    def loss(energy: Any, x: jax.Array, drawn: Drawn) -> tuple[jax.Array, Metrics]:
        temperature = numbers()["temperature"]
        gradient = jax.grad(lambda x: jnp.sum(energy(x)))(drawn.between)
        paths, metrics = losses.energy_matching_loss(
            -temperature * gradient, drawn.displacement, weights=drawn.weights
        )
        contrast, energies = losses.contrastive_divergence_loss(energy(x), energy(drawn.negative))
        weight = drawn.contrastive_weight * temperature / x[0].size
        return paths + weight * contrast, {**energies, **metrics}

    return learning.LossWithMemory(lambda key: jnp.zeros((), jnp.int32), draw, loss)
