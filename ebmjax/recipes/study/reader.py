"""Reads a study's folder: the rows with runs, and each run's files.

It also reads folders of a former command, experiments/svgd_tuning.py: runs in FOLDER/<row>-seed<k>,
without evaluation.json, with "diverged" in summary.json.
"""

import glob
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebmjax.recipes.core import workdir
from ebmjax.recipes.core.over_training import over_training

DIVERGED = "diverged.txt"
"""File in a diverged run's folder, with its last lines."""

FORMER = "{}-seed*/config.json"
"""Files of runs of the former command, by the row's name."""


@dataclass(frozen=True)
class Run:
    """One run of a study.

    Attributes:
      folder: ``FOLDER/<row>/seed<k>``, or the former command's; it may not exist.
    """

    folder: Path

    @property
    def status(self) -> str:
        """Returns "done", "diverged" or "missing"."""
        former = self._former()
        if (self.folder / DIVERGED).exists() or former.get("diverged"):
            return "diverged"  # its best state may have been evaluated
        is_done = former or (self.folder / "evaluation.json").exists()
        return "done" if is_done else "missing"

    def config(self) -> dict[str, Any]:
        """Returns config.json."""
        return workdir.read_config(self.folder)

    def evaluation(self) -> dict[str, Any]:
        """Returns evaluation.json; empty if there is none."""
        return self._read("evaluation.json")

    def numbers(self) -> dict[str, Any]:
        """Returns summary.json and evaluation.json as one object."""
        found = self._read("summary.json") | self.evaluation()
        if not self._former():
            return found
        rows = self.logged()
        return found | {"over_training": over_training(rows), "skipped": rows[-1]["skipped"]}

    def logged(self) -> list[dict[str, Any]]:
        """Returns the rows of metrics.jsonl; none if there is no such file."""
        exists = (self.folder / "metrics.jsonl").exists()
        return workdir.read_rows(self.folder) if exists else []

    def snapshots(self) -> list[Path]:
        """Returns the arrays of each monitored step, ``<step>.npz``, by step."""
        return workdir.snapshots(self.folder)

    def _former(self) -> dict[str, Any]:
        """Returns summary.json of a run that the former command made; empty for another."""
        summary = self._read("summary.json")
        return summary if "diverged" in summary else {}

    def _read(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        return json.loads(path.read_text()) if path.exists() else {}


def folder_name(label: str) -> str:
    """Returns the name of a row's folder within the study's; itself for such a name."""
    return label.replace("/", "-").replace(" ", "_")


def row_names(folder: Path) -> list[str]:
    """Returns the names of the rows' folders that hold a run, sorted."""
    former = {path.parent.name.rpartition("-seed")[0] for path in folder.glob(FORMER.format("*"))}
    return sorted({path.parent.name for path in folder.glob("*/seed*")} | former)


def runs(folder: Path, row: str) -> list[Run]:
    """Returns the runs of a row, given by its label or its folder's name, by seed."""
    name = folder_name(row)
    found = [*(folder / name).glob("seed*")]
    found += [path.parent for path in folder.glob(FORMER.format(glob.escape(name)))]
    return [Run(path) for path in sorted(found, key=lambda path: (len(path.name), path.name))]


def done(folder: Path, row: str) -> list[Run]:
    """Returns those of ``runs`` that were evaluated and did not diverge."""
    return [run for run in runs(folder, row) if run.status == "done"]


def first(folder: Path, row: str) -> Run:
    """Returns the run of seed 0, which may be missing."""
    run = Run(folder / folder_name(row) / "seed0")
    return next((one for one in runs(folder, row) if one.folder.name.endswith("-seed0")), run)
