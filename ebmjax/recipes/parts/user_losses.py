"""Losses and objectives of the user, for ``config.loss.name=FILE.py:FUNCTION``."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.user_parts import UserPart, find_function, find_part
from ebmjax.types import Metrics

EnergyLoss = Callable[[jax.Array, jax.Array], tuple[jax.Array, Metrics]]
"""``(positive energies, negative energies) -> (loss, metrics)``, energies of shape (N,) in nats."""


def find_loss(config: Config) -> UserPart:
    """Returns the function that ``config.loss.name`` names, with ``config.loss.options``."""
    name = config.loss.name
    arguments = list(inspect.signature(find_function("loss.name", name)).parameters)
    if makes_gradient(arguments):
        return find_part(config, "loss.name", name, ("energy_of", "view", "batch_axis"))
    if len(arguments) < 2:
        raise ConfigError(
            f"config.loss.name={name!r} must take the energies of data and of samples, "
            f"(positive, negative), or energy_of; it has the arguments {arguments}."
        )
    return find_part(config, "loss.name", name, arguments[:2])


def makes_gradient(arguments: list[str]) -> bool:
    """Returns whether a function of these arguments makes a gradient function from an energy."""
    return arguments[:1] == ["energy_of"]


def energy_loss(config: Config) -> EnergyLoss:
    """Returns the user's loss of energies.

    The function may return the loss alone, or ``(loss, metrics)``. The means of the energies are
    reported beside its metrics.

    Raises:
      ConfigError: when called, for whatever the function does wrong.
    """
    part = find_loss(config)

    def loss(positive: jax.Array, negative: jax.Array) -> tuple[jax.Array, Metrics]:
        found = part.call(positive, negative, **part.options)
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
        return value, {**energy_means(positive, negative), **metrics}

    return loss


def energy_means(positive: jax.Array, negative: jax.Array) -> Metrics:
    """Returns the mean energies of data and samples, and their gap, in nats."""
    return {
        "positive_energy": jnp.mean(positive),
        "negative_energy": jnp.mean(negative),
        "energy_gap": jnp.mean(negative) - jnp.mean(positive),
    }


def gradient_maker(config: Config, **given: Any) -> Any:
    """Returns the gradient function that the user's function makes; None if it makes none.

    Args:
      config: ``loss.name`` and ``loss.options`` are read.
      **given: "energy_of", and what the function may take besides.

    Raises:
      ConfigError: for whatever the function does wrong.
    """
    part = find_loss(config)
    if not part.takes("energy_of"):
        return None
    taken = {name: value for name, value in given.items() if part.takes(name)}
    made = part.call(**taken, **part.options)
    if not callable(made):
        raise ConfigError(
            f"config.loss.name={part.name!r} must return a gradient function (key, params, carry, "
            f"batch) -> (gradient, carry, metrics), got a {type(made).__name__}."
        )
    return made
