"""Runs a table of configurations over several seeds and writes the table of their results.

  python experiments/study.py --study=studies/jem_digits.py
  python experiments/study.py --study=studies/thermo_digits.py:quick

A study file names its rows, each a configuration with a variant, and its columns, each a number of
summary.json or evaluation.json, or a list of one number for each repeat of the run. Every cell is a
run of its own (experiments/run.py --mode=all) in FOLDER/<row>/seed<k>, of seed k, or of the seeds
from k on if it trains several repeats at once; no seed counts twice. What is there already is not
run again, and what was interrupted continues. A run that diverged counts as such and is not
repeated. table.md and table.json are written anew after every run; figures, where the study has
any, are drawn at the end. With --jobs=N every run has its own share of the CPUs."""

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from experiments.study_seeds import first_seed
from experiments.tables import entry
from experiments.workdir import write_whole

HOME = Path(__file__).resolve().parent
DIVERGED = "Training diverged"


@dataclass(frozen=True)
class Study:
    """What a study file defines as ``STUDY``, or as values of ``STUDIES``, by variant.

    Attributes:
      rows: label to ``CONFIG[:VARIANT]``, or to a list of it and further ``--config.`` arguments.
      columns: heading to (name in summary.json or evaluation.json, factor, decimals). Dots in a
        name descend into nested objects.
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
    """One run: its row, its seed, its folder and the command that makes it."""

    label: str
    seed: int
    folder: Path
    command: list[str]

    @property
    def status(self) -> str:
        """ "done", "diverged" or "missing"."""
        if (self.folder / "evaluation.json").exists():
            return "done"
        return "diverged" if (self.folder / "diverged.txt").exists() else "missing"

    @property
    def repeats(self) -> int:
        """How many independent repeats the run trains at once."""
        path = self.folder / "config.json"
        config = json.loads(path.read_text()) if path.exists() else {}
        return config.get("train", {}).get("num_repeats", 1)

    def numbers(self) -> dict[str, Any]:
        """The two JSON objects of a finished run as one."""
        merged: dict[str, Any] = {}
        for name in ("summary.json", "evaluation.json"):
            path = self.folder / name
            merged |= json.loads(path.read_text()) if path.exists() else {}
        return merged


def cells(study: Study, folder: Path, num_seeds: int) -> list[Cell]:
    """All runs, a first one of every row first: after them the table has every row already."""
    made = []
    for number in range(num_seeds):
        for label in from_both_ends(list(study.rows)):
            row = study.rows[label]
            config, *arguments = [row] if isinstance(row, str) else row
            arguments = [*study.common, *arguments]
            seed = first_seed(number, config, arguments)
            target = folder / folder_name(label) / f"seed{seed}"
            command = [
                sys.executable,
                str(HOME / "run.py"),
                f"--config={config}",
                *arguments,
                f"--config.seed={seed}",
                f"--workdir={target}",
                "--mode=all",
            ]
            made.append(Cell(label, seed, target, command))
    return made


def folder_name(label: str) -> str:
    """Of a row's runs, within the study's folder."""
    return label.replace("/", "-").replace(" ", "_")


def from_both_ends(labels: Sequence[str]) -> list[str]:
    """The first, the last, the second, the last but one, and so on.

    Neighbours in a table tend to share compiled programs: at the same time each would compile them.
    """
    half = (len(labels) + 1) // 2
    pairs = zip_longest(labels[:half], reversed(labels[half:]))
    return [label for pair in pairs for label in pair if label is not None]


def run(cell: Cell, cpus: Collection[int] = ()) -> str:
    """Runs a cell that is missing, on ``cpus`` alone if any are named.

    Returns:
      its status, or the last words of what failed.
    """
    if cell.status != "missing":
        return cell.status
    with subprocess.Popen(
        cell.command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        if cpus:
            os.sched_setaffinity(process.pid, cpus)
        _, errors = process.communicate()
    if DIVERGED in errors:
        (cell.folder / "diverged.txt").write_text(errors)
    if cell.status == "missing":
        return f"failed with exit code {process.returncode}: {errors.strip()[-400:]}"
    return cell.status


def shares(num_jobs: int) -> list[list[int]]:
    """The CPUs of this process dealt out to ``num_jobs`` jobs; none where they cannot be bound.

    Runs that keep to CPUs of their own finish sooner than runs that share them all.
    """
    if num_jobs == 1 or not hasattr(os, "sched_setaffinity"):
        return [[] for _ in range(num_jobs)]
    cpus = sorted(os.sched_getaffinity(0))
    return [cpus[job % len(cpus) :: num_jobs] for job in range(num_jobs)]


def table(study: Study, all_cells: Sequence[Cell]) -> dict[str, dict[str, Any]]:
    """Label to column to the list of its numbers over the seeds and repeats that were run.

    None stands for a seed or repeat without the number, as those that diverged.
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
        for heading, (name, factor, _) in study.columns.items():
            values = _every([_descend(one, name) for one in numbers], repeats)
            row[heading] = [None if value is None else factor * value for value in values]
        found[label] = row
    return found


