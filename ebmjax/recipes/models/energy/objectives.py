"""Objectives of an image energy: the table of losses, and those that draw no negatives."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax

from ebmjax import learning, losses
from ebmjax._numbers import as_arguments
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.config.user_parts import is_users
from ebmjax.recipes.models.build import batch_axis
from ebmjax.recipes.models.energy.parts import view
from ebmjax.recipes.parts.user_losses import EnergyLoss, energy_loss, energy_means, gradient_maker
from ebmjax.training import GradientFn
from ebmjax.types import Metrics


def _contrastive_divergence(
    section: Mapping[str, Any], positive: jax.Array, negative: jax.Array, beta: Any
) -> tuple[jax.Array, Metrics]:
    del beta
    return losses.contrastive_divergence_loss(positive, negative, energy_l2=section["energy_l2"])


def _improved(
    section: Mapping[str, Any],
    positive: jax.Array,
    negative: jax.Array,
    beta: Any,
    live: jax.Array,
    entropy: jax.Array,
) -> tuple[jax.Array, Metrics]:
    del beta
    weights = {name: section[name] for name in ("energy_l2", "kl_weight", "entropy_weight")}
    return losses.improved_contrastive_divergence_loss(positive, negative, live, entropy, **weights)


def _beta_objective(
    section: Mapping[str, Any], positive: jax.Array, negative: jax.Array, beta: Any
) -> tuple[jax.Array, Metrics]:
    value, metrics = losses.beta_objective_loss(
        -positive,
        -negative,
        beta=beta,
        variant=section["beta_variant"],
        output_scale=section["output_scale"],
        allow_negative=section["allow_negative"],
    )
    penalty = losses.energy_penalty(section["energy_l2"], positive, negative)
    energies = energy_means(positive, negative)
    return value + penalty, {**metrics, **energies, "energy_l2": penalty}


def _own(users: EnergyLoss) -> Callable[..., tuple[jax.Array, Metrics]]:
    """Returns a loss of the user with the penalty on squared energies."""

    def loss(
        section: Mapping[str, Any], positive: jax.Array, negative: jax.Array, beta: Any
    ) -> tuple[jax.Array, Metrics]:
        del beta
        value, metrics = users(positive, negative)
        penalty = losses.energy_penalty(section["energy_l2"], positive, negative)
        return value + penalty, {**metrics, "energy_l2": penalty}

    return loss


LOSSES = {
    "contrastive_divergence": _contrastive_divergence,
    "improved": _improved,
    "beta": _beta_objective,
}


def loss(config: Config) -> learning.EnergyLoss:
    """The loss of ``config.loss``.

    That of beta also reports "negative_weight_<sampler>" of several: the share of the weights that
    its chains have.
    """
    name = config.loss.name
    loss_fn: Any = _own(energy_loss(config)) if is_users(name) else LOSSES[name]
    numbers, names = as_arguments(config.loss.to_dict()), config.sampler.names
    if config.loss.name != "beta" or len(names) == 1:
        return lambda *given: loss_fn(numbers(), *given)

    def with_shares(positive: jax.Array, negative: jax.Array, beta: Any) -> Any:
        section = numbers()
        value, metrics = loss_fn(section, positive, negative, beta)
        weights = jax.nn.softmax(-beta * section["output_scale"] * negative)
        # ``run_chains`` returns equal parts, in the order of the names.
        shares = jnp.sum(weights.reshape(len(names), -1), axis=1)
        return value, metrics | {
            f"negative_weight_{name}": share for name, share in zip(names, shares, strict=True)
        }

    return with_shares


def gradient_without_chains(config: Config, energy_of: learning.EnergyOf) -> GradientFn | None:
    """Returns the gradient function of an objective that draws no negatives; None for others."""
    name = config.loss.name
    if is_users(name):
        given = {"view": view(config), "batch_axis": batch_axis(config)}
        return gradient_maker(config, energy_of=energy_of, **given)
    if name != "denoising":
        return None
    numbers = as_arguments({"noise_scale": config.loss.noise_scale})

    def gradient_fn(*given: Any) -> Any:
        make = learning.make_denoising_gradient_fn
        return make(energy_of, view=view(config), **numbers())(*given)

    return gradient_fn


def last_beta(config: Config) -> float:
    """Returns the share of the energy that chains lack at the end of training."""
    return config.loss.beta if config.loss.name == "beta" else 0.0


def beta_fn(config: Config, total_steps: int) -> Callable[[jax.Array], Any]:
    """Beta at a step: constant, or linear from ``loss.beta_start``; 0 without the objective."""
    if config.loss.name != "beta":
        return lambda step: 0.0
    numbers = as_arguments({"start": config.loss.beta_start, "end": config.loss.beta})

    def beta(step: jax.Array) -> Any:
        ends = numbers()
        if ends["start"] is None:
            return ends["end"]
        return optax.linear_schedule(ends["start"], ends["end"], total_steps)(step)

    return beta
