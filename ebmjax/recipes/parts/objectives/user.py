"""Objectives of the user, for ``config.loss.name=FILE.py:FUNCTION``."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.user_parts import UserPart, find_function, find_part
from ebmjax.types import Metrics

TAKEN = ["key", "model", "batch"]


def user_objective(config: Config) -> Callable[..., tuple[jax.Array, Metrics]]:
    """Returns the user's ``(key, model, batch)``, or with ``negatives``, with its options.

    The function may return the loss alone, or ``(loss, metrics)``.

    Raises:
      ConfigError: for whatever the function does wrong, also when called.
    """
    name = config.loss.name
    arguments = list(inspect.signature(find_function("loss.name", name)).parameters)
    if arguments[:3] != TAKEN:
        raise ConfigError(
            f"config.loss.name={name!r} must take (key, model, batch), and negatives if it needs "
            f"chains; it has the arguments {arguments}."
        )
    given = [*TAKEN, "negatives"] if "negatives" in arguments else TAKEN
    part = find_part(config, "loss.name", name, tuple(given))
    return lambda *given: _check_loss(part, part.call(*given, **part.options))


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