def _every(by_run: Sequence[Any], repeats: Sequence[int]) -> list[float | None]:
    """The number of every run, or of every repeat where runs have a list of them."""
    is_each_repeat = any(isinstance(values, list) for values in by_run)
    lists = (
        values if isinstance(values, list) else [values] * (num if is_each_repeat else 1)
        for values, num in zip(by_run, repeats, strict=True)
    )
    return [value for values in lists for value in values]


def _descend(tree: Any, name: str) -> Any:
    """What stands under ``name``: a number, one a repeat, or None."""
    for part in name.split("."):
        if not isinstance(tree, dict) or part not in tree:
            return None
        tree = tree[part]
    return tree


def as_markdown(study: Study, found: Mapping[str, Mapping[str, Any]]) -> str:
    """The table: mean and standard deviation over seeds and repeats, and how many diverged.

    A number that not all of them have says how many it is of, diverged ones included.
    """
    headings = ["", *(name.replace("|", "\\|") for name in study.columns), "seeds", "diverged"]
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    for label, row in found.items():
        entries = [label]
        for heading, (_, _, decimals) in study.columns.items():
            entries.append(entry(row[heading], decimals))
        entries += [str(row["finished"] + row["diverged"]), str(row["diverged"])]
        lines.append("| " + " | ".join(entries) + " |")
    return "\n".join(lines) + "\n"


def write(study: Study, all_cells: Sequence[Cell], folder: Path) -> None:
    """table.md and table.json, each whole or not at all."""
    found = table(study, all_cells)
    write_whole(folder / "table.md", as_markdown(study, found))
    write_whole(folder / "table.json", json.dumps(found, indent=2) + "\n")


def load(name: str) -> Study:
    """The study of ``FILE[:VARIANT]``, the file looked for from here and from experiments/."""
    path, _, variant = name.partition(":")
    found = next((p for p in (Path(path), HOME / path) if p.is_file()), None)
    if found is None:
        names = sorted(f"studies/{p.name}" for p in (HOME / "studies").glob("*.py"))
        sys.exit(f"error: no study file {path!r}. There are {', '.join(names)}.")
    studies = read(found)
    if variant not in studies:
        choices = ", ".join(path + (f":{one}" if one else "") for one in studies)
        sys.exit(f"error: {path} has no variant {variant!r}. There are {choices}.")
    return studies[variant]


def read(path: Path) -> Mapping[str, Study]:
    """The studies of a file by variant, "" where it has but one."""
    namespace: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    studies = namespace.get("STUDIES", {"": namespace.get("STUDY")})
    if not all(isinstance(study, Study) for study in studies.values()):
        sys.exit(
            f"error: {path} must define STUDY, a Study from experiments.study, or STUDIES, such "
            "studies by variant."
        )
    return studies


def default_folder(name: str) -> Path:
    """``runs/studies/<file>[_<variant>]`` under the current directory."""
    path, _, variant = name.partition(":")
    return Path("runs") / "studies" / "_".join(filter(None, (Path(path).stem, variant)))


def run_all(study: Study, all_cells: Sequence[Cell], folder: Path, num_jobs: int) -> int:
    """Runs what is missing, keeps the table up to date and draws; returns how many runs failed."""
    lock, failures, free = threading.Lock(), [], queue.SimpleQueue[list[int]]()
    for share in shares(num_jobs):
        free.put(share)

    def run_one(cell: Cell) -> None:
        share = free.get()
        status = run(cell, share)
        free.put(share)
        with lock:
            print(f"{cell.label}, seed {cell.seed}: {status}", flush=True)
            if status not in ("done", "diverged"):
                failures.append(cell)
            write(study, all_cells, folder)

    with ThreadPoolExecutor(num_jobs) as pool:
        list(pool.map(run_one, all_cells))
    print((folder / "table.md").read_text())
    if study.draw is not None:
        study.draw(folder)
    return len(failures)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--study", required=True, help="study file, with :VARIANT if it has any")
    parser.add_argument("--folder", help="default runs/studies/<study file>[_<variant>]")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    parser.add_argument("--seeds", type=int, help="runs of every row (default: the study's)")
    options = parser.parse_args()
    # As this file runs as a script, its classes are not those the study file imports.
    from experiments import study as module

    study = module.load(options.study)
    folder = Path(options.folder or default_folder(options.study))
    folder.mkdir(parents=True, exist_ok=True)
    num_seeds = study.num_seeds if options.seeds is None else options.seeds
    all_cells = module.cells(study, folder, num_seeds)
    num_failed = module.run_all(study, all_cells, folder, max(options.jobs, 1))
    sys.exit(f"error: {num_failed} runs failed." if num_failed else 0)


if __name__ == "__main__":
    main()
