"""Holds samplers, estimates of log Z and objectives against targets with exact answers.

Prints a table, and writes results.json and report.html into --out. Leaves out libraries that are
not installed.

  ebmjax bench --targets=gaussian2,mixture2 --libraries=ours --out=runs/bench
"""

import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ebmjax._user_function import is_function_name
from ebmjax._versions import versions
from ebmjax.recipes.__main__ import make_parser
from ebmjax.recipes.bench.exam import TASKS, examine, summarise
from ebmjax.recipes.bench.libraries import find_python, load
from ebmjax.recipes.bench.targets import TARGETS, find
from ebmjax.recipes.config.errors import (
    ConfigError,
    WorkdirError,
    count_nouns,
    did_you_mean,
    stop,
)
from ebmjax.recipes.folder.run_folder import explain_errors
from ebmjax.recipes.folder.workdir import check_writable, revision, write_json
from ebmjax.recipes.run.processes import num_processors

LIBRARIES = ("ours", "blackjax", "blackjax_smc", "numpyro", "torchebm", "ebmkit")
# Options that take names: the known ones, what finds one, and the form of a user's.
NAMES: dict[str, tuple[Iterable[str], Callable[[str], Any], str]] = {
    "targets": (TARGETS, find, ", or FILE.py:FUNCTION"),
    "tasks": (TASKS, str, ""),
    "libraries": (LIBRARIES, load, ", or FILE.py"),
}


def main() -> None:
    """Reads the command line of the process, runs every cell, prints and writes."""
    parser = make_parser(__doc__, "ebmjax bench")
    add = parser.add_argument
    for field, (known, _, user) in NAMES.items():
        text = f"names with commas (default: all of {', '.join(known)}){user}"
        add(f"--{field}", default=",".join(known), help=text)
    add("--seeds", type=int, default=8, help="repeats of every cell, at least 2 (default: 8)")
    add("--python", help="Python of the libraries that this one does not have")
    add("--out", type=Path, default=Path("runs/bench"), help="folder to write")
    add("--overwrite", action="store_true", help="replace results that are there")
    given = parser.parse_args()
    out = given.out.expanduser()
    try:
        if given.python and not shutil.which(given.python):
            raise ConfigError(f"--python must be the path of a Python, got {given.python!r}.")
        if given.seeds < 2:
            raise ConfigError(f"--seeds must be at least 2, got {given.seeds}.")
        if (out / "results.json").exists() and not given.overwrite:
            raise ConfigError(
                f"--out={out} holds results: name another folder, or replace them: --overwrite."
            )
        targets, tasks, libraries = (_choose(field, getattr(given, field)) for field in NAMES)
        places = {}
        for library in libraries:
            package = load(library).PACKAGE
            if place := find_python(package, sys.executable, given.python):
                places[library] = place
            else:
                other = "and no --python=PATH names one that has it"
                other = f"nor in {given.python}" if given.python else other
                print(f"{library} is left out: {package} is not installed here, {other}.")
        cells = [
            (task, target, library, method)
            for task in tasks
            for target in targets
            if task != "learn" or find(target).dim == 2  # a grid is the judge
            for library in places
            for method in load(library).TASKS.get(task, ())
        ]
        if not cells:
            raise ConfigError("there is nothing to do: no library here has one of these tasks.")
        check_writable(out, "--out")
        with explain_errors(out, "--out"):
            out.mkdir(parents=True, exist_ok=True)
            run(cells, places, given.seeds, out)
    except (ConfigError, WorkdirError) as error:
        stop(error)


def _choose(field: str, text: str) -> list[str]:
    """Returns the names in a text; a ConfigError for one that is not known and no user's."""
    names, (known, use, user) = list(dict.fromkeys(filter(None, text.split(",")))), NAMES[field]
    for name in names or [""]:
        if name not in known and not (user and (name.endswith(".py") or is_function_name(name))):
            raise ConfigError(
                f"--{field} must be names with commas between them, got {name!r}."
                f"{did_you_mean(name, known)} There are {', '.join(known)}{user}."
            )
        try:
            use(name)
        except Exception as error:  # whatever the user's file raises
            raise ConfigError(f"--{field}={name} cannot be used: {error}") from error
    return names


def run(cells: Sequence[Any], places: Mapping[str, Any], num_seeds: int, out: Path) -> None:
    """Runs cells, and writes results.json after each and report.html at the end.

    A cell is a task, a target, a library and a method; a place is a Python and a version.
    """
    import jax

    from ebmjax.recipes.bench.results_page import describe, write

    print(f"{count_nouns(len(cells), 'cell')} of {count_nouns(num_seeds, 'seed')}, into {out}")
    machine = {"cores": num_processors(), "processor": platform.machine()}
    about = {
        "date": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "versions": versions() | {library: place[1] for library, place in places.items()},
        "revision": revision(),
        "machine": machine | {"device": jax.devices()[0].device_kind},
        "seeds": num_seeds,
    }
    began, rows = time.perf_counter(), []
    for cell in cells:
        try:
            found = summarise(examine(places[cell[2]][0], *cell, str(num_seeds)))
        except Exception as error:  # of a library, whatever it is: the row says so
            found = {"failed": f"{type(error).__name__}: {error}".splitlines()[0]}
        rows.append(dict(zip(("task", "target", "library", "method"), cell, strict=True)) | found)
        about["seconds"] = time.perf_counter() - began
        about["processor_seconds"] = sum(os.times()[:4])  # of other Pythons, too
        write_json(out / "results.json", {"about": about, "cells": rows})
        entries = "  ".join(f"{name} {text}" for name, text in describe(found).items())
        print(f"{len(rows):3}/{len(cells)}  {' '.join(cell)}  {entries}", flush=True)
    print(write(out, about, rows))
