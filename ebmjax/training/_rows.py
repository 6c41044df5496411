"""Turns the metrics of finished blocks into rows."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from ebmjax.training._plan import Plan
from ebmjax.training._writers import Writer
from ebmjax.types import Metrics

Watch = Callable[[int, Mapping[str, Any]], None]
"""``watch(step, row)`` sees the metrics of every step, also of those that are not logged."""


class PendingBlock(NamedTuple):
    """A block on its way: its first step, its metrics by step, the row of ``monitor``."""

    first: int
    metrics: Metrics
    monitored: dict[str, Any]


class RowLogger:
    """Turns the metrics of finished blocks into rows, and shows every step's to the watches.

    Attributes:
      pending: block whose rows are not yet written.
      row: the last row written.
    """

    def __init__(
        self,
        plan: Plan,
        writers: Sequence[Writer],
        first_step: int,
        row: dict[str, Any],
        watches: Sequence[Watch],
    ):
        self.pending: PendingBlock | None = None
        self.row = row
        self._plan = plan
        self._watches = watches
        self._writers = writers
        for writer in writers:
            writer.start(first_step)

    def write(self, step: int, row: dict[str, Any]) -> None:
        """Gives ``row``, its arrays turned into numbers and lists, to every writer."""
        self.row = {name: jax.tree.map(_plain, value) for name, value in row.items()}
        for writer in self._writers:
            writer.write(step, self.row)

    def flush(self) -> None:
        """Waits for the pending block and writes its rows; the monitored one joins the last."""
        if self.pending is None:
            return
        first, metrics, monitored = self.pending
        self.pending = None
        columns = {name: _plain(values) for name, values in metrics.items()}
        size = len(columns["loss"])
        for i in range(size):
            step, extra = first + i + 1, monitored if i == size - 1 else {}
            row = {name: values[i] for name, values in columns.items()}
            if extra or self._plan.is_logged(step):
                self.write(step, row | extra)
            for watch in self._watches:
                watch(step, row)


def _plain(value: Any) -> Any:
    """Returns a number, or lists of numbers, from any array."""
    return np.asarray(value).tolist()
