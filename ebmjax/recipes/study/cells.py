"""Parts of a study: rows, columns and runs."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from ebmjax.recipes.config.command_line import read, read_names, without_effect
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.extractor_names import with_extractor
from ebmjax.recipes.folder import workdir
from ebmjax.recipes.study.checks import check_study
from ebmjax.recipes.study.reader import StudyRun, folder_name

RUN = ("-m", "ebmjax.recipes", "run")


@dataclass(frozen=True)
class Study:
    """Study of a study file: ``STUDY``, or the values of ``STUDIES`` by variant.

    Attributes:
      rows: label to ``CONFIG[:VARIANT]``, or to a list of it and further ``--config.`` arguments.
      columns: heading to (name in summary.json or evaluation.json, factor, decimals). Dots in a
        name descend into nested objects. "{extractor}" in a heading becomes the name of the rows'
        feature extractors.
      num_seeds: runs of every row, with seeds 0, 1, ...
      common: arguments of every run.
      draw: draws figures; called with the study's folder after all runs.
      sweep: one field to its values, ``{"sampler.sgld.step_size": (0.1, 0.3, 1.0)}``. Every row
        becomes a row for each value. Without ``draw``, each column is drawn against the field.
    """

    rows: Mapping[str, str | Sequence[str]]
    columns: Mapping[str, tuple[str, float, int]]
    num_seeds: int = 5
    common: tuple[str, ...] = ()
    draw: Callable[[Path], None] | None = None
    sweep: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Makes the rows of a sweep; raises ConfigError for what cannot be a study."""
        check_study(self)
        for name, values in self.sweep.items():
            rows = {
                f"{label}, {name.rpartition('.')[2]}={value}": [
                    *([row] if isinstance(row, str) else row),
                    *make_flags({name: value}),
                ]
                for label, row in self.rows.items()
                for value in values
            }
            made = {"rows": rows, "draw": self.draw or partial(_draw_sweep, name), "sweep": {}}
            for attribute, one in made.items():
                object.__setattr__(self, attribute, one)
            check_study(self)


def _draw_sweep(name: str, folder: Path) -> None:
    from ebmjax.recipes.study.figures import draw_sweep  # which loads Matplotlib

    draw_sweep(folder, name)


def make_flags(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns ``--config.FIELD=VALUE`` for each field, as a row and ``common`` take them."""
    return tuple(f"--config.{name}={value}" for name, value in fields.items())


@dataclass(frozen=True)
class Cell:
    """One run: row, seed, folder, command and configuration."""

    label: str
    seed: int
    folder: Path
    command: list[str]
    config: Config

    @property
    def status(self) -> str:
        """ "done", "diverged" or "missing"."""
        return StudyRun(self.folder).status

    def check(self) -> None:
        """Raises WorkdirError if the folder's run has another configuration."""
        if self.folder.exists():
            workdir.check(self.folder, self.config)
        if self.status == "done":
            workdir.check_evaluated(self.folder, self.config)

    def numbers(self) -> dict[str, Any]:
        """Returns both JSON objects of a finished run as one."""
        return StudyRun(self.folder).numbers()


def cells(study: Study, folder: Path, num_seeds: int, overrides: Sequence[str] = ()) -> list[Cell]:
    """Returns all runs, the first seed of every row first, so that the table soon has every row.

    Args:
      study: rows and arguments.
      folder: the study's folder.
      num_seeds: runs of every row.
      overrides: ``--config.FIELD=VALUE`` for every run; they win over the study's.

    Raises:
      ConfigError: if an override has no effect in any row.
      SystemExit: if a row's configuration is wrong; the message names the row and the mistake.
    """
    rows = {label: _command(study, label, overrides) for label in study.rows}
    for argument in overrides:
        if not any(argument in arguments for _, arguments in rows.values()):
            raise ConfigError(f"{argument} has no effect in any row of the study: leave it out.")
    configs = {label: read(*row, where=_row(label)) for label, row in rows.items()}
    return [
        _cell(label, *rows[label], configs[label], folder, number)
        for number in range(num_seeds)
        for label in rows
    ]


def with_extractors(study: Study, all_cells: Sequence[Cell]) -> Study:
    """Returns ``study`` with "{extractor}" in headings replaced by its runs' extractors."""
    configs = [cell.config for cell in all_cells]
    columns = {with_extractor(head, configs): column for head, column in study.columns.items()}
    return replace(study, columns=columns)


def _command(study: Study, label: str, overrides: Sequence[str]) -> tuple[str, list[str]]:
    """Returns ``CONFIG[:VARIANT]`` of a row, and the arguments of its runs.

    Arguments that all runs share are left out where they have no effect.
    """
    row = study.rows[label]
    config, *arguments = [row] if isinstance(row, str) else row
    together = [*study.common, *arguments, *overrides]
    if len(together) == len(arguments):
        return config, together
    unused = without_effect(config, together, _row(label)) - {*read_names(arguments)}
    return config, [argument for argument in together if not unused & {*read_names([argument])}]


def _row(label: str) -> str:
    return f"row {label!r}: "


def _cell(
    label: str, name: str, arguments: Sequence[str], config: Config, folder: Path, number: int
) -> Cell:
    """Returns run ``number`` of a row, from 0; it is the seed."""
    target = folder / folder_name(label) / f"seed{number}"
    own = [f"--config.seed={number}", f"--workdir={target}", "--mode=all"]
    command = [sys.executable, *RUN, f"--config={name}", *arguments, *own]
    seeded = ConfigDict(config)
    seeded.seed = number
    return Cell(label, number, target, command, seeded)
