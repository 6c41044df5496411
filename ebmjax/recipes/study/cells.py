"""Parts of a study: rows and columns, and the runs that they ask for."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from ebmjax.recipes.core import workdir
from ebmjax.recipes.core.command_line import read
from ebmjax.recipes.core.extractor_names import extractor_name
from ebmjax.recipes.core.fields import Config, ConfigError
from ebmjax.recipes.study.reader import Run, folder_name

RUN = ("-m", "ebmjax.recipes", "run")
EXTRACTOR = "{extractor}"


@dataclass(frozen=True)
class Study:
    """A study, as a study file defines it: ``STUDY``, or values of ``STUDIES`` by variant.

    Attributes:
      rows: label to ``CONFIG[:VARIANT]``, or to a list of it and further ``--config.`` arguments.
      columns: heading to (name in summary.json or evaluation.json, factor, decimals). Dots in a
        name descend into nested objects. A column with "{extractor}" in heading and name is one for
        each extractor that judges the rows' images.
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
    """One run: its row, its seed, its folder, and the command and configuration that make it."""

    label: str
    seed: int
    folder: Path
    command: list[str]
    config: Config

    @property
    def status(self) -> str:
        """ "done", "diverged" or "missing"."""
        return Run(self.folder).status

    @property
    def repeats(self) -> int:
        """Number of independent repeats that the run trains at once."""
        return num_repeats(self.config)

    def check(self) -> None:
        """Raises WorkdirError if what is there already was made with another configuration."""
        if self.folder.exists():
            workdir.check(self.folder, self.config)
        if self.status == "done":
            workdir.check_evaluated(self.folder, self.config)

    def numbers(self) -> dict[str, Any]:
        """The two JSON objects of a finished run as one."""
        return Run(self.folder).numbers()


def cells(study: Study, folder: Path, num_seeds: int, overrides: Sequence[str] = ()) -> list[Cell]:
    """All runs, a first one of every row first: after them the table has every row already.

    Args:
      study: rows and arguments.
      folder: of the study.
      num_seeds: runs of every row.
      overrides: ``--config.FIELD=VALUE`` of every run, which count before the study's own.

    Raises:
      ConfigError: if two rows would share a folder.
      SystemExit: if a row's configuration cannot be had; its message names the mistake.
    """
    _check_folders(study)
    rows = {label: _command(study, label, overrides) for label in from_both_ends([*study.rows])}
    configs = {label: read(config, arguments) for label, (config, arguments) in rows.items()}
    return [
        _cell(label, *rows[label], configs[label], folder, number)
        for number in range(num_seeds)
        for label in rows
    ]


def with_extractors(study: Study, all_cells: Sequence[Cell]) -> Study:
    """``study`` with the columns of "{extractor}" named after those of its runs."""
    names = sorted({extractor_name(cell.config) for cell in all_cells})
    columns: dict[str, tuple[str, float, int]] = {}
    for heading, (number, factor, decimals) in study.columns.items():
        for name in names if EXTRACTOR in number else [""]:
            label = heading.replace(EXTRACTOR, name.replace("_", " "))
            columns[label] = (number.replace(EXTRACTOR, name), factor, decimals)
    return replace(study, columns=columns)


def _command(study: Study, label: str, overrides: Sequence[str]) -> tuple[str, list[str]]:
    """``CONFIG[:VARIANT]`` of a row, and the arguments of its runs."""
    row = study.rows[label]
    config, *arguments = [row] if isinstance(row, str) else row
    return config, [*study.common, *arguments, *overrides]


def _cell(
    label: str, name: str, arguments: Sequence[str], config: Config, folder: Path, number: int
) -> Cell:
    """Run ``number`` of a row, from 0. Its R repeats are of seeds R number, R number + 1, ..."""
    seed = number * num_repeats(config)
    target = folder / folder_name(label) / f"seed{seed}"
    command = [
        sys.executable,
        *RUN,
        f"--config={name}",
        *arguments,
        f"--config.seed={seed}",
        f"--workdir={target}",
        "--mode=all",
    ]
    seeded = ConfigDict(config)
    seeded.seed = seed
    return Cell(label, seed, target, command, seeded)


def num_repeats(config: Config) -> int:
    """Number of independent repeats that a run of ``config`` trains at once."""
    return config.train.get("num_repeats", 1)


def _check_folders(study: Study) -> None:
    owners: dict[str, str] = {}
    for label in study.rows:
        other = owners.setdefault(folder_name(label), label)
        if other != label:
            raise ConfigError(
                f"rows {other!r} and {label!r} of the study would share the folder "
                f"{folder_name(label)!r}: blanks and slashes become _ and -. Rename one of them."
            )


def from_both_ends(labels: Sequence[str]) -> list[str]:
    """The first, the last, the second, the last but one, and so on.

    Neighbours in a table tend to share compiled programs: at the same time each would compile them.
    """
    half = (len(labels) + 1) // 2
    pairs = zip_longest(labels[:half], reversed(labels[half:]))
    return [label for pair in pairs for label in pair if label is not None]
