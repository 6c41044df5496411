"""The contract of every evaluator."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ebmjax.recipes.config.errors import flatten
from ebmjax.types import Key


class Found(NamedTuple):
    """Numbers and arrays that an evaluator found.

    Attributes:
      report: numbers by name, nested, for evaluation.json.
      row: numbers for metrics.jsonl; None: the scalars of the report, by dotted names.
      arrays: for evaluation.npz, or ``monitor/<step>.npz`` during training.
      per_image: values behind numbers of the report, see ``folder.per_image``.
    """

    report: Mapping[str, Any]
    row: Mapping[str, Any] | None = None
    arrays: Mapping[str, Any] = {}
    per_image: Mapping[str, Any] = {}

    def numbers(self) -> dict[str, Any]:
        """Returns the numbers for metrics.jsonl, as JSON holds them."""
        row = flatten(dict(self.report)) if self.row is None else self.row
        is_kept = lambda value: self.row is not None or np.ndim(value) == 0  # noqa: E731
        found = {name: np.asarray(value).tolist() for name, value in row.items() if is_kept(value)}
        return {name: value for name, value in found.items() if not isinstance(value, str)}


def is_due(every: Any, step: int, interval: int) -> bool:
    """Returns whether an evaluator of ``eval.<name>.every`` runs at a monitored step."""
    return isinstance(every, int) and (step // interval) % every == 0


class Evaluator:
    """Finds numbers of a model: ``evaluator(model, test, key) -> Found``.

    Each evaluator says which attributes of the model it uses. One object serves a whole run, and
    the models of all its states share their compiled programs.
    """

    at_end = True
    """True if it runs in the evaluation after training."""

    def __call__(self, model: Any, test: Any, key: Key) -> Found:
        """Returns what it finds.

        Args:
          model: a trained model.
          test: ``data.ImageData`` that it is judged by.
          key: of random numbers.
        """
        raise NotImplementedError

    def check(self, model: Any, test: Any) -> None:
        """Raises ConfigError for what would stop a call half-way. ``model`` is not trained yet."""

    def check_new(self, found: Found, others: Iterable[str]) -> None:
        """Raises ConfigError if a number has the name of another, where names are a user's."""

    def draw(self, folder: Path, found: Found) -> None:
        """Draws ``plots/eval_*.png`` of a run's folder, after training."""

    def draw_step(self, folder: Path, step: int, found: Found) -> None:
        """Draws a picture of a step of training."""
