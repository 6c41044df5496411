"""Runs a table of configurations over several seeds and writes the table of their results.

  ebmjax study --study=studies/jem_digits.py
  python experiments/study.py --study=studies/thermo_digits.py:quick
  python experiments/study.py --study=studies/jem_digits.py --config.train.batch_size=32

A study file names its rows and columns. A row is a configuration with a variant. A column is a
number of summary.json or evaluation.json, or a list with one number for each repeat of the run.
Every cell is a run (ebmjax run --mode=all) in FOLDER/<row>/seed<k>, of seed k, or of the seeds from
k on if it trains several repeats at once. Finished and diverged runs are not repeated; interrupted
runs continue. Ctrl-C and SIGTERM reach the runs. table.md and table.json are written after every
run, figures at the end. With --jobs=N every run has a share of the CPUs. --rows='SVGD*' 'JEM, K =
?' runs only rows whose labels match; the table keeps all rows.

With --executor=slurm every run is a job of Slurm. --slurm.NAME=VALUE passes any option of sbatch,
such as --slurm.partition=gpu; --slurm.time=MINUTES is needed. Jobs that are preempted or reach
their time limit save, are queued again and continue. The command waits for the jobs.

--config.FIELD=VALUE, any number of times, changes a field of every run after its row's arguments. A
folder whose runs have another value is refused."""

import argparse
import fnmatch
import json
import runpy
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ebmjax.recipes.core import files
from ebmjax.recipes.core.fields import FAILED, ConfigError, WorkdirError, stop
from ebmjax.recipes.core.run_folder import read_json
from ebmjax.recipes.core.workdir import write_whole
from ebmjax.recipes.study import Study
from ebmjax.recipes.study.cells import Cell, cells, with_extractors
from ebmjax.recipes.study.cluster import SLURM, executor_of, run_on
from ebmjax.recipes.study.errors import add_errors, markdown
from ebmjax.recipes.study.jobs import run_each
from ebmjax.recipes.study.table_entry import entry


def table(study: Study, all_cells: Sequence[Cell]) -> dict[str, dict[str, Any]]:
    """Returns, by label and column, the numbers over seeds and repeats that were run.

    None stands for a seed or repeat without the number, such as a diverged one. Rows whose runs
    keep numbers image by image also have "test_set_error" and "difference_from".
    """
    found: dict[str, dict[str, Any]] = {}
    for label in study.rows:
        ran = [cell for cell in all_cells if cell.label == label and cell.status != "missing"]
        numbers = [cell.numbers() if cell.status == "done" else None for cell in ran]
        repeats = [cell.repeats for cell in ran]
        diverged = sum(
            num if one is None else one.get("diverged_repeats", 0)
            for one, num in zip(numbers, repeats, strict=True)
        )
        row: dict[str, Any] = {"diverged": diverged, "finished": sum(repeats) - diverged}
        row["recovered"] = sum(
            num for one, num in zip(numbers, repeats, strict=True) if one and one.get("recoveries")
        )
        for heading, (name, factor, _) in study.columns.items():
            values = _every([_descend(one, name) for one in numbers], repeats)
            row[heading] = [None if value is None else factor * value for value in values]
        found[label] = row
    add_errors(study, all_cells, found)
    return found


def _every(by_run: Sequence[Any], repeats: Sequence[int]) -> list[float | None]:
    """Returns the number of every run, or of every repeat if runs have a list."""
    is_each_repeat = any(isinstance(values, list) for values in by_run)
    lists = (
        values if isinstance(values, list) else [values] * (num if is_each_repeat else 1)
        for values, num in zip(by_run, repeats, strict=True)
    )
    return [value for values in lists for value in values]


def _descend(tree: Any, name: str) -> Any:
    """Returns the value under ``name``: a number, a list over repeats, or None."""
    for part in name.split("."):
        if not isinstance(tree, dict) or part not in tree:
            return None
        tree = tree[part]
    return tree


