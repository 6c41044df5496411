"""Holds samplers, estimates of log Z and objectives against exact answers: ``ebmjax bench``."""

import argparse
import json
import os
import platform
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ebmjax._user_function import is_function_name
from ebmjax._versions import versions
from ebmjax.recipes.bench.exam import TASKS
from ebmjax.recipes.bench.other_python import load, runner, version
from ebmjax.recipes.bench.targets import TARGETS, find
from ebmjax.recipes.config.errors import (
    ConfigError,
    WorkdirError,
    count_nouns,
    did_you_mean,
    stop,
)
from ebmjax.recipes.folder.run_folder import explain_errors
from ebmjax.recipes.folder.workdir import revision, write_whole
from ebmjax.recipes.run.processes import num_processors

LIBRARIES = ("ours", "blackjax", "blackjax_smc", "numpyro", "torchebm", "ebmkit")
USAGE = f"""Holds samplers, estimates of log Z and objectives against targets with exact answers.
Prints a table, and writes results.json and report.html into --out.

  ebmjax bench --targets=gaussian2,mixture2 --libraries=ours --out=runs/bench

Targets: {", ".join(TARGETS)}, or FILE.py:FUNCTION.
Tasks: {", ".join(TASKS)}.
Libraries: {", ".join(LIBRARIES)}, or FILE.py. One that is not installed is left out.
"""


class ExamCell(NamedTuple):
    """One line of the table: a task, a target, and a method of a library with a word on it."""

    task: str
    target: str
    library: str
    method: str
    kind: str


class Installed(NamedTuple):
    """The Python that has a library, None for this one, and the library's version there."""

    python: str | None
    version: str


