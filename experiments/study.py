"""Runs a table of configurations over several seeds and writes the table of their results.

  python experiments/study.py --study=studies/jem_digits.py

A study file names its rows, each a configuration with a variant, and its columns, each a number of
summary.json or evaluation.json. Every cell is a run of its own (experiments/run.py --mode=all) in
FOLDER/<row>/seed<k>; what is there already is not run again, and what was interrupted continues.
A run that diverged counts as such and is not repeated. table.md and table.json are written anew
after every run."""

import argparse
import json
import statistics
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parent
DIVERGED = "Training diverged"


@dataclass(frozen=True)
class Study:
    """What a study file defines as ``STUDY``.

    Attributes:
      rows: label to ``CONFIG[:VARIANT]``, or to a list of it and further ``--config.`` arguments.
      columns: heading to (name in summary.json or evaluation.json, factor, decimals). Dots in a
        name descend into nested objects.
      num_seeds: seeds 0, 1, ... of every row.
      common: arguments of every run.
    """

    rows: Mapping[str, str | Sequence[str]]
    columns: Mapping[str, tuple[str, float, int]]
    num_seeds: int = 5
    common: tuple[str, ...] = ()


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

    def numbers(self) -> dict[str, Any]:
        """The two JSON objects of a finished run as one."""
        merged: dict[str, Any] = {}
        for name in ("summary.json", "evaluation.json"):
            path = self.folder / name
            merged |= json.loads(path.read_text()) if path.exists() else {}
        return merged


def cells(study: Study, folder: Path, num_seeds: int) -> list[Cell]:
    """All runs, seed by seed: after the first seeds there is a table of every row already."""
    made = []
    for seed in range(num_seeds):
        for label, row in study.rows.items():
            config, *arguments = [row] if isinstance(row, str) else row
            target = folder / label.replace("/", "-").replace(" ", "_") / f"seed{seed}"
            command = [
                sys.executable,
                str(HOME / "run.py"),
                f"--config={config}",
                *study.common,
                *arguments,
                f"--config.seed={seed}",
                f"--workdir={target}",
                "--mode=all",
            ]
            made.append(Cell(label, seed, target, command))
    return made


def run(cell: Cell) -> str:
    """Runs a cell that is missing; returns its status, or the last words of what failed."""
    if cell.status != "missing":
        return cell.status
    result = subprocess.run(cell.command, capture_output=True, text=True, check=False)
    if DIVERGED in result.stderr:
        (cell.folder / "diverged.txt").write_text(result.stderr)
    if cell.status == "missing":
        return f"failed with exit code {result.returncode}: {result.stderr.strip()[-400:]}"
    return cell.status


def table(study: Study, all_cells: Sequence[Cell]) -> dict[str, dict[str, Any]]:
    """Label to column to the list of its numbers over the seeds that have them."""
    found: dict[str, dict[str, Any]] = {}
    for label in study.rows:
        mine = [cell for cell in all_cells if cell.label == label]
        numbers = [cell.numbers() for cell in mine if cell.status == "done"]
        row: dict[str, Any] = {"diverged": sum(cell.status == "diverged" for cell in mine)}
        row["finished"] = len(numbers)
        for heading, (name, factor, _) in study.columns.items():
            values = [_descend(one, name) for one in numbers]
            row[heading] = [factor * value for value in values if value is not None]
        found[label] = row
    return found


def _descend(tree: Any, name: str) -> float | None:
    for part in name.split("."):
        if not isinstance(tree, dict) or part not in tree:
            return None
        tree = tree[part]
    return tree


def as_markdown(study: Study, found: Mapping[str, Mapping[str, Any]]) -> str:
    """The table: mean and standard deviation over seeds, and how many diverged."""
    headings = ["", *(name.replace("|", "\\|") for name in study.columns), "seeds", "diverged"]
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    for label, row in found.items():
        entries = [label]
        for heading, (_, _, decimals) in study.columns.items():
            entries.append(_mean_and_spread(row[heading], decimals))
        entries += [str(row["finished"] + row["diverged"]), str(row["diverged"])]
        lines.append("| " + " | ".join(entries) + " |")
    return "\n".join(lines) + "\n"


def _mean_and_spread(values: Sequence[float], decimals: int) -> str:
    if not values:
        return "-"
    mean = f"{statistics.mean(values):.{decimals}f}"
    return mean if len(values) < 2 else f"{mean} ± {statistics.stdev(values):.{decimals}f}"


def write(study: Study, all_cells: Sequence[Cell], folder: Path) -> None:
    """table.md and table.json, each whole or not at all."""
    found = table(study, all_cells)
    for name, text in (
        ("table.md", as_markdown(study, found)),
        ("table.json", json.dumps(found, indent=2) + "\n"),
    ):
        temporary = folder / f"{name}.tmp"
        temporary.write_text(text)
        temporary.replace(folder / name)


def load(path: str) -> Study:
    """``STUDY`` of a study file, looked for from here and from experiments/."""
    found = next((p for p in (Path(path), HOME / path) if p.is_file()), None)
    if found is None:
        names = sorted(f"studies/{p.name}" for p in (HOME / "studies").glob("*.py"))
        sys.exit(f"error: no study file {path!r}. There are {', '.join(names)}.")
    namespace: dict[str, Any] = {}
    exec(compile(found.read_text(), str(found), "exec"), namespace)
    if not isinstance(namespace.get("STUDY"), Study):
        sys.exit(f"error: {found} must define STUDY, a Study from experiments.study.")
    return namespace["STUDY"]


def main() -> None:
    """Runs what is missing and keeps the table up to date."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--study", required=True, help="study file")
    parser.add_argument("--folder", help="default runs/studies/<name of the study file>")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    parser.add_argument("--seeds", type=int, help="instead of the study's own number")
    options = parser.parse_args()
    # As this file runs as a script, its classes are not those the study file imports.
    from experiments import study as module

    study = module.load(options.study)
    folder = Path(options.folder or Path("runs") / "studies" / Path(options.study).stem)
    folder.mkdir(parents=True, exist_ok=True)
    num_seeds = study.num_seeds if options.seeds is None else options.seeds
    all_cells = module.cells(study, folder, num_seeds)
    lock, failures = threading.Lock(), []

    def run_one(cell: Any) -> None:
        status = module.run(cell)
        with lock:
            print(f"{cell.label}, seed {cell.seed}: {status}", flush=True)
            if status not in ("done", "diverged"):
                failures.append(cell)
            module.write(study, all_cells, folder)

    with ThreadPoolExecutor(max(options.jobs, 1)) as pool:
        list(pool.map(run_one, all_cells))
    print((folder / "table.md").read_text())
    sys.exit(f"error: {len(failures)} runs failed." if failures else 0)


if __name__ == "__main__":
    main()
