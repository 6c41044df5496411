"""Rows of metrics.jsonl where a run recovers."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ebmjax import training
from ebmjax.recipes.folder import workdir

if TYPE_CHECKING:
    from ebmjax.recipes.run.recover import Recovery


def cut_rows(file: Path, aside: Path, step: int) -> None:
    """Moves the rows after ``step`` to a file of the same name in ``aside``."""
    rows = training.read_rows(file) if file.exists() else []
    later = [row for row in rows if row["step"] > step]
    if later:
        workdir.write_whole(aside / file.name, _lines(later))
        workdir.write_whole(file, _lines([row for row in rows if row["step"] <= step]))


def _lines(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


class Rows(training.JsonlWriter):
    """metrics.jsonl, with a row for each recovery where the run goes on.

    Args:
      path: the run's folder.
      log_every: as for ``JsonlWriter``.
      recoveries: of the run.
    """

    def __init__(self, path: Path, log_every: int, recoveries: Sequence["Recovery"]):
        super().__init__(path / "metrics.jsonl", log_every=log_every)
        self._recoveries = recoveries

    def start(self, first_step: int) -> None:
        super().start(first_step)
        rows = training.read_rows(self.path) if self._recoveries else []
        known = [row["recovery"]["number"] for row in rows if "recovery" in row]
        for one in self._recoveries:
            if one.number not in known:
                # Without seconds: an interrupted run writes the same rows.
                told = {name: v for name, v in one.told().items() if "seconds" not in name}
                self.write(first_step, {"recovery": told})
