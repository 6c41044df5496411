"""What a study consists of: rows and columns, and the runs that they ask for."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from experiments.study_seeds import first_seed

RUN = Path(__file__).resolve().parent / "run.py"


@dataclass(frozen=True)
class Study:
    """What a study file defines as ``STUDY``, or as values of ``STUDIES``, by variant.

    Attributes:
      rows: label to ``CONFIG[:VARIANT]``, or to a list of it and further ``--config.`` arguments.
      columns: heading to (name in summary.json or evaluation.json, factor, decimals). Dots in a
        name descend into nested objects.
      num_seeds: runs of every row; their seeds are 0, 1, ..., or of R repeats each 0, R, ...
      common: arguments of every run.
      draw: called with the study's folder once all runs are made: its figures.
    """

    rows: Mapping[str, str | Sequence[str]]
    columns: Mapping[str, tuple[str, float, int]]
    num_seeds: int = 5
    common: tuple[str, ...] = ()
    draw: Callable[[Path], None] | None = None


@dataclass(frozen=True)
class Cell:
    """One run: its row, its seed, its folder and the command that makes it."""

    label: str
    seed: int
    folder: Path
    command: list[str]

    @property
    def status(self) -> str:
        """ "done", "diverged" or "missing"."""
        if (self.folder / "evaluation.json").exists():
            return "done"
        return "diverged" if (self.folder / "diverged.txt").exists() else "missing"

    @property
    def repeats(self) -> int:
        """How many independent repeats the run trains at once."""
        path = self.folder / "config.json"
        config = json.loads(path.read_text()) if path.exists() else {}
        return config.get("train", {}).get("num_repeats", 1)

    def numbers(self) -> dict[str, Any]:
        """The two JSON objects of a finished run as one."""
        merged: dict[str, Any] = {}
        for name in ("summary.json", "evaluation.json"):
            path = self.folder / name
            merged |= json.loads(path.read_text()) if path.exists() else {}
        return merged


def cells(study: Study, folder: Path, num_seeds: int) -> list[Cell]:
    """All runs, a first one of every row first: after them the table has every row already."""
    made = []
    for number in range(num_seeds):
        for label in from_both_ends(list(study.rows)):
            row = study.rows[label]
            config, *arguments = [row] if isinstance(row, str) else row
            arguments = [*study.common, *arguments]
            seed = first_seed(number, config, arguments)
            target = folder / folder_name(label) / f"seed{seed}"
            command = [
                sys.executable,
                str(RUN),
                f"--config={config}",
                *arguments,
                f"--config.seed={seed}",
                f"--workdir={target}",
                "--mode=all",
            ]
            made.append(Cell(label, seed, target, command))
    return made


def folder_name(label: str) -> str:
    """Of a row's runs, within the study's folder."""
    return label.replace("/", "-").replace(" ", "_")


def from_both_ends(labels: Sequence[str]) -> list[str]:
    """The first, the last, the second, the last but one, and so on.

    Neighbours in a table tend to share compiled programs: at the same time each would compile them.
    """
    half = (len(labels) + 1) // 2
    pairs = zip_longest(labels[:half], reversed(labels[half:]))
    return [label for pair in pairs for label in pair if label is not None]
