"""Study files, and the runs of a study: one for each row and seed."""

import math
import runpy
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from ebmjax._ranges import PATH
from ebmjax._shown import near_path, trim
from ebmjax._user_function import is_function_name, user_function
from ebmjax.recipes.config import declare, families, files
from ebmjax.recipes.config.command_line import read, read_names, without_effect
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.families import is_points, with_extractor
from ebmjax.recipes.folder import workdir
from ebmjax.recipes.study.reader import StudyRun, folder_name

RUN = ("-m", "ebmjax.recipes", "run")
TAKEN = {"", ".", "..", "slurm", "table.md", "table.json"}
"""Names in a study's folder that no row can have."""
COLUMN = "(name, factor, decimals), such as ('classification.accuracy', 100.0, 1)"
ROW = "'CONFIG[:VARIANT]', or a list of it and further '--config.FIELD=VALUE'"


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
        _check(self)
        for name, values in self.sweep.items():
            short = name.rpartition(".")[2]
            self.rows = {
                f"{label}, {short}={value}": [*_parts(row), *make_flags({name: value})]
                for label, row in self.rows.items()
                for value in values
            }
            self.draw = self.draw or partial(_draw_sweep, name)
        self.sweep = {}


def _draw_sweep(name: str, folder: Path) -> None:
    from ebmjax.recipes.study.figures import draw_sweep  # which loads Matplotlib

    draw_sweep(folder, name)


