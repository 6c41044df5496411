"""Runs a table of configurations over several seeds and writes the table of their results.

  ebmjax study --study=studies/jem_digits.py --config.train.batch_size=32
  ebmjax study --study=studies/thermo_digits.py:regimes --jobs=2

Every cell is a run in FOLDER/<row>/seed<k>; "ebmjax list STUDY" prints rows and columns. Everything
is checked before the first run. table.md and table.json are written after every run, figures at the
end. The same command continues, and repeats no finished or diverged run. --config.FIELD=VALUE sets
a field in every run and wins over the row's. With --jobs=N every run has a share of the CPUs."""

import argparse
import fnmatch
import shlex
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from textwrap import shorten

from ebmjax._phases import phase, say, tell_phases
from ebmjax.recipes.__main__ import make_parser
from ebmjax.recipes.config.errors import FAILED, ConfigError, WorkdirError, count_nouns, stop
from ebmjax.recipes.config.families import with_extractor
from ebmjax.recipes.folder.run_folder import check_writable
from ebmjax.recipes.study import Study, cells, jobs, table
from ebmjax.recipes.study.cells import Cell


def run_all(study: Study, all_cells: list[Cell], ours: list[Cell], folder: Path, num: int) -> int:
    """Runs ``ours``, ``num`` at a time, writes the table and draws; returns how many failed."""
    configs = [cell.config for cell in all_cells]
    columns = {with_extractor(k, configs): column for k, column in study.columns.items()}
    study = replace(study, columns=columns)
    statuses: list[str] = []

    def tell(cell: Cell, status: str) -> None:
        statuses.append(status)
        now = time.strftime("%H:%M:%S")
        say(f"{now} {cell.label}, seed {cell.seed}: {status}; {len(statuses)} of {len(ours)}")
        table.write(study, all_cells, folder)

    def hear(cell: Cell, line: str) -> None:
        note(f"{cell.label}, seed {cell.seed}: {shorten(line, 100)}")

    with tell_phases("stdout"), phase(count_nouns(len(ours), "run"), again="study") as note:
        missing = [cell for cell in ours if cell.status == "missing"]
        for cell in (one for one in ours if one.status != "missing"):
            tell(cell, cell.status)
        if missing:
            jobs.run_here(num, missing, tell, hear)
    print((folder / "table.md").read_text())
    for draw in study.draw:
        draw(folder)
    return sum(status not in ("done", "diverged") for status in statuses)


def count(text: str) -> int:
    """Returns a number of at least 1; raises ValueError for others."""
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


def plan(options: argparse.Namespace, folder: Path, rest: list[str]) -> Callable[[int], int]:
    """Checks everything, prints the plan of a dry run, and returns what runs the study."""
    study = cells.load(options.file)
    all_cells = cells.cells(study, folder, options.seeds or study.num_seeds, rest)
    labels = {row for one in options.rows for row in fnmatch.filter(study.rows, one)}
    if not labels:
        hint = f"`ebmjax list {options.file}` prints all"
        raise ConfigError(f"--rows={options.rows} matches no row of the study: {hint}.")
    for cell in all_cells:
        cell.check()
    ours = [cell for cell in all_cells if cell.label in labels]
    missing = [cell for cell in ours if cell.status == "missing"]
    cells.check_data(missing)
    if options.dry_run:
        print(f"{len(missing)} of {count_nouns(len(ours), 'run')}")
        for cell in missing:
            print(f"{cell.label}, seed {cell.seed}: {shlex.join(cell.command[4:])}")
    return partial(run_all, study, all_cells, ours, folder)


def main() -> None:
    """Reads the command line, checks everything, runs, and ends the process.

    Raises:
      SystemExit: with code 1 if a run failed, 2 after a mistake, 130 after Ctrl-C or SIGTERM.
    """
    parser = make_parser(__doc__, "ebmjax study")
    parser.add_argument("--study", dest="file", required=True, help="study file, with :VARIANT")
    parser.add_argument("--seeds", type=count, help="runs of every row (default: the study's)")
    rows = "rows to run, by their labels: 'SVGD*' 'JEM, K = ?'"
    parser.add_argument("--rows", nargs="+", metavar="PATTERN", default=["*"], help=rows)
    parser.add_argument("--folder", help="default runs/studies/<file>[_<variant>]")
    parser.add_argument("--jobs", type=count, default=1, help="runs at the same time (default 1)")
    parser.add_argument("--dry_run", action="store_true", help="print the plan and end")
    options, rest = parser.parse_known_args()
    path, _, variant = options.file.partition(":")
    name = "_".join(filter(None, (Path(path).stem, variant)))
    folder = Path(options.folder or Path("runs", "studies", name)).expanduser()
    try:
        run = plan(options, folder, rest)
        if options.dry_run:
            sys.exit(0)
        folder.mkdir(parents=True, exist_ok=True)
        check_writable(folder, "--folder")
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C, also for its runs
        num_failed = run(options.jobs)
    except ConfigError as error:
        stop(error)
    except (OSError, WorkdirError) as error:
        stop(f"--folder={folder} cannot be used: {error}")
    except KeyboardInterrupt:
        stop("interrupted, and so are its runs. The same command continues.", 128 + signal.SIGINT)
    if num_failed:
        stop(f"{count_nouns(num_failed, 'run')} failed. The same command tries again.", FAILED)
    sys.exit(0)
