"""Objectives of a joint model: the table of losses of p(x), and what goes with them."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax import learning, losses
from ebmjax._numbers import as_arguments
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.config.user_parts import is_users
from ebmjax.recipes.models.build import SHARD_AXES, batch_axis
from ebmjax.recipes.parts.user_losses import EnergyLoss, energy_loss
from ebmjax.types import Metrics


def objective(config: Config) -> learning.JointObjective:
    """The loss of ``config.loss``, with SAM as ``config.optimizer`` says."""
    loss = config.loss
    return learning.JointObjective(
        generative_loss=_generative_loss(config),
        generative_weight=loss.generative_weight,
        is_conditional=loss.is_conditional,
        density_scale=_density_scale(config),
        rho=config.optimizer.rho,
        is_adaptive=config.optimizer.adaptive,
        smoothing_ratio=loss.smoothing_ratio,
        smoothing_rate=loss.smoothing_rate,
        axis_name=SHARD_AXES,
        batch_axis=batch_axis(config),
    )


def _generative_loss(config: Config) -> learning.GenerativeLoss:
    """The loss of p(x) proportional to exp(f / alpha), alpha the smoothing, and the penalty.

    The penalty and the metrics are of f itself, whatever the smoothing: where that adapts, the
    weight of the penalty stays.
    """
    loss = config.loss
    term = _own(energy_loss(config)) if is_users(loss.name) else GENERATIVE_LOSSES[loss.name]
    numbers = as_arguments(loss.to_dict())

    def generative_loss(positive: jax.Array, negative: jax.Array, smoothing: jax.Array) -> Any:
        section = numbers()
        value, metrics = term(section, positive, negative, smoothing)
        penalty = losses.energy_penalty(section["energy_l2"], positive, negative)
        return value + penalty, {**metrics, "energy_l2": penalty}

    return generative_loss


def _own(users: EnergyLoss) -> Callable[..., tuple[jax.Array, Metrics]]:
    """Returns a loss of the user on the energies of p(x), E = -f / alpha."""

    def loss(
        section: Mapping[str, Any], positive: jax.Array, negative: jax.Array, smoothing: jax.Array
    ) -> tuple[jax.Array, Metrics]:
        del section
        value, metrics = users(-positive / smoothing, -negative / smoothing)
        return value, {**metrics, "log_density_gap": jnp.mean(positive) - jnp.mean(negative)}

    return loss


def _contrastive_divergence(
    section: Mapping[str, Any], positive: jax.Array, negative: jax.Array, smoothing: jax.Array
) -> tuple[jax.Array, Metrics]:
    del section
    value, metrics = losses.contrastive_divergence_loss(-positive, -negative)
    return value / smoothing, metrics


def _beta_objective(
    section: Mapping[str, Any], positive: jax.Array, negative: jax.Array, smoothing: jax.Array
) -> tuple[jax.Array, Metrics]:
    value, metrics = losses.beta_objective_loss(
        positive / smoothing,
        negative / smoothing,
        beta=section["beta"],
        variant=section["beta_variant"],
        output_scale=section["output_scale"],
    )
    means = {
        "positive_log_density": jnp.mean(positive),
        "negative_log_density": jnp.mean(negative),
        "log_density_gap": jnp.mean(positive) - jnp.mean(negative),
    }
    return value, {**metrics, **means}


def _svgd_objective(
    section: Mapping[str, Any], positive: jax.Array, negative: jax.Array, smoothing: jax.Array
) -> tuple[jax.Array, Metrics]:
    return losses.svgd_generative_loss(
        positive, negative, smoothing=smoothing, variant=section["svgd_variant"]
    )


GENERATIVE_LOSSES = {
    "contrastive_divergence": _contrastive_divergence,
    "beta": _beta_objective,
    "svgd": _svgd_objective,
}


def _density_scale(config: Config) -> float:
    """1 - beta under the beta objective: the weights carry the rest of the density."""
    if config.loss.name != "beta":
        return 1.0
    beta = config.loss.sampling_beta
    return 1.0 - (config.loss.beta if beta is None else beta)
