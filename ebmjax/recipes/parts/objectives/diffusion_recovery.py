"""Diffusion recovery likelihood: short chains, each from a noisier level to the one below."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax import data
from ebmjax.learning import NoiseLevels
from ebmjax.losses import contrastive_divergence_loss
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.parts.objectives import denoising_levels
from ebmjax.recipes.parts.objectives.fitting import across
from ebmjax.samplers import run_recovery_chains
from ebmjax.types import Key, Metrics


def fit(section: Mapping[str, Any], train: data.ImageData) -> NoiseLevels:
    """Returns the levels of the section; the training data say what it leaves open.

    Raises:
      ConfigError: if the smallest noise is not below the largest, or chains would diverge.
    """
    levels = denoising_levels.fit(section, train)._replace(num_levels=section["num_levels"])
    # At a level of noise n the curvature of the energy and of its bond is up to 1 / n^2 + 1 / t^2.
    steepest = (levels.highest / levels.lowest) ** (2 / section["num_levels"])
    if levels.relative_step * steepest >= 2:
        raise ConfigError(
            "config.loss.diffusion_recovery.relative_step must be below "
            f"{2 / steepest:.2g} for num_levels={levels.num_levels} between noises of "
            f"{levels.lowest:g} and {levels.highest:.3g}, got {levels.relative_step:g}: chains "
            "would diverge. Take a smaller step, or more levels."
        )
    return levels


def diffusion_recovery(
    section: Mapping[str, Any],
    key: Key,
    energy: Callable[..., jax.Array],
    x: jax.Array,
    levels: NoiseLevels,
) -> tuple[jax.Array, Metrics]:
    """A ``ChainlessObjective``: contrastive divergence of p(x_t given x_{t+1}), no buffer.

    The levels take turns among the examples. The chains start at x_{t+1}, see
    ``samplers.run_recovery_chains``.
    """
    num_levels = section["num_levels"]
    shift_key, low_key, step_key, chain_key = jax.random.split(key, 4)
    first = jax.random.randint(shift_key, (), 0, num_levels)
    level = (first + jnp.arange(len(x))) % num_levels
    low, between = levels.noise_at(level), levels.noise_between(level)
    noises = [jax.random.normal(one, x.shape, x.dtype) for one in (low_key, step_key)]
    positive = x + across(low.astype(x.dtype), x) * noises[0]
    noisy = positive + across(between.astype(x.dtype), x) * noises[1]
    negative = run_recovery_chains(
        chain_key,
        noisy,
        lambda x: -energy(x, low),
        noise_scale=between,
        num_steps=section["num_steps"],
        relative_step=levels.relative_step,
    )
    negative = jax.lax.stop_gradient(negative)
    # The term of x_{t+1} has no parameters.
    return contrastive_divergence_loss(energy(positive, low), energy(negative, low))
