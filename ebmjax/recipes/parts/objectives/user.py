"""Objectives of the user, for ``config.loss.name=FILE.py:FUNCTION``."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.user_parts import UserPart, find_function, find_part
from ebmjax.recipes.parts.objectives.energies import EnergyBatch, energy_means
from ebmjax.recipes.parts.objectives.table import CHAINLESS, ENERGIES, GRADIENT, kind_of
from ebmjax.types import Key, Metrics


def _find(config: Config, kind: str) -> UserPart:
    """Returns the function with ``config.loss.options``, checked to be of a kind."""
    name, found = config.loss.name, kind_of(config)
    arguments = list(inspect.signature(find_function("loss.name", name)).parameters)
    if found != kind:
        raise ConfigError(
            f"config.loss.name={name!r} is a {found}, by its first arguments {arguments[:2]}; "
            f"the family {config.family!r} takes a loss of energies, (positive, negative), or one "
            "without chains, (key, energy, x)."
        )
    least = {GRADIENT: 1, CHAINLESS: 3, ENERGIES: 2}[kind]
    if len(arguments) < least:
        raise ConfigError(
            f"config.loss.name={name!r} must take the energies of data and of samples, "
            "(positive, negative), or (key, energy, x) without chains, or energy_of; it has the "
            f"arguments {arguments}."
        )
    given = ("energy_of", "view", "batch_axis") if kind == GRADIENT else arguments[:least]
    return find_part(config, "loss.name", name, tuple(given))


def energy_objective(config: Config) -> Callable[[Any, EnergyBatch], tuple[jax.Array, Metrics]]:
    """Returns the user's loss of energies as an ``EnergyObjective``.

    The function may return the loss alone, or ``(loss, metrics)``. The means of the energies are
    reported beside its metrics.

    Raises:
      ConfigError: when called, for whatever the function does wrong.
    """
    part = _find(config, ENERGIES)

    def objective(section: Any, energies: EnergyBatch) -> tuple[jax.Array, Metrics]:
        del section
        positive = energies.positive / energies.smoothing
        negative = energies.negative / energies.smoothing
        value, metrics = _check_loss(part, part.call(positive, negative, **part.options))
        return value, {**energy_means(positive, negative), **metrics}

    return objective


def chainless_objective(config: Config) -> Callable[..., tuple[jax.Array, Metrics]]:
    """Returns the user's ``(key, energy, x) -> loss``, or ``(loss, metrics)``, with its options.

    Raises:
      ConfigError: for whatever the function does wrong, also when called.
    """
    part = _find(config, CHAINLESS)

    def loss(key: Key, energy: Any, x: jax.Array) -> tuple[jax.Array, Metrics]:
        return _check_loss(part, part.call(key, energy, x, **part.options))

    return loss


def _check_loss(part: UserPart, found: Any) -> tuple[jax.Array, Metrics]:
    """Returns what a user's loss has returned, as (loss, metrics)."""
    value: Any = found
    metrics: Any = {}
    if isinstance(found, tuple) and len(found) == 2:
        value, metrics = found
    is_scalar = hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jnp.floating)
    if not is_scalar or jnp.shape(value) != () or not isinstance(metrics, Mapping):
        got = f"shape {jnp.shape(value)}" if is_scalar else f"a {type(value).__name__}"
        raise ConfigError(
            f"config.loss.name={part.name!r} must return a loss, a floating-point scalar, or "
            f"(loss, metrics), a dict of scalars beside it; got {got}."
        )
    for name, number in metrics.items():
        if jnp.shape(number) != ():
            raise ConfigError(
                f"config.loss.name={part.name!r} must return metrics that are scalars, got "
                f"{name!r} of shape {jnp.shape(number)}: return its mean."
            )
    return value, dict(metrics)


def gradient_maker(config: Config, **given: Any) -> Any:
    """Returns the gradient function that the user's function makes.

    Args:
      config: ``loss.name`` and ``loss.options`` are read.
      **given: "energy_of", and what the function may take besides.

    Raises:
      ConfigError: for whatever the function does wrong.
    """
    part = _find(config, GRADIENT)
    taken = {name: value for name, value in given.items() if part.takes(name)}
    made = part.call(**taken, **part.options)
    if not callable(made):
        raise ConfigError(
            f"config.loss.name={part.name!r} must return a gradient function (key, params, carry, "
            f"batch) -> (gradient, carry, metrics), got a {type(made).__name__}."
        )
    return made
