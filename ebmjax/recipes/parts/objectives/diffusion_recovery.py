"""Diffusion recovery likelihood: short chains, each from a noisier level to the one below."""

import jax
import jax.numpy as jnp

from ebmjax import data
from ebmjax.learning import Density, NoiseLevels, Samples
from ebmjax.losses import contrastive_divergence_loss
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.parts.objectives import denoising_levels
from ebmjax.recipes.parts.objectives.fitting import across
from ebmjax.samplers import run_recovery_chains
from ebmjax.types import Key, Metrics


def fit(config: Config, train: data.ImageData) -> NoiseLevels:
    """Returns the levels of the section; the training data say what it leaves open.

    Raises:
      ConfigError: if the smallest noise is not below the largest, or chains would diverge.
    """
    section = config.loss.diffusion_recovery
    levels = denoising_levels.fit(config, train)._replace(num_levels=section.num_levels)
    # At a level of noise n the curvature of the energy and of its bond is up to 1 / n^2 + 1 / t^2.
    steepest = (levels.highest / levels.lowest) ** (2 / section.num_levels)
    if levels.relative_step * steepest >= 2:
        raise ConfigError(
            "config.loss.diffusion_recovery.relative_step must be below "
            f"{2 / steepest:.2g} for num_levels={levels.num_levels} between noises of "
            f"{levels.lowest:g} and {levels.highest:.3g}, got {levels.relative_step:g}: chains "
            "would diverge. Take a smaller step, or more levels."
        )
    return levels


def diffusion_recovery(
    key: Key, model: Density, batch: Samples, *, num_steps: int, fitted: NoiseLevels
) -> tuple[jax.Array, Metrics]:
    """Returns contrastive divergence of p(x_t given x_{t+1}), without a buffer.

    The levels take turns among the examples. The chains start at x_{t+1}, see
    ``samplers.run_recovery_chains``.
    """
    x, num_levels = batch.x, fitted.num_levels
    assert num_levels is not None
    shift_key, low_key, step_key, chain_key = jax.random.split(key, 4)
    first = jax.random.randint(shift_key, (), 0, num_levels)
    level = (first + jnp.arange(len(x))) % num_levels
    low, between = fitted.noise_at(level), fitted.noise_between(level)
    noises = [jax.random.normal(one, x.shape, x.dtype) for one in (low_key, step_key)]
    positive = x + across(low.astype(x.dtype), x) * noises[0]
    noisy = positive + across(between.astype(x.dtype), x) * noises[1]
    negative = run_recovery_chains(
        chain_key,
        noisy,
        lambda x: model.constant(x, low),
        noise_scale=between,
        num_steps=num_steps,
        relative_step=fitted.relative_step,
    )
    # The term of x_{t+1} has no parameters.
    return contrastive_divergence_loss(-model(positive, low), -model(negative, low))
