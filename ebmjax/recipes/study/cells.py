"""Study files, the runs of a study, one for each row and seed, and the reader of their folders."""

import runpy
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from ebmjax._ranges import PATH
from ebmjax._shown import trim
from ebmjax._user_function import is_function_name, user_function
from ebmjax.recipes.config import declare, families, files
from ebmjax.recipes.config.command_line import read
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.folder import run_folder

ROW = "'CONFIG[:VARIANT]', or a list of it and further '--config.FIELD=VALUE'"
COLUMN = "(name, factor, decimals), such as ('classification.accuracy', 100.0, 1)"
TYPES = ((str, float, int), (str, int, int))
DIVERGED = "diverged.txt"
"""File in a diverged run's folder, with its last lines."""


@dataclass
class Study:
    """Study of a study file: ``STUDY``, or the values of ``STUDIES`` by variant.

    Attributes:
      rows: label to ``CONFIG[:VARIANT]``, or to a list of it and further ``--config.`` arguments.
      columns: heading to (name in summary.json or evaluation.json, factor, decimals). Dots in a
        name descend into nested objects. "{extractor}" in a heading becomes the name of the rows'
        feature extractors.
      num_seeds: runs of every row, with seeds 0, 1, ...
      common: arguments of every run.
      draw: functions that draw figures; each takes the study's folder after all runs.
    """

    rows: Mapping[str, str | Sequence[str]]
    columns: Mapping[str, tuple[str, float, int]]
    num_seeds: int = 5
    common: tuple[str, ...] = ()
    draw: Sequence[Callable[[Path], None]] = ()

    def __post_init__(self) -> None:
        """Raises ConfigError for what cannot be a study."""
        is_count = type(self.num_seeds) is int and self.num_seeds >= 1

        def require(is_right: object, what: str, expected: str, got: object) -> None:
            if not is_right:
                raise ConfigError(f"{what} must be {expected}; got {trim(repr(got))}.")

        require(self.rows, "rows", "a dict of a row or more", self.rows)
        require(is_count, "num_seeds", "an integer of at least 1", self.num_seeds)
        require(isinstance(self.draw, list | tuple), "draw", "a tuple of functions", self.draw)
        for label, row in self.rows.items():
            words = [row] if isinstance(row, str) else row
            is_row = isinstance(words, list | tuple) and all(isinstance(one, str) for one in words)
            require(row and is_row, f"row {label!r}", ROW, row)
        for heading, one in self.columns.items():
            require(tuple(map(type, one)) in TYPES, f"column {heading!r}", COLUMN, one)


