"""Numbers and pictures of a model, during training and afterwards."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ebmjax.recipes.config.errors import flatten

Draw = Callable[[Path], None]


class Found(NamedTuple):
    """Results of an evaluator that has more than a dict of numbers.

    Attributes:
      report: numbers by name, nested, for evaluation.json.
      row: numbers for metrics.jsonl; None: the scalars of the report, by dotted names.
      arrays: for evaluation.npz, or ``monitor/<step>.npz`` during training.
      per_image: values behind numbers of the report, see ``workdir.write_per_image``.
      pictures: name to a function of a path, for ``plots/eval_<name>.png`` after training.
      step_pictures: the same for ``plots/<name>_<step>.png`` during training.
    """

    report: Mapping[str, Any]
    row: Mapping[str, Any] | None = None
    arrays: Mapping[str, Any] = {}
    per_image: Mapping[str, Any] = {}
    pictures: Mapping[str, Draw] = {}
    step_pictures: Mapping[str, Draw] = {}

    def numbers(self) -> dict[str, Any]:
        """Returns the numbers for metrics.jsonl, as JSON holds them."""
        row = flatten(dict(self.report)) if self.row is None else self.row
        is_kept = lambda value: self.row is not None or np.ndim(value) == 0  # noqa: E731
        found = {name: np.asarray(value).tolist() for name, value in row.items() if is_kept(value)}
        return {name: value for name, value in found.items() if not isinstance(value, str)}