def main() -> None:
    """Reads the command line of the process, runs every cell, prints and writes.

    Raises:
      SystemExit: with code 2 after a mistake.
    """
    parser = argparse.ArgumentParser(
        "ebmjax bench",
        description=USAGE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for name, known in {"targets": TARGETS, "tasks": TASKS, "libraries": LIBRARIES}.items():
        parser.add_argument(f"--{name}", default=",".join(known), help="names with commas; all")
    parser.add_argument("--seeds", type=int, default=8, help="repeats of every cell, at least 2")
    parser.add_argument("--python", help="Python of the libraries that this one does not have")
    parser.add_argument("--out", type=Path, default=Path("runs/bench"), help="folder to write")
    parser.add_argument("--overwrite", action="store_true", help="replace results that are there")
    given = parser.parse_args()
    try:
        chosen = {
            "targets": _choose("targets", given.targets, TARGETS),
            "tasks": _choose("tasks", given.tasks, TASKS),
            "libraries": _choose("libraries", given.libraries, LIBRARIES),
        }
        if given.python and not shutil.which(given.python):
            raise ConfigError(f"--python must be the path of a Python, got {given.python!r}.")
        if given.seeds < 2:
            raise ConfigError(f"--seeds must be at least 2, got {given.seeds}.")
        out = given.out.expanduser()
        if (out / "results.json").exists() and not given.overwrite:
            raise ConfigError(
                f"--out={out} holds results: name another folder, or replace them: --overwrite."
            )
        places = dict(_find_pythons(chosen["libraries"], given.python))
        cells = list(_plan(chosen["targets"], chosen["tasks"], places))
        if not cells:
            raise ConfigError("there is nothing to do: no library here has one of these tasks.")
        with explain_errors(out):
            out.mkdir(parents=True, exist_ok=True)
            run(cells, places, given.seeds, out)
    except (ConfigError, WorkdirError, OSError) as error:
        stop(error)


def _choose(field: str, text: str, known: Iterable[str]) -> list[str]:
    """Returns the names in a text; a ConfigError for one that is not known and no user's."""
    names = list(dict.fromkeys(filter(None, text.split(","))))
    for name in names or [""]:
        is_user = is_function_name(name) if field == "targets" else Path(name).is_file()
        if name in known:
            continue
        if not is_user or field == "tasks":
            raise ConfigError(
                f"--{field} must be names with commas between them, got {name!r}."
                f"{did_you_mean(name, known)} There are {', '.join(known)}."
            )
        try:
            (find if field == "targets" else load)(name)
        except Exception as error:  # whatever the user's file raises
            raise ConfigError(f"--{field}={name} cannot be used: {error}") from error
    return names


def _find_pythons(libraries: Sequence[str], other: str | None) -> Iterator[tuple[str, Installed]]:
    """Yields the libraries that are installed: in this Python, else in ``other``."""
    for library in libraries:
        package = load(library).PACKAGE
        for python in dict.fromkeys([None, other]):
            if found := version(python, package):
                yield library, Installed(python, found)
                break
        else:
            where = f"nor in {other}" if other else "and no --python=PATH names one that has it"
            print(f"{library} is left out: {package} is not installed here, {where}.")


def _plan(
    targets: Sequence[str], tasks: Sequence[str], libraries: Iterable[str]
) -> Iterator[ExamCell]:
    """Yields the cells. Only targets of two coordinates are learned: a grid is the judge."""
    methods = {library: load(library).TASKS for library in libraries}
    for task in tasks:
        for target in targets:
            if task == "learn" and find(target).dim != 2:
                continue
            for library, known in methods.items():
                for method, kind in known.get(task, {}).items():
                    yield ExamCell(task, target, library, method, kind)


def run(
    cells: Sequence[ExamCell], places: Mapping[str, Installed], num_seeds: int, out: Path
) -> None:
    """Runs cells, and writes results.json after each and report.html at the end."""
    print(f"{count_nouns(len(cells), 'cell')} of {count_nouns(num_seeds, 'seed')}, into {out}")
    runs = {library: runner(library, place.python) for library, place in places.items()}
    began, rows = time.perf_counter(), []
    results: dict[str, Any] = {"about": _about(places, num_seeds), "cells": rows}
    for number, cell in enumerate(cells, 1):
        row = dict(zip(("task", "target", "library", "method"), cell, strict=False))
        started = time.perf_counter()
        try:
            found = TASKS[cell.task](
                runs[cell.library], cell.target, cell.method, cell.kind, num_seeds
            )
        except Exception as error:  # of a library, whatever it is: the row says so
            found = {"failed": f"{type(error).__name__}: {error}".splitlines()[0]}
        rows.append({**row, **found, "cell_seconds": time.perf_counter() - started})
        results["about"]["seconds"] = time.perf_counter() - began
        results["about"]["processor_seconds"] = sum(os.times()[:4])  # of other Pythons, too
        write_whole(out / "results.json", json.dumps(_as_json(results), indent=1))
        entries = "  ".join(f"{label} {text}" for label, text in describe(rows[-1]).items())
        print(f"{number:3}/{len(cells)}  {' '.join(cell[:4])}  {entries}", flush=True)
    from ebmjax.recipes.bench import results_page

    print(results_page.write(out))


def _about(places: Mapping[str, Installed], num_seeds: int) -> dict[str, Any]:
    """Returns versions, machine and date."""
    import jax

    return {
        "date": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "versions": versions() | {name: place.version for name, place in places.items()},
        "revision": revision(),
        "machine": {
            "cores": num_processors(),
            "processor": platform.machine(),
            "device": jax.devices()[0].device_kind,
        },
        "seeds": num_seeds,
    }


def _as_json(value: Any) -> Any:
    """Returns a value with null for what is no number in JSON."""
    if isinstance(value, dict):
        return {key: _as_json(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_as_json(one) for one in value]
    return None if isinstance(value, float) and not abs(value) < float("inf") else value


LABELS = {
    "error": "error", "exact_error": "exact draws", "start_error": "start",
    "draws_per_1000_gradients": "draws a 1000 gradients", "mass_error": "masses",
    "inside": "inside", "width": "width", "exact_bias": "bias (se)", "verdict": "verdict",
    "gradients": "gradients", "seconds": "s", "failed": "failed",
}  # fmt: skip
"""Numbers of a cell that the tables show, and their names there."""


def describe(row: Mapping[str, Any]) -> dict[str, str]:
    """Returns the entries of a cell by their labels."""
    return {label: _text(row[key]) for key, label in LABELS.items() if key in row}


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        numbers = value["mean"], value["high"]
        return "-" if None in numbers else f"{numbers[0]:.3g} ± {numbers[1] - numbers[0]:.2g}"
    if value is None or isinstance(value, str):
        return value or "-"
    return f"{value:.3g}" if value < 1e4 else f"{value:,.0f}"