def as_markdown(study: Study, found: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the table: mean and standard deviation over seeds and repeats, and how runs ended.

    A number that some runs lack says how many have it, diverged ones included. The test set's error
    and paired differences from the first row are shown if known. The last column, if any run
    recovered, counts those that diverged on the way and finished with other settings than the
    row's (``config.train.on_divergence``).
    """
    ends = ["diverged", *["recovered"] * any(row.get("recovered") for row in found.values())]
    headings = ["", *(name.replace("|", "\\|") for name in study.columns), "seeds", *ends]
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    for label, row in found.items():
        entries = [label]
        for heading, (_, _, decimals) in study.columns.items():
            error = row.get("test_set_error", {}).get(heading)
            entries.append(entry(row[heading], decimals, error))
        entries += [str(row["finished"] + row["diverged"]), *(str(row[end]) for end in ends)]
        lines.append("| " + " | ".join(entries) + " |")
    return "\n".join([*lines, *markdown(study, found)]) + "\n"


def write(study: Study, all_cells: Sequence[Cell], folder: Path) -> None:
    """Writes table.md and table.json, each whole or not at all."""
    found = table(study, all_cells)
    write_whole(folder / "table.md", as_markdown(study, found))
    write_whole(folder / "table.json", json.dumps(found, indent=2) + "\n")


def load(name: str) -> Study:
    """Returns the study of ``FILE[:VARIANT]``; the file is found from here or experiments/."""
    path, _, variant = name.partition(":")
    studies = read(files.find(path, "studies", "study"))
    if variant not in studies:
        choices = ", ".join(path + (f":{one}" if one else "") for one in studies)
        stop(f"{path} has no variant {variant!r}. There are {choices}.")
    return studies[variant]


def read(path: Path) -> Mapping[str, Study]:
    """Returns the studies of a file by variant, "" for a single one."""
    try:
        namespace = runpy.run_path(str(path))
    except Exception as error:  # whatever the file does
        stop(f"{path} cannot be run: {type(error).__name__}: {error}")
    studies = namespace.get("STUDIES", {"": namespace.get("STUDY")})
    if not all(isinstance(study, Study) for study in studies.values()):
        stop(
            f"{path} must define STUDY, a Study from ebmjax.recipes.study, or STUDIES, such "
            "studies by variant."
        )
    return studies


def default_folder(name: str) -> Path:
    """Returns ``runs/studies/<file>[_<variant>]`` in the current folder."""
    path, _, variant = name.partition(":")
    return Path("runs") / "studies" / "_".join(filter(None, (Path(path).stem, variant)))


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
    failures: list[Cell] = []

    def tell(cell: Cell, status: str) -> None:
        num = len(cell.numbers().get("recoveries", ())) if status == "done" else 0
        after = f" after {num} recoveries" if num else ""
        print(f"{cell.label}, seed {cell.seed}: {status}{after}", flush=True)
        if status not in ("done", "diverged"):
            failures.append(cell)
        write(study, all_cells, folder)

    if executor is None:
        run_each(matching(all_cells, patterns), num_jobs, tell)
    else:
        run_on(executor, matching(all_cells, patterns), tell)
    print((folder / "table.md").read_text())
    _tell_absent(study, all_cells)
    if study.draw is not None:
        study.draw(folder)
    return len(failures)


def matching(all_cells: Sequence[Cell], patterns: Sequence[str]) -> list[Cell]:
    """Returns the cells of rows whose labels match one of ``patterns``, shell wildcards in them."""
    return [cell for cell in all_cells if any(fnmatch.fnmatchcase(cell.label, p) for p in patterns)]


def _check_patterns(all_cells: Sequence[Cell], patterns: Sequence[str]) -> None:
    """Ends the program at the first pattern that no row matches."""
    for pattern in patterns:
        if not matching(all_cells, [pattern]):
            labels = ", ".join(repr(label) for label in dict.fromkeys(c.label for c in all_cells))
            stop(f"--rows={pattern!r} matches no row of the study. Its rows are {labels}.")


def _tell_absent(study: Study, all_cells: Sequence[Cell]) -> None:
    """Prints columns for which no finished run has a number: perhaps misspelled."""
    numbers = [cell.numbers() for cell in all_cells if cell.status == "done"]
    for heading, (name, _, _) in study.columns.items():
        if numbers and all(_descend(one, name) is None for one in numbers):
            print(f"No finished run has a {name}, for the column {heading!r}.")


def _claim(folder: Path, study: Study) -> None:
    """Makes the folder; raises for another study's folder, whose table would be lost.

    Raises:
      WorkdirError: if its table has a row of another study.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "table.json"
    theirs = read_json(path) if path.exists() else {}
    foreign = [label for label in theirs if label not in study.rows]
    if foreign:
        raise WorkdirError(
            f"its table.json is of another study, with the row {foreign[0]!r}. Name another folder."
        )


def _check_overrides(arguments: Sequence[str]) -> None:
    """Ends the program at the first argument that changes no field of every run."""
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        if not name.startswith("--config.") or not equals:
            stop(
                f"unexpected argument {argument!r}; --config.FIELD=VALUE changes a field of "
                "every run."
            )
        if name == "--config.seed":
            stop(
                "--config.seed is each run's own, from 0 on; --seeds=N says how many runs a "
                "row has."
            )


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--study", required=True, help="study file, with :VARIANT if it has any")
    parser.add_argument("--folder", help="default runs/studies/<study file>[_<variant>]")
    parser.add_argument(
        "--jobs", type=int, help="runs at the same time (default 1; with Slurm any number)"
    )
    parser.add_argument(
        "--executor", choices=("local", "slurm"), default="local", help="where runs run"
    )
    parser.add_argument("--seeds", type=int, help="runs of every row (default: the study's)")
    parser.add_argument(
        "--rows", nargs="+", metavar="PATTERN", default=["*"], help="rows to run, by their labels"
    )
    options, rest = parser.parse_known_args()
    overrides = [argument for argument in rest if not argument.startswith(SLURM)]
    _check_overrides(overrides)
    study = load(options.study)
    folder = Path(options.folder or default_folder(options.study)).expanduser()
    num_seeds = study.num_seeds if options.seeds is None else options.seeds
    if num_seeds < 1:
        stop(f"--seeds must be at least 1, got {num_seeds}.")
    try:
        all_cells = cells(study, folder, num_seeds, overrides)
        for cell in all_cells:
            cell.check()
        _check_patterns(all_cells, options.rows)
        study = with_extractors(study, all_cells)
        executor = executor_of(options.executor, folder / "slurm", options.jobs, rest)
    except (ConfigError, WorkdirError) as error:
        stop(error)
    try:
        _claim(folder, study)
    except (OSError, WorkdirError) as error:
        stop(f"--folder={folder} cannot be used: {error}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # acts as Ctrl-C, also for its runs
    try:
        num_jobs = max(options.jobs or 1, 1)
        num_failed = run_all(study, all_cells, folder, num_jobs, options.rows, executor)
    except ConfigError as error:
        stop(error)
    except KeyboardInterrupt:
        print("Interrupted, and so are its runs. The same command continues.", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    if num_failed:
        stop(f"{num_failed} runs failed.", FAILED)
    sys.exit(0)
