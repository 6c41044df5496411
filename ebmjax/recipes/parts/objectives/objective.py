"""The two contracts of objectives, and the one that a configuration names."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax import data, learning, losses
from ebmjax._axes import AxisName
from ebmjax._numbers import as_arguments
from ebmjax.learning import NoiseLevels
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.config.user_parts import is_users
from ebmjax.recipes.parts.objectives import user
from ebmjax.recipes.parts.objectives.energies import EnergyBatch
from ebmjax.recipes.parts.objectives.table import OBJECTIVES
from ebmjax.types import Key, Metrics

EnergyObjective = Callable[[Mapping[str, Any], EnergyBatch], tuple[jax.Array, Metrics]]
"""``(section, energies) -> (loss, metrics)``, the section ``config.loss`` with traced numbers."""

ChainlessObjective = Callable[..., tuple[jax.Array, Metrics]]
"""``(section, key, energy, x) -> (loss, metrics)``, the section ``config.loss.<name>``.

``energy`` takes arrays (N, ...) like ``x``, which the data are, to energies (N,). Of an objective
with noise levels it also takes noise scales (N,). If the file has a function
``fit(section, train)``, its result for the training data is one more argument. An objective that
``has_memory`` is ``(config, train, batch_axis) -> learning.LossWithMemory``.
"""


def make_loss(config: Config) -> Callable[[EnergyBatch], tuple[jax.Array, Metrics]]:
    """Returns the loss of an objective with chains, with the penalty on squared energies.

    The penalty is of the energies themselves, whatever the smoothing: where that adapts, the weight
    of the penalty stays.
    """
    objective = user.energy_objective(config) if is_users(config.loss.name) else _function(config)
    numbers = as_arguments(config.loss.to_dict())

    def loss(energies: EnergyBatch) -> tuple[jax.Array, Metrics]:
        section = numbers()
        value, metrics = objective(section, energies)
        if section.get("max_gap") is not None:
            # 1 where data and samples have equal energies, 0 from the largest gap on.
            gap = jnp.mean(energies.negative) - jnp.mean(energies.positive)
            fade = jnp.clip(1.0 - gap / section["max_gap"], 0.0, 1.0)
            value *= jax.lax.stop_gradient(fade)
        penalty = losses.energy_penalty(section["energy_l2"], energies.positive, energies.negative)
        return value + penalty, {**metrics, "energy_l2": penalty}

    return loss


def make_chainless_loss(
    config: Config, train: data.ImageData, batch_axis: AxisName = None
) -> learning.ChainlessLoss | learning.LossWithMemory:
    """Returns ``(key, energy, x) -> (loss, metrics)``, or a loss with memory.

    Args:
      config: ``config.loss`` is read.
      train: the training data, to which an objective with a function ``fit`` fits what it needs.
      batch_axis: mapped axes whose shards make up one batch, for a loss with memory.

    Raises:
      ConfigError: for whatever a function of the user does wrong, or data that do not fit.
    """
    name = config.loss.name
    if is_users(name):
        return user.chainless_objective(config)
    objective = _function(config)
    if OBJECTIVES[name].has_memory:
        return objective(config, train, batch_axis)
    options = config.loss[name].to_dict()
    fit = getattr(inspect.getmodule(objective), "fit", None)
    fitted = {} if fit is None else {"fitted": fit(options, train)}
    numbers = as_arguments({"options": options, **fitted})

    def loss(key: Key, energy: Any, x: jax.Array) -> tuple[jax.Array, Metrics]:
        section, *fitted = numbers().values()
        return objective(section, key, energy, x, *fitted)

    return loss


def noise_levels(config: Config, train: data.ImageData) -> NoiseLevels | None:
    """Returns the levels of an objective whose energy is E(x, noise); None of others.

    Raises:
      ConfigError: if they are out of order.
    """
    name = config.loss.name
    if is_users(name) or not OBJECTIVES[name].has_levels:
        return None
    fit = getattr(inspect.getmodule(_function(config)), "fit")  # noqa: B009
    return fit(config.loss[name].to_dict(), train)


def _function(config: Config) -> Any:
    name = config.loss.name
    module = importlib.import_module(f"ebmjax.recipes.parts.objectives.{name}")
    return getattr(module, f"{name}_loss" if OBJECTIVES[name].draws else name)
