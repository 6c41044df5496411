"""Runs a table of configurations over several seeds and writes the table of their results.

  ebmjax study --study=studies/jem_digits.py
  ebmjax study --study=studies/thermo_digits.py:regimes --jobs=2
  ebmjax study --study=studies/jem_digits.py --config.train.batch_size=32

A study file names its rows and columns; "ebmjax list STUDY" prints them. A row is a configuration
with a variant. A column is a number of summary.json or evaluation.json. Every cell is a run
(ebmjax run --mode=all) in FOLDER/<row>/seed<k>, of seed k. Finished and diverged runs are not
repeated; interrupted runs continue. Everything is checked before the first run. Ctrl-C and
SIGTERM reach the runs, which also stop if this command is killed. table.md and table.json are
written after every run, figures at the end. With --jobs=N every run has a share of
the CPUs. --rows='SVGD*' 'JEM, K = ?' runs only rows whose labels match; the table keeps all rows.

With --executor=slurm every run is a job of Slurm. --slurm.NAME=VALUE passes any option of sbatch,
such as --slurm.partition=gpu; --slurm.time=MINUTES is needed. Jobs that are preempted or reach
their time limit save, are queued again and continue. The command waits for the jobs.

--config.FIELD=VALUE sets a field in every run. It may be given several times, and it wins over the
row's own value. A folder whose runs have another value of the field is refused."""

import argparse
import fnmatch
import shlex
import signal
import sys
import time
from collections.abc import Callable, Sequence
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
from ebmjax.recipes.folder.run_folder import read_json
from ebmjax.recipes.folder.workdir import check_writable
from ebmjax.recipes.study import Study, jobs, table
from ebmjax.recipes.study.cells import (
    Cell,
    cells,
    check_argument,
    check_data,
    default_folder,
    load,
    with_extractors,
)


def run_all(
    study: Study,
    all_cells: Sequence[Cell],
    folder: Path,
    num_jobs: int,
    patterns: Sequence[str] = ("*",),
    executor: Any = None,
) -> int:
    """Runs missing cells, updates the table and draws; returns the number of failed runs.

    Rows whose labels match none of ``patterns`` are not run but stay in the table. With submitit's
    ``executor`` every run is a job of its cluster; without one the runs are processes of this
    machine, ``num_jobs`` at a time.
    """
    ours = matching(all_cells, patterns)
    text = plan(ours, "jobs of Slurm" if executor else f"{num_jobs} at a time")
    num_failed = run_cells(
        ours, text, lambda cell: table.write(study, all_cells, folder), num_jobs, executor
    )
    print((folder / "table.md").read_text())
    if study.draw is not None:
        study.draw(folder)
    return num_failed


def run_cells(
    ours: Sequence[Cell],
    text: str,
    ended: Callable[[Cell], None],
    num_jobs: int,
    executor: Any = None,
) -> int:
    """Runs missing cells and says how each ended, as ``run_all``; returns the number that failed.

    ``text`` says what runs; ``ended`` takes each cell, also one that ended before.
    """
    statuses: list[str] = []

    def tell(cell: Cell, status: str) -> None:
        statuses.append(status)
        now = time.strftime("%H:%M:%S")
        say(f"{now} {cell.label}, seed {cell.seed}: {status}; {len(statuses)} of {len(ours)}")
        ended(cell)

    with tell_phases("stdout"), phase(text, again="study") as note:
        if executor is None:
            hear = lambda cell, line: note(f"{cell.label}, seed {cell.seed}: {shorten(line, 100)}")  # noqa: E731
            jobs.run_each(ours, num_jobs, tell, hear)
        else:
            jobs.run_on(executor, ours, tell)
    return len([one for one in statuses if one not in ("done", "diverged")])


