"""Evaluations of the user, for ``config.eval.functions=("FILE.py:FUNCTION",)``."""

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.user_parts import UserPart, find_function, find_part
from ebmjax.recipes.evaluators.evaluator import Evaluator, Found
from ebmjax.types import Key

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


@dataclass(frozen=True)
class UserEvaluator(Evaluator):
    """A function of the user, ``function(model, images, key) -> numbers by name``.

    Attributes:
      part: the function.
      place: number of the function among the user's, folded into the key.
    """

    part: UserPart
    place: int

    @property
    def every(self) -> Any:
        """When it runs: the function's attribute ``every``, or at every evaluation."""
        return getattr(self.part.function, "every", 1)

    def __call__(self, model: Any, test: Any, key: Key) -> Found:
        """Returns its numbers, during training and afterwards by the same names.

        Raises:
          ConfigError: unless the function returns a dict of scalars.
        """
        key = jax.random.fold_in(key, self.place)
        found = self.part.call(model, test.images, key, **self.part.options)
        where = f"config.eval.functions={self.part.name!r}"
        if not isinstance(found, Mapping):
            raise ConfigError(
                f"{where} must return numbers by name, such as {{'mean_energy': 1.5}}; got a "
                f"{type(found).__name__}."
            )
        for name, value in found.items():
            is_number = np.shape(value) == () and np.asarray(value).dtype.kind in "fiub"
            if not (isinstance(name, str) and is_number):
                raise ConfigError(
                    f"{where} must return scalars by name; {name!r} is of shape {np.shape(value)}."
                )
        numbers = {name: float(value) for name, value in found.items()}
        return Found(numbers, numbers)

    def check_new(self, found: Found, others: Iterable[str]) -> None:
        """Raises ConfigError if another number has the name of one of these."""
        for name in found.report:
            if name in others:
                raise ConfigError(
                    f"config.eval.functions={self.part.name!r} returns {name!r}, a name that is "
                    "taken: rename it."
                )
