"""The objective that a configuration names, for models with labels and without."""

import importlib
import inspect
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax

from ebmjax import data, learning, losses
from ebmjax.learning import Density, NoiseLevels, Samples
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.config.user_parts import is_users
from ebmjax.recipes.parts.objectives import user
from ebmjax.recipes.parts.objectives.table import OBJECTIVES
from ebmjax.types import Key, Metrics


def make_loss(
    config: Config, train: data.ImageData, total_steps: int = 0
) -> tuple[learning.Loss, dict[str, Any]]:
    """Returns the loss of ``config.loss``, and its numbers, see ``learning.Loss``.

    An objective is ``name(key, model, batch, negatives, *, ...)``, without ``negatives`` where it
    needs no chains. Of the fields of ``config.loss`` and of its section it is given those that it
    takes, and "smoothing", "step" and "fitted", the result of ``fit(config, train)`` of its file.

    With chains it has the penalty on the network's squared log densities, whatever the smoothing:
    where that adapts, the weight of the penalty stays. The beta of several samplers also reports
    "negative_weight_<sampler>", the share of the weights that its chains have.
    """
    name, names = config.loss.name, config.sampler.get("names", ())
    objective = user.user_objective(config) if is_users(name) else _function(name)
    fields = config.loss.to_dict()
    if OBJECTIVES.get(name) and OBJECTIVES[name].section:
        fields |= fields[name]
    taken = () if is_users(name) else inspect.signature(objective).parameters
    general = {"beta", "beta_start", "energy_l2", "max_gap"}
    numbers = {key: value for key, value in fields.items() if key in {*taken, *general}}
    if "fitted" in taken:
        numbers["fitted"] = _fit(name)(config, train)

    def loss(
        key: Key,
        model: Density,
        batch: Samples,
        negatives: Samples | None,
        numbers: Mapping[str, Any],
    ) -> tuple[jax.Array, Metrics]:
        given = dict(numbers)
        if "beta" in taken:
            given["beta"] = scheduled_beta(numbers, total_steps)
        options = {name: given[name] for name in taken if name in given}
        if negatives is None:
            return objective(key, model, batch, **options)
        value, metrics = objective(key, model, batch, negatives, **options)
        positive, negative = -jnp.mean(batch.f), -jnp.mean(negatives.f)
        if numbers["max_gap"] is not None:
            # 1 where data and samples have equal energies, 0 from the largest gap on.
            fade = jnp.clip(1.0 - (negative - positive) / numbers["max_gap"], 0.0, 1.0)
            value *= jax.lax.stop_gradient(fade)
        penalty = losses.energy_penalty(numbers["energy_l2"], batch.f, negatives.f)
        metrics = {
            **metrics,
            "positive_energy": positive,
            "negative_energy": negative,
            "energy_gap": negative - positive,
            "energy_l2": penalty,
        }
        if name == "beta" and len(names) > 1:
            weights = jax.nn.softmax(given["beta"] * given["output_scale"] * negatives.log_density)
            # ``run_chains`` returns equal parts, in the order of the names.
            shares = jnp.sum(weights.reshape(len(names), -1), axis=1)
            metrics |= {f"negative_weight_{n}": s for n, s in zip(names, shares, strict=True)}
        return value + penalty, metrics

    return loss, numbers


def scheduled_beta(numbers: Mapping[str, Any], total_steps: int) -> Any:
    """Returns beta at ``numbers["step"]``: constant, or linear from ``beta_start``."""
    start = numbers.get("beta_start")
    if start is None:
        return numbers["beta"]
    return optax.linear_schedule(start, numbers["beta"], total_steps)(numbers["step"])


def chains_beta(config: Config, numbers: Mapping[str, Any], total_steps: int) -> Any:
    """Returns the share of the density that chains lack at a step; 0 without the objective."""
    if config.loss.name != "beta":
        return 0.0
    return scheduled_beta(numbers, total_steps)


def noise_levels(config: Config, train: data.ImageData) -> NoiseLevels | None:
    """Returns the levels of an objective whose model is of (x, noise); None of others.

    Raises:
      ConfigError: if they are out of order.
    """
    name = config.loss.name
    has_loss = config.loss.get("generative_weight", 1.0) > 0
    if not has_loss or is_users(name) or not OBJECTIVES[name].has_levels:
        return None
    return _fit(name)(config, train)


def _fit(name: str) -> Any:
    return importlib.import_module(f"ebmjax.recipes.parts.objectives.{name}").fit


def _function(name: str) -> Any:
    module = importlib.import_module(f"ebmjax.recipes.parts.objectives.{name}")
    return getattr(module, name)
