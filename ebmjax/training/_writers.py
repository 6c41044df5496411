"""Rows of finished blocks, and who gets them."""

import itertools
import json
import logging
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np

from ebmjax._records import name_lines, parse_lines
from ebmjax.training._plan import Plan
from ebmjax.types import Metrics

logger = logging.getLogger(__name__)


class Writer(Protocol):
    """Receives the rows that ``fit`` logs, for a file, TensorBoard, a progress bar or a service."""

    def start(self, first_step: int) -> None:
        """Called when the run begins or continues after ``first_step`` steps; undo later rows."""

    def write(self, step: int, row: dict[str, Any]) -> None:
        """Called after ``step`` steps (0: none yet); ``row`` maps names to numbers or lists."""

    def close(self) -> None:
        """Called when no more rows will come."""


class RowLogger:
    """Turns the metrics of finished blocks into rows, and shows every step's to ``watch``.

    Attributes:
      pending: block whose rows are not yet written: its first step, its metrics by step, the row of
        ``monitor``.
      row: the last row written.
    """

    def __init__(
        self,
        plan: Plan,
        writers: Sequence[Writer],
        first_step: int,
        row: dict[str, Any],
        watch: Callable[[int, Mapping[str, Any]], None],
    ):
        self.pending: tuple[int, Metrics, dict[str, Any]] | None = None
        self.row = row
        self._plan, self._watch, self._writers = plan, watch, writers
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
            self._watch(step, row)


def _plain(value: Any) -> Any:
    """Returns a number, or lists of numbers, from any array."""
    return np.asarray(value).tolist()


class JsonlWriter:
    """Writes one JSON object a line for each row, and flushes at once.

    So a killed process loses no row. Numbers that are not finite become null, because JSON lacks
    them.

    At the start it cuts rows after the step from which the run continues, and an incomplete last
    line. In two cases it first keeps a copy of the file, ``<name>.1`` (then ``.2``, ...), and
    warns: a line is damaged (it is left out), or the run begins at step 0 although the file has
    later rows.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path).expanduser()
        self._file = None

    def start(self, first_step: int) -> None:
        kept: list[tuple[int, bytes]] = []
        if self.path.exists():
            parsed, damaged = parse_lines(self.path)
            kept = [(row["step"], line) for row, line in parsed if row["step"] <= first_step]
            if damaged:
                self._keep_copy(f"{name_lines(damaged)} damaged and left out")
            elif first_step == 0 and any(row["step"] > 0 for row, _ in parsed):
                self._keep_copy("the run begins again at step 0, for it has no checkpoint")
            kept = kept if first_step else []
        # Writes a new file and then renames it, so a crash in between loses nothing.
        temporary = self.path.with_suffix(".tmp")
        temporary.write_bytes(b"".join(line + b"\n" for _, line in kept))
        os.replace(temporary, self.path)
        self._file = self.path.open("ab", buffering=0)

    def write(self, step: int, row: dict[str, Any]) -> None:
        assert self._file is not None, "start() comes first"
        text = json.dumps({"step": step, **row}, default=_plain)
        strict = json.loads(text, parse_constant=lambda _: None)
        line = json.dumps(strict).encode() + b"\n"
        try:
            while line:  # the system may take it in pieces
                line = line[self._file.write(line) :]
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _keep_copy(self, reason: str) -> None:
        names = (self.path.with_name(f"{self.path.name}.{i}") for i in itertools.count(1))
        copy = next(name for name in names if not name.exists())
        shutil.copyfile(self.path, copy)
        logger.warning("%s: %s. The file as it was is kept as %s.", self.path, reason, copy.name)