def make_flags(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns ``--config.FIELD=VALUE`` for each field, as a row and ``common`` take them."""
    return tuple(f"--config.{name}={value}" for name, value in fields.items())


def load(name: str) -> Study:
    """Returns the study of ``FILE[:VARIANT]``; ends the process if there is no such file."""
    path, _, variant = name.partition(":")
    studies = read_file(files.find(path, "studies", "study"))
    if variant not in studies:
        choices = ", ".join(path + (f":{one}" if one else "") for one in studies)
        raise ConfigError(f"{path} has no variant {variant!r}. There are {choices}.")
    return studies[variant]


def read_file(path: Path) -> Mapping[str, Study]:
    """Returns the studies of a file by variant, "" for a single one, or raises ConfigError."""
    try:
        namespace = runpy.run_path(str(path))
    except (Exception, SystemExit) as error:  # whatever the file does
        raise ConfigError(files.mistake_in(path, error) or f"{path}: {error}") from error
    studies: Any = namespace.get("STUDIES") or {"": namespace.get("STUDY")}
    if not all(isinstance(one, Study) for one in studies.values()):
        raise ConfigError(f"{path} must define STUDY, a Study, or STUDIES, a dict of them.")
    return studies


@dataclass(frozen=True)
class Cell:
    """One run of a study, in ``folder``: ``FOLDER/<row>/seed<k>``, which may not exist.

    A run that was found in a folder has only that.
    """

    folder: Path
    label: str = ""
    seed: int = 0
    command: Sequence[str] = ()
    config: Config = None

    @property
    def status(self) -> str:
        """Returns "done", "diverged" or "missing"."""
        if (self.folder / DIVERGED).exists():
            return "diverged"  # its best state may have been evaluated
        # An unfinished run may have been evaluated, too.
        is_done = (self.folder / "evaluation.json").exists()
        return "done" if is_done and self.numbers().get("is_finished", True) else "missing"

    def numbers(self) -> dict[str, Any]:
        """Returns summary.json and evaluation.json as one object."""
        found: dict[str, Any] = {}
        for path in (self.folder / "summary.json", self.folder / "evaluation.json"):
            found |= run_folder.read_json(path) if path.exists() else {}
        return found

    def check(self) -> None:
        """Raises WorkdirError if the folder's run has another configuration."""
        if self.folder.exists():
            run_folder.check(self.folder, self.config)
        if self.status == "done":
            run_folder.check_evaluated(self.folder, self.config)


def folder_name(label: str) -> str:
    """Returns the name of a row's folder within the study's; itself for such a name."""
    return label.replace("/", "-").replace(" ", "_")


def find_runs(folder: Path) -> dict[str, list[Cell]]:
    """Returns the runs in a study's folder by the name of their row's folder, sorted by seed."""
    found: dict[str, list[Cell]] = {}
    paths = folder.glob("*/seed*")
    for path in sorted(paths, key=lambda one: (one.parent.name, len(one.name), one.name)):
        found.setdefault(path.parent.name, []).append(Cell(path))
    return found


def cells(study: Study, folder: Path, num_seeds: int, overrides: Sequence[str] = ()) -> list[Cell]:
    """Returns all runs, the first seed of every row first, so that the table soon has every row.

    ``overrides`` are arguments of every run, and win over the study's.

    Raises:
      ConfigError: for an argument that sets no field.
      SystemExit: if a row's configuration is wrong; the message names the row and the mistake.
    """
    found = []
    for label, row in study.rows.items():
        name, *own = [row] if isinstance(row, str) else row
        arguments = [*study.common, *own, *overrides]
        for one in arguments:
            if not one.startswith("--config.") or one.startswith("--config.seed="):
                text = "must be --config.FIELD=VALUE, of a field other than the seed"
                raise ConfigError(f"row {label!r}: {one!r} {text}: see --seeds.")
        command = [sys.executable, "-m", "ebmjax.recipes", "run", f"--config={name}", *arguments]
        row_config = read(name, arguments, where=f"row {label!r}: ")
        for seed in range(num_seeds):
            target = folder / folder_name(label) / f"seed{seed}"
            last = [f"--config.seed={seed}", f"--workdir={target}", "--mode=all"]
            config = ConfigDict(row_config)
            config.seed = seed
            found.append(Cell(target, label, seed, [*command, *last], config))
    return sorted(found, key=lambda cell: cell.seed)


def check_data(all_cells: Sequence[Cell]) -> None:
    """Raises ConfigError if a file or function that a row's fields name is not there."""
    from ebmjax.recipes.parts import image_data  # which loads JAX

    for label, config in {cell.label: cell.config for cell in all_cells}.items():
        fields = families.fields_of(config)
        try:
            for name, one in fields.items():
                for entry in map(str, filter(None, declare.entries_of(config[name]))):
                    place = Path(entry).expanduser()
                    if one.values is PATH and not place.exists():
                        raise ConfigError(f"config.{name}={place} does not exist.")
                    if one.values.names_code(entry) and is_function_name(entry):
                        user_function(entry)
            if "data.max_test" in fields and not families.is_points(config):
                image_data.check(config)
        except (ValueError, OSError, RuntimeError) as error:
            raise ConfigError(f"row {label!r}: {error}") from error