def plan(ours: Sequence[Cell], how: str) -> str:
    """Returns what will run, such as "3 rows x 2 seeds = 6 runs, 2 at a time; 1 ended before"."""
    num_rows = len({cell.label for cell in ours})
    seeds = count_nouns(len(ours) // num_rows, "seed")
    num_ended = sum(cell.status != "missing" for cell in ours)
    runs = f"{count_nouns(num_rows, 'row')} x {seeds} = {count_nouns(len(ours), 'run')}, {how}"
    return runs + f"; {num_ended} ended before" * bool(num_ended)


def matching(all_cells: Sequence[Cell], patterns: Sequence[str]) -> list[Cell]:
    """Returns the cells of rows whose labels match one of ``patterns``, shell wildcards in them."""
    return [cell for cell in all_cells if any(fnmatch.fnmatchcase(cell.label, p) for p in patterns)]


def _tell_plan(ours: Sequence[Cell], num_jobs: int) -> None:
    """Prints what would run: a line for each row that lacks runs, with its arguments."""
    print(plan(ours, f"{num_jobs} at a time"))
    rows: dict[str, list[Cell]] = {}
    for cell in (one for one in ours if one.status == "missing"):
        rows.setdefault(cell.label, []).append(cell)
    for label, some in rows.items():
        words = some[0].command[some[0].command.index("run") + 1 :]
        print(f"{label}, seeds {', '.join(str(one.seed) for one in some)}: {shlex.join(words)}")


def _claim(folder: Path, study: Study) -> None:
    """Makes the folder; raises WorkdirError where another study's table would be lost."""
    folder.mkdir(parents=True, exist_ok=True)
    check_writable(folder, "--folder")
    path = folder / "table.json"
    foreign = [one for one in (read_json(path) if path.exists() else {}) if one not in study.rows]
    if foreign:
        raise WorkdirError(f"its table.json is of another study, with the row {foreign[0]!r}.")


def add_options(parser: argparse.ArgumentParser, jobs: str) -> None:
    """Adds the options that say where runs run; ``jobs`` is the default number of runs at once."""
    parser.add_argument("--jobs", type=int, help=f"runs at the same time ({jobs})")
    parser.add_argument("--executor", choices=("local", "slurm"), default="local")
    parser.add_argument("--max_steps", type=int, help="steps of every run, in place of its epochs")
    parser.add_argument("--dry_run", action="store_true", help="print the plan and end")


def overrides_of(options: argparse.Namespace, rest: Sequence[str], *counts: str) -> list[str]:
    """Returns the fields that a command line sets in every run.

    Raises:
      ConfigError: if one of the options ``counts`` is below 1, or an argument sets no field.
    """
    for name in counts:
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise ConfigError(f"--{name} must be at least 1, got {getattr(options, name)}.")
    overrides = [argument for argument in rest if not argument.startswith(jobs.SLURM)]
    for argument in overrides:
        check_argument(argument, f"unexpected argument {argument!r}:")
    if options.max_steps is not None:
        overrides.append(f"--config.train.max_steps={options.max_steps}")
    return overrides


def end_after(run: Callable[[], int]) -> NoReturn:
    """Runs what returns the number of failed runs, and ends the process.

    Raises:
      SystemExit: with code 1 if a run failed, 2 after a mistake, 130 after Ctrl-C,
        143 after SIGTERM.
    """

    def interrupt(number: int, frame: Any) -> NoReturn:
        raise KeyboardInterrupt(number)

    signal.signal(signal.SIGTERM, interrupt)  # acts as Ctrl-C, also for its runs
    try:
        num_failed = run()
    except (ConfigError, WorkdirError) as error:
        stop(error)
    except KeyboardInterrupt as error:
        print("Interrupted, and so are its runs. The same command continues.", file=sys.stderr)
        sys.exit(128 + (error.args[0] if error.args else signal.SIGINT))
    if num_failed:
        stop(f"{count_nouns(num_failed, 'run')} failed. The same command tries again.", FAILED)
    sys.exit(0)


def main() -> None:
    """Reads the command line, checks everything and runs."""
    parser = make_parser(__doc__, "ebmjax study")
    parser.add_argument("--study", required=True, help="study file, with :VARIANT if it has any")
    parser.add_argument("--folder", help="default runs/studies/<study file>[_<variant>]")
    add_options(parser, "default 1; with Slurm any number")
    parser.add_argument("--seeds", type=int, help="runs of every row (default: the study's)")
    parser.add_argument("--rows", nargs="+", metavar="PATTERN", default=["*"], help="rows to run")
    options, rest = parser.parse_known_args()
    try:
        overrides = overrides_of(options, rest, "jobs", "seeds")
        study = load(options.study)
        folder = Path(options.folder or default_folder(options.study)).expanduser()
        all_cells = cells(study, folder, options.seeds or study.num_seeds, overrides)
        for pattern in options.rows:
            if not fnmatch.filter(study.rows, pattern):
                near = did_you_mean(pattern.strip("*?"), study.rows)
                raise ConfigError(f"--rows={pattern!r} matches no row of the study.{near}")
        ours = matching(all_cells, options.rows)
        study = with_extractors(study, all_cells)
        for cell in all_cells:
            cell.check()
        check_data([cell for cell in ours if cell.status == "missing"])
        executor = jobs.executor_of(options.executor, folder / "slurm", options.jobs, rest)
        if options.dry_run:
            _tell_plan(ours, options.jobs or 1)
            sys.exit(0)
    except (ConfigError, WorkdirError) as error:
        stop(error)
    try:
        _claim(folder, study)
    except (OSError, WorkdirError) as error:
        stop(f"--folder={folder} cannot be used: {error}")
    end_after(lambda: run_all(study, all_cells, folder, options.jobs or 1, options.rows, executor))
