"""Jarzynski-corrected persistent chains: contrastive divergence by weighted walkers, and log Z."""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax import data, learning, losses, samplers
from ebmjax._axes import AxisName
from ebmjax._numbers import as_arguments
from ebmjax.recipes.config.errors import Config
from ebmjax.types import Key, Metrics


def jarzynski(
    config: Config, train: data.ImageData, batch_axis: AxisName
) -> learning.LossWithMemory:
    """Returns the loss whose memory is ``learning.Walkers``, see ``learning.advance_walkers``.

    In a box, ``sampler.box`` other than none, walkers start uniform and are reflected at its walls.
    Elsewhere they start Gaussian.
    """
    section, shape = config.loss.jarzynski, train.images.shape[1:]
    box = None if config.sampler.box == "none" else (config.sampler.low, config.sampler.high)
    numbers = as_arguments({"step_size": section.step_size})
    size = jnp.zeros(shape).size
    if box is None:
        start_fn = samplers.gaussian_start(shape, 0.0, section.start_scale)
        width = section.start_scale * (2 * jnp.pi) ** 0.5
    else:
        start_fn = samplers.uniform_start(shape, *box)
        width = box[1] - box[0]

    def log_start_density(x: jax.Array) -> jax.Array:
        squares = 0.0 if box else 0.5 * jnp.sum(jnp.square(x / section.start_scale))
        return -squares - size * jnp.log(width)

    def draw(key: Key, energy: Any, x: jax.Array, walkers: learning.Walkers) -> Any:
        del x
        walkers, samples, metrics = learning.advance_walkers(
            key,
            walkers,
            energy,
            **numbers(),
            num_moves=section.num_moves,
            box=box,
            axis_name=batch_axis,
        )
        return (samples, metrics["log_normalizer"]), walkers, metrics

    def loss(energy: Any, x: jax.Array, drawn: Any) -> tuple[jax.Array, Metrics]:
        samples, log_normalizer = drawn
        value, metrics = losses.contrastive_divergence_loss(
            energy(x), energy(samples.positions), weights=samples.weights
        )
        log_likelihood = -metrics["positive_energy"] - log_normalizer
        return value, {**metrics, "log_likelihood": log_likelihood}

    def init(key: Key) -> learning.Walkers:
        num = section.num_walkers // config.mesh.num_shards
        return learning.init_walkers(key, num, start_fn, log_start_density)

    return learning.LossWithMemory(init, draw, loss)
