"""Reads a study's folder: the rows with runs, and each run's files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebmjax.recipes.folder import run_folder, workdir

DIVERGED = "diverged.txt"
"""File in a diverged run's folder, with its last lines."""


@dataclass(frozen=True)
class StudyRun:
    """One run of a study, in ``folder``: ``FOLDER/<row>/seed<k>``, which may not exist."""

    folder: Path

    @property
    def status(self) -> str:
        """Returns "done", "diverged" or "missing"."""
        if (self.folder / DIVERGED).exists():
            return "diverged"  # its best state may have been evaluated
        # An unfinished run may have been evaluated, too.
        is_done = (self.folder / "evaluation.json").exists()
        return "done" if is_done and self.evaluation().get("is_finished", True) else "missing"

    def config(self) -> dict[str, Any]:
        """Returns config.json."""
        return run_folder.as_json(run_folder.config_of(self.folder))

    def evaluation(self) -> dict[str, Any]:
        """Returns evaluation.json; empty if there is none."""
        return self._read("evaluation.json")

    def numbers(self) -> dict[str, Any]:
        """Returns summary.json and evaluation.json as one object."""
        return self._read("summary.json") | self.evaluation()

    def read_metrics(self) -> list[dict[str, Any]]:
        """Returns the rows of metrics.jsonl; none if there is no such file."""
        return workdir.read_rows(self.folder)

    def snapshots(self) -> list[Path]:
        """Returns the arrays of each monitored step, ``<step>.npz``, by step."""
        return workdir.snapshots(self.folder)

    def _read(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        return run_folder.read_json(path) if path.exists() else {}


def folder_name(label: str) -> str:
    """Returns the name of a row's folder within the study's; itself for such a name."""
    return label.replace("/", "-").replace(" ", "_")


def row_names(folder: Path) -> list[str]:
    """Returns the names of the rows' folders that hold a run, sorted."""
    return sorted({path.parent.name for path in folder.glob("*/seed*")})


def runs(folder: Path, row: str) -> list[StudyRun]:
    """Returns the runs of a row, given by its label or its folder's name, by seed."""
    paths = (folder / folder_name(row)).glob("seed*")
    return [StudyRun(path) for path in sorted(paths, key=lambda path: (len(path.name), path.name))]


def find_done(folder: Path, row: str) -> list[StudyRun]:
    """Returns those of ``runs`` that were evaluated and did not diverge."""
    return [run for run in runs(folder, row) if run.status == "done"]


def first(folder: Path, row: str) -> StudyRun:
    """Returns the run of seed 0, which may be missing."""
    return StudyRun(folder / folder_name(row) / "seed0")
