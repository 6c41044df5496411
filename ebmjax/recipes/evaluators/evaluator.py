"""The contract of every evaluator."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
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
      shared: beginnings of dotted names in the report whose numbers all repeats of a run share.
    """

    report: Mapping[str, Any]
    row: Mapping[str, Any] | None = None
    arrays: Mapping[str, Any] = {}
    per_image: Mapping[str, Any] = {}
    shared: tuple[str, ...] = ()

    def numbers(self) -> dict[str, Any]:
        """Returns the numbers for metrics.jsonl, as JSON holds them."""
        row = flatten(dict(self.report)) if self.row is None else self.row
        is_kept = lambda value: self.row is not None or np.ndim(value) == 0  # noqa: E731
        found = {name: np.asarray(value).tolist() for name, value in row.items() if is_kept(value)}
        return {name: value for name, value in found.items() if not isinstance(value, str)}


def stack_repeats(each: Sequence[Found], is_lost: Any = False) -> Found:
    """Returns what was found of several repeats as one, with a leading axis of repeats.

    Args:
      each: of every repeat; a single one is returned as it is.
      is_lost: (repeats,), which repeats diverged: their numbers in the report are NaN.
    """
    if len(each) == 1:
        return each[0]

    def stack(path: Any, *values: Any) -> Any:
        is_shared = ".".join(part.key for part in path).startswith(each[0].shared)
        return values[0] if is_shared else np.stack([np.asarray(one) for one in values])

    def drop_lost(values: Any) -> Any:
        if not isinstance(values, np.ndarray):  # shared
            return values
        lost = np.reshape(is_lost, (-1,) + (1,) * (values.ndim - 1))
        return np.where(lost, np.nan, values).tolist()

    fields = [(one.report, one.numbers(), one.arrays, one.per_image) for one in each]
    is_leaf = lambda value: not isinstance(value, dict)  # noqa: E731
    report, row, arrays, per_image = (
        jax.tree_util.tree_map_with_path(stack, *parts, is_leaf=is_leaf)
        for parts in zip(*fields, strict=True)
    )
    report, per_image = (jax.tree.map(drop_lost, x, is_leaf=is_leaf) for x in (report, per_image))
    return Found(report, row, arrays, per_image)


def is_due(every: Any, step: int, interval: int) -> bool:
    """Returns whether an evaluator of ``eval.<name>.every`` runs at a monitored step."""
    return isinstance(every, int) and (step // interval) % every == 0


class Evaluator:
    """Finds numbers of a model: ``evaluator(model, test, key) -> Found``.

    Each evaluator says which attributes of the model it uses. It has the fields of ``eval.<name>``,
    which ``table`` explains, and shared ones of ``config.eval``, such as ``batch_size``. One object
    serves a whole run, and the models of all its states share their compiled programs.
    """

    at_end = True
    """True if it runs in the evaluation after training."""
    every: Any = 1
    """When it runs, as ``eval.<name>.every`` has it; of the user's, which have no such field."""

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