def make_flags(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns ``--config.FIELD=VALUE`` for each field, as a row and ``common`` take them."""
    return tuple(f"--config.{name}={value}" for name, value in fields.items())


def check_argument(argument: str, where: str) -> None:
    """Raises ConfigError unless an argument is ``--config.FIELD=VALUE`` of another field than seed.

    The message begins with ``where``.
    """
    name, equals, _ = argument.partition("=")
    if not name.startswith("--config.") or not equals:
        raise ConfigError(f"{where} only --config.FIELD=VALUE changes a field of runs.")
    if name == "--config.seed":
        raise ConfigError(f"{where} runs have seeds 0, 1, ...: --seeds=N says how many.")


def _check(study: Study) -> None:
    rows, columns, sweep = study.rows, study.columns, study.sweep
    _expect(isinstance(rows, Mapping) and len(rows) > 0, "rows", "a dict of a row or more", rows)
    folders: dict[str, str] = {}
    for label, row in rows.items():
        is_line = isinstance(label, str) and label.isprintable() and len(label.encode()) < 200
        _expect(is_line, "the label of a row", "a line of text", label)
        parts = _parts(row)
        is_row = len(parts) > 0 and all(isinstance(one, str) and one for one in parts)
        _expect(is_row, f"row {label!r}", ROW, row)
        for argument in parts[1:]:
            check_argument(argument, f"row {label!r} has {argument!r}, but")
        name = folder_name(label)
        other = folders.setdefault(name.casefold(), label)
        if name in TAKEN or other != label:
            raise ConfigError(f"rows {other!r} and {label!r} need another folder than {name!r}.")
    _expect(isinstance(columns, Mapping), "columns", "a dict", columns)
    for heading, column in columns.items():
        _expect(isinstance(heading, str), "the heading of a column", "text", heading)
        _expect(_is_column(column), f"column {heading!r}", COLUMN, column)
    is_count = type(study.num_seeds) is int and study.num_seeds >= 1
    _expect(is_count, "num_seeds", "an integer of at least 1", study.num_seeds)
    _expect(not isinstance(study.common, str), "common", "a tuple of arguments", study.common)
    for argument in study.common:
        check_argument(argument, f"common has {argument!r}, but")
    is_sweep = isinstance(sweep, Mapping) and len(sweep) <= 1
    _expect(is_sweep, "sweep", "a dict of one field to its values", sweep)


def _expect(is_right: bool, what: str, expected: str, got: Any) -> None:
    if not is_right:
        raise ConfigError(f"{what} must be {expected}; got {trim(repr(got))}.")


def _parts(row: Any) -> list[Any]:
    if isinstance(row, str):
        return [row]
    return [*row] if isinstance(row, list | tuple) else []


def _is_column(column: Any) -> bool:
    match column:
        case (str(), int() | float() as factor, int(decimals)):
            return math.isfinite(factor) and factor != 0 and decimals >= 0
    return False


def load(name: str) -> Study:
    """Returns the study of ``FILE[:VARIANT]``; "jem_digits" stands for studies/jem_digits.py.

    Raises:
      ConfigError: as ``read_file``, or if there is no such variant.
      SystemExit: if there is no such file.
    """
    path, _, variant = name.partition(":")
    studies = read_file(files.find(path, "studies", "study"))
    if variant not in studies:
        choices = ", ".join(path + (f":{one}" if one else "") for one in studies)
        raise ConfigError(f"{path} has no variant {variant!r}. There are {choices}.")
    return studies[variant]


def read_file(path: Path) -> Mapping[str, Study]:
    """Returns the studies of a file by variant, "" for a single one.

    Raises:
      ConfigError: if the file cannot be run, or defines no studies.
    """
    try:
        namespace = runpy.run_path(str(path))
    except ConfigError as error:  # of a ``Study``
        raise ConfigError(f"{path}: {error}") from error
    except (Exception, SystemExit) as error:  # whatever the file does
        mistake = files.mistake_in(path, error) or f"{path}: {type(error).__name__}: {error}"
        raise ConfigError(mistake) from error
    studies = namespace.get("STUDIES") or {"": namespace.get("STUDY")}
    is_dict = isinstance(studies, Mapping)
    if not is_dict or not all(isinstance(one, Study) for one in studies.values()):
        raise ConfigError(f"{path} must define STUDY, a Study, or STUDIES, a dict of them.")
    return studies


def default_folder(name: str, kind: str = "studies") -> Path:
    """Returns ``runs/<kind>/<file>[_<variant>]`` in the current folder."""
    path, _, variant = name.partition(":")
    return Path("runs") / kind / "_".join(filter(None, (Path(path).stem, variant)))


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
        """Returns "done", "diverged" or "missing"."""
        return StudyRun(self.folder).status

    def check(self) -> None:
        """Raises WorkdirError if the folder's run has another configuration."""
        if self.folder.exists():
            workdir.check(self.folder, self.config)
        if self.status == "done":
            workdir.check_evaluated(self.folder, self.config)


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
    configs = {label: read(*row, where=f"row {label!r}: ") for label, row in rows.items()}
    found = []
    for seed in range(num_seeds):
        for label, (name, arguments) in rows.items():
            target = folder / folder_name(label) / f"seed{seed}"
            own = [f"--config.seed={seed}", f"--workdir={target}", "--mode=all"]
            command = [sys.executable, *RUN, f"--config={name}", *arguments, *own]
            config = ConfigDict(configs[label])
            config.seed = seed
            found.append(Cell(label, seed, target, command, config))
    return found


def _command(study: Study, label: str, overrides: Sequence[str]) -> tuple[str, list[str]]:
    """Returns ``CONFIG[:VARIANT]`` of a row, and the arguments of its runs.

    Arguments that all runs share are left out where they have no effect.
    """
    config, *arguments = _parts(study.rows[label])
    together = [*study.common, *arguments, *overrides]
    if len(together) == len(arguments):
        return config, together
    unused = without_effect(config, together, f"row {label!r}: ") - {*read_names(arguments)}
    return config, [argument for argument in together if not unused & {*read_names([argument])}]


def with_extractors(study: Study, all_cells: Sequence[Cell]) -> Study:
    """Returns ``study`` with "{extractor}" in headings replaced by its runs' extractors."""
    configs = [cell.config for cell in all_cells]
    columns = {with_extractor(head, configs): column for head, column in study.columns.items()}
    return replace(study, columns=columns)


def check_data(all_cells: Sequence[Cell]) -> None:
    """Raises ConfigError if a file or function that a row's fields name is not there."""
    for label, config in {cell.label: cell.config for cell in all_cells}.items():
        fields = families.fields_of(config)
        try:
            for name in (one for one in fields if fields[one].values is PATH and config[one]):
                place = Path(config[name]).expanduser()
                if not place.exists():
                    raise ConfigError(f"config.{name}={place} does not exist.{near_path(place)}")
            for value in declare.find_code(fields, config).values():
                for one in value if isinstance(value, list | tuple) else [value]:
                    if is_function_name(one):
                        user_function(one)
            if "data.test_split" in fields and not is_points(config):
                _check_images(config)
        except (ValueError, OSError, RuntimeError) as error:
            raise ConfigError(f"row {label!r}: {error}") from error


def _check_images(config: Config) -> None:
    from ebmjax.recipes.parts import image_data  # which loads JAX

    image_data.check(config)
