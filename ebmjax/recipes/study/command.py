"""Runs a table of configurations over several seeds and writes the table of their results.

  ebmjax study --study=studies/jem_digits.py
  ebmjax study --study=studies/thermo_digits.py:regimes --jobs=2
  ebmjax study --study=studies/jem_digits.py --config.train.batch_size=32

Every cell is a run in FOLDER/<row>/seed<k>; "ebmjax list STUDY" prints rows and columns. Everything
is checked before the first run. table.md and table.json are written after every run, figures at the
end. The same command continues, and repeats no finished or diverged run. --config.FIELD=VALUE sets
a field in every run and wins over the row's. --rows='SVGD*' 'JEM, K = ?' runs only rows whose
labels match. With --jobs=N every run has a share of the CPUs.

With --executor=slurm every run is a job of Slurm. --slurm.NAME=VALUE passes any option of sbatch,
such as --slurm.partition=gpu; --slurm.time=MINUTES is needed. Jobs that are preempted or reach
their time limit save, are queued again and continue. The command waits for the jobs."""

import argparse
import fnmatch
import shlex
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import shorten
from typing import Any, NoReturn

from ebmjax._phases import phase, say, tell_phases
from ebmjax.recipes.__main__ import make_parser
from ebmjax.recipes.config.errors import (
    FAILED,
    ConfigError,
    WorkdirError,
    count_nouns,
    did_you_mean,
    stop,
)
from ebmjax.recipes.config.families import with_extractor
from ebmjax.recipes.folder.run_folder import check_writable
from ebmjax.recipes.study import Study, cells, jobs, table
from ebmjax.recipes.study.cells import Cell


def run_all(
    study: Study,
    all_cells: Sequence[Cell],
    ours: Sequence[Cell],
    folder: Path,
    num_jobs: int = 1,
    executor: Any = None,
) -> int:
    """Runs ``ours``, writes the table of all and draws; as ``run_cells``."""
    configs = [cell.config for cell in all_cells]
    columns = {with_extractor(k, configs): column for k, column in study.columns.items()}
    study = replace(study, columns=columns)
    ended = lambda cell: table.write(study, all_cells, folder)  # noqa: E731
    num_failed = run_cells(ours, count_nouns(len(ours), "run"), ended, num_jobs, executor)
    print((folder / "table.md").read_text())
    for draw in study.draw:
        draw(folder)
    return num_failed


def run_cells(
    ours: Sequence[Cell], text: str, ended: Callable[[Cell], None], num_jobs: int, executor: Any
) -> int:
    """Runs missing cells and says how each ended; returns the number that failed.

    With submitit's ``executor`` every run is a job of its cluster; without one the runs are
    processes of this machine, ``num_jobs`` at a time. ``text`` says what runs; ``ended`` takes each
    cell, also one that ended before.
    """
    statuses: list[str] = []

    def tell(cell: Cell, status: str) -> None:
        statuses.append(status)
        now = time.strftime("%H:%M:%S")
        say(f"{now} {cell.label}, seed {cell.seed}: {status}; {len(statuses)} of {len(ours)}")
        ended(cell)

    def hear(cell: Cell, line: str) -> None:
        note(f"{cell.label}, seed {cell.seed}: {shorten(line, 100)}")

    how = "jobs of Slurm" if executor else f"{num_jobs} at a time"
    with tell_phases("stdout"), phase(f"{text}, {how}", again="study") as note:
        missing = [cell for cell in ours if cell.status == "missing"]
        for cell in (one for one in ours if one.status != "missing"):
            tell(cell, cell.status)
        if executor is None:
            jobs.run_each(missing, num_jobs, tell, hear)
        elif missing:
            jobs.run_on(executor, missing, tell)
    return sum(status not in ("done", "diverged") for status in statuses)


def start(
    parser: argparse.ArgumentParser,
    kind: str,
    plan: Callable[[argparse.Namespace, Path, list[str]], Callable[[Any], int]],
) -> NoReturn:
    """Reads the command line of a study or a search, runs what is planned, and ends the process.

    Args:
      parser: its ``file`` is a study or a configuration; the options of both commands are added.
      kind: "studies" or "searches", the default folder.
      plan: takes the options, the folder and the arguments of every run, and checks everything.
        What it returns takes submitit's executor, or None, and returns the number of failed runs.

    Raises:
      SystemExit: with code 1 if a run failed, 2 after a mistake, 130 after Ctrl-C or SIGTERM.
    """
    parser.add_argument("--folder", help=f"default runs/{kind}/<file>[_<variant>]")
    parser.add_argument("--jobs", type=count, help="runs at the same time (default 1)")
    parser.add_argument("--executor", choices=("local", "slurm"), default="local")
    parser.add_argument("--dry_run", action="store_true", help="print the plan and end")
    options, rest = parser.parse_known_args()
    path, _, variant = options.file.partition(":")
    name = "_".join(filter(None, (Path(path).stem, variant)))
    folder = Path(options.folder or Path("runs", kind, name)).expanduser()
    is_slurm = options.executor == "slurm"
    slurm = [one for one in rest if is_slurm and one.startswith(jobs.SLURM)]
    try:
        executor = jobs.make_executor(folder / "slurm", options.jobs, slurm) if is_slurm else None
        run = plan(options, folder, [one for one in rest if one not in slurm])
        if options.dry_run:
            sys.exit(0)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            check_writable(folder, "--folder")
        except (OSError, WorkdirError) as error:
            raise WorkdirError(f"--folder={folder} cannot be used: {error}") from error
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C, also for its runs
        num_failed = run(executor)
    except (ConfigError, WorkdirError) as error:
        stop(error)
    except KeyboardInterrupt:
        stop("interrupted, and so are its runs. The same command continues.", 128 + signal.SIGINT)
    if num_failed:
        stop(f"{count_nouns(num_failed, 'run')} failed. The same command tries again.", FAILED)
    sys.exit(0)


def count(text: str) -> int:
    """Returns a number of at least 1; raises ValueError for others."""
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


def plan_study(
    options: argparse.Namespace, folder: Path, overrides: Sequence[str]
) -> Callable[[Any], int]:
    """Checks everything, prints the plan of a dry run, and returns what runs the study."""
    study = cells.load(options.file)
    all_cells = cells.cells(study, folder, options.seeds or study.num_seeds, overrides)
    labels = {row for one in options.rows for row in fnmatch.filter(study.rows, one)}
    if not labels:
        near = did_you_mean(options.rows[0].strip("*?"), study.rows)
        raise ConfigError(f"--rows={options.rows} matches no row of the study.{near}")
    for cell in all_cells:
        cell.check()
    ours = [cell for cell in all_cells if cell.label in labels]
    missing = [cell for cell in ours if cell.status == "missing"]
    cells.check_data(missing)
    if options.dry_run:
        print(f"{len(missing)} of {count_nouns(len(ours), 'run')}")
        for cell in missing:
            print(f"{cell.label}, seed {cell.seed}: {shlex.join(cell.command[4:])}")
    return lambda executor: run_all(study, all_cells, ours, folder, options.jobs or 1, executor)


def main() -> None:
    """Reads the command line, checks everything and runs; ends as ``start``."""
    parser = make_parser(__doc__, "ebmjax study")
    parser.add_argument("--study", dest="file", required=True, help="study file, with :VARIANT")
    parser.add_argument("--seeds", type=count, help="runs of every row (default: the study's)")
    parser.add_argument("--rows", nargs="+", metavar="PATTERN", default=["*"], help="rows to run")
    start(parser, "studies", plan_study)
