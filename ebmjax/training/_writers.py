"""Where logged rows go."""

import json
import math
import os
from pathlib import Path
from typing import Any, Protocol

import numpy as np


class Writer(Protocol):
    """Receives the rows that ``fit`` logs. TensorBoard, a progress bar or any service fits in."""

    def start(self, first_step: int) -> None:
        """The run begins, or continues, after ``first_step`` steps; later rows are to be undone."""

    def write(self, step: int, row: dict[str, Any]) -> None:
        """``step`` steps were taken (0: none yet); ``row`` maps names to numbers or lists."""

    def close(self) -> None:
        """No more rows will come."""


class JsonlWriter:
    """One JSON object a row, one row a line, each handed to the system as soon as it is made.

    So a killed process loses no row. Non-finite numbers are written as null: JSON has no word for
    them.

    Args:
      path: of the file. Rows past the step a run continues from are cut away when it starts, as
        is a last line that a crash left incomplete.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._file = None

    def start(self, first_step: int) -> None:
        kept = []
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                row = _parse(line)
                if row is None or first_step == 0 or row["step"] > first_step:
                    break
                kept.append(line + "\n")
        # Beside the old file and then in its place: a crash in between loses nothing.
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text("".join(kept))
        os.replace(temporary, self.path)
        self._file = self.path.open("a", buffering=1)

    def write(self, step: int, row: dict[str, Any]) -> None:
        assert self._file is not None, "start() comes first"
        self._file.write(json.dumps({"step": step, **_jsonable(row)}) + "\n")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _parse(line: str) -> dict[str, Any] | None:
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return None


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _jsonable(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(entry) for entry in value]
    if isinstance(value, np.ndarray | np.generic):
        return _jsonable(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
