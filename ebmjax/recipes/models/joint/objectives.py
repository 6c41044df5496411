"""The objective of a joint model: the loss of p(x) that its configuration names, and SAM."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax import data, learning
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.config.user_parts import is_users
from ebmjax.recipes.models.build import SHARD_AXES, batch_axis
from ebmjax.recipes.parts.objectives.energies import EnergyBatch
from ebmjax.recipes.parts.objectives.objective import make_chainless_loss, make_loss
from ebmjax.recipes.parts.objectives.table import draws


def objective(config: Config, train: data.ImageData) -> learning.JointObjective:
    """The loss of ``config.loss``, with SAM as ``config.optimizer`` says."""
    loss, axis, chains_beta = config.loss, batch_axis(config), 0.0
    if loss.name == "beta":  # the weights carry the rest of the density
        chains_beta = loss.beta if loss.sampling_beta is None else loss.sampling_beta
    is_chainless = bool(loss.generative_weight) and not draws(config)
    return learning.JointObjective(
        generative_loss=None if is_chainless else _generative_loss(make_loss(config), loss.name),
        chainless_loss=make_chainless_loss(config, train, axis) if is_chainless else None,
        generative_weight=loss.generative_weight,
        is_conditional=loss.is_conditional,
        density_scale=1.0 - chains_beta,
        rho=config.optimizer.rho,
        is_adaptive=config.optimizer.adaptive,
        smoothing_ratio=loss.smoothing_ratio,
        smoothing_rate=loss.smoothing_rate,
        axis_name=SHARD_AXES,
        batch_axis=axis,
    )


def _generative_loss(objective: Callable[..., Any], name: str) -> learning.GenerativeLoss:
    """The loss of p(x) proportional to exp(f / alpha), alpha the smoothing, and the penalty."""

    def generative_loss(positive: jax.Array, negative: jax.Array, smoothing: jax.Array) -> Any:
        value, metrics = objective(EnergyBatch(-positive, -negative, smoothing))
        gap = jnp.mean(positive) - jnp.mean(negative)
        users = {"log_density_gap": gap} if is_users(name) else {}
        return value, {**metrics, **users}

    return generative_loss
