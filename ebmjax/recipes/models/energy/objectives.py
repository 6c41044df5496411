"""The gradient of an energy's training step, by the objective that the configuration names."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from ebmjax import data, learning
from ebmjax._numbers import as_arguments
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.config.user_parts import is_users
from ebmjax.recipes.models.build import batch_axis
from ebmjax.recipes.models.energy import parts
from ebmjax.recipes.parts.objectives import user
from ebmjax.recipes.parts.objectives.energies import EnergyBatch, energy_means
from ebmjax.recipes.parts.objectives.objective import make_chainless_loss, make_loss
from ebmjax.recipes.parts.objectives.table import GRADIENT, draws, kind_of
from ebmjax.training import GradientFn
from ebmjax.types import Key, PyTree


def make_gradient_fn(
    config: Config,
    energy_of: learning.EnergyOf,
    plan: learning.ChainPlan,
    beta_fn: Callable[[jax.Array], Any],
    train: data.ImageData,
) -> tuple[GradientFn, Callable[[Key], PyTree] | None]:
    """Returns the gradient function of ``config.loss``, and what makes its memory if it has one.

    ``plan`` draws the samples it needs.
    """
    view = parts.view(config)
    if draws(config):
        gradient_fn = learning.make_image_gradient_fn(
            energy_of,
            loss(config),
            view=view,
            plan=plan,
            beta_fn=beta_fn,
            live=parts.live_steps(config),
            batch_axis=batch_axis(config),
        )
        return gradient_fn, None
    if is_users(config.loss.name) and kind_of(config) == GRADIENT:
        given = {"energy_of": energy_of, "view": view, "batch_axis": batch_axis(config)}
        return user.gradient_maker(config, **given), None
    loss_fn = make_chainless_loss(config, train, batch_axis(config))
    gradient_fn = learning.make_chainless_gradient_fn(energy_of, loss_fn, view=view)
    return gradient_fn, getattr(loss_fn, "init", None)


def loss(config: Config) -> learning.EnergyLoss:
    """Returns the loss of an objective with chains.

    That of beta also reports "negative_weight_<sampler>" of several: the share of the weights that
    its chains have.
    """
    objective, names = make_loss(config), config.sampler.names
    is_shared = config.loss.name == "beta" and len(names) > 1
    scale = as_arguments({"output_scale": config.loss.output_scale})

    def loss_fn(positive: jax.Array, negative: jax.Array, beta: Any, *live: jax.Array) -> Any:
        of_chains = dict(zip(("live", "entropy"), live, strict=False))
        energies = EnergyBatch(positive, negative, beta=beta, **of_chains)
        value, metrics = objective(energies)
        metrics = {**energy_means(positive, negative), **metrics}
        if is_shared:
            weights = jax.nn.softmax(-beta * scale()["output_scale"] * negative)
            # ``run_chains`` returns equal parts, in the order of the names.
            shares = jnp.sum(weights.reshape(len(names), -1), axis=1)
            for name, share in zip(names, shares, strict=True):
                metrics[f"negative_weight_{name}"] = share
        return value, metrics

    return loss_fn


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
