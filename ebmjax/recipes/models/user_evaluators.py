"""Evaluations of the user, for ``config.eval.functions=("FILE.py:FUNCTION",)``."""

import inspect
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.user_parts import UserPart, find_function, find_part
from ebmjax.recipes.models.build import Experiment, root_keys

GIVEN = "model, images, key"


def find_evaluators(config: Config) -> list[UserPart]:
    """Returns the functions that ``config.eval.functions`` names, with ``config.eval.options``.

    Raises:
      ConfigError: if one is missing, or does not take a model, images and a key.
    """
    found = []
    for name in config.eval.get("functions", ()):
        arguments = list(inspect.signature(find_function("eval.functions", name)).parameters)
        if len(arguments) < 3:
            raise ConfigError(
                f"config.eval.functions={name!r} must take ({GIVEN}); it has {arguments}."
            )
        found.append(find_part(config, "eval.functions", name, arguments[:3]))
    return found


def with_evaluators(config: Config, experiment: Experiment) -> Experiment:
    """Returns the experiment with the user's numbers in its rows and in its evaluation."""
    parts = find_evaluators(config)
    if not parts:
        return experiment
    if experiment.use is None or experiment.tests is None:
        raise ConfigError(
            f"config.eval.functions needs a model that can be used, and config.family="
            f"{config.family!r} gives none: leave it empty."
        )
    use, (monitored, evaluated) = experiment.use, experiment.tests
    monitor, evaluate, key = experiment.monitor, experiment.evaluate, root_keys(config)[2]

    def numbers(state: Any, images: np.ndarray, others: Mapping[str, Any]) -> dict[str, Any]:
        model, found = use(jax.device_get(state)), {}
        for place, part in enumerate(parts):
            one = part.call(model, images, jax.random.fold_in(key, place), **part.options)
            found |= _checked(part, one, {**others, **found})
        return found

    def with_numbers(state: Any, step: int) -> dict[str, Any]:
        row = monitor(state, step)
        return {**row, **numbers(state, monitored, row)}

    def report(state: Any) -> dict[str, Any]:
        assert evaluate is not None
        found = evaluate(state)
        return {**found, **numbers(state, evaluated, found)}

    return experiment._replace(monitor=with_numbers, evaluate=evaluate and report)


def _checked(part: UserPart, found: Any, others: Mapping[str, Any]) -> dict[str, float]:
    """Returns an evaluator's numbers as floats.

    Raises:
      ConfigError: unless it is a dict of scalars, each with a new name.
    """
    where = f"config.eval.functions={part.name!r}"
    if not isinstance(found, Mapping):
        raise ConfigError(
            f"{where} must return numbers by name, such as {{'mean_energy': 1.5}}; got a "
            f"{type(found).__name__}."
        )
    for name, value in found.items():
        if (
            not isinstance(name, str)
            or np.shape(value) != ()
            or np.asarray(value).dtype.kind not in "fiub"
        ):
            raise ConfigError(
                f"{where} must return scalars by name; {name!r} is of shape {np.shape(value)}."
            )
        if name in others:
            raise ConfigError(f"{where} returns {name!r}, a name that is taken: rename it.")
    return {name: float(value) for name, value in found.items()}
