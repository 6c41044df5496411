"""Numbers and pictures of a model, during training and afterwards."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ebmjax.recipes.config.errors import flatten


class Found(NamedTuple):
    """Results of an evaluator that has more than a dict of numbers.

    Attributes:
      report: numbers by name, nested, for evaluation.json.
      row: numbers for metrics.jsonl; None: the scalars of the report, by dotted names.
      arrays: for evaluation.npz, or ``monitor/<step>.npz`` during training.
      per_image: values behind numbers of the report, see ``run_folder.write_per_image``.
      pictures: name to a function of a path, for ``plots/eval_<name>.png`` after training, and for
        ``plots/<name>_<step>.png`` where the table says so.
    """

    report: Mapping[str, Any]
    row: Mapping[str, Any] | None = None
    arrays: Mapping[str, Any] = {}
    per_image: Mapping[str, Any] = {}
    pictures: Mapping[str, Callable[[Path], None]] = {}

    def numbers(self) -> dict[str, Any]:
        """Returns the numbers for metrics.jsonl, as JSON holds them."""
        if self.row is not None:
            return {name: np.asarray(value).tolist() for name, value in self.row.items()}
        every = {name: np.asarray(value) for name, value in flatten(dict(self.report)).items()}
        return {
            name: x.item() for name, x in every.items() if x.ndim == 0 and x.dtype.kind in "fiub"
        }
