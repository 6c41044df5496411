"""Draws learned densities side by side, from a study's folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax.evaluate import Grid
from ebmjax.recipes.evaluators.density import judge_density, tile
from ebmjax.recipes.evaluators.plots import figure
from ebmjax.recipes.folder.run_folder import read_arrays, read_json, snapshots
from ebmjax.recipes.study.cells import Cell, find_runs

Runs = Mapping[str, Mapping[Any, Cell]]
"""Runs by the line and the column of a figure; a column is a name or a beta."""

OBJECTIVES = ("default", "no_positive", "batch_corrected", "true_objective")


def objectives(folder: Path) -> None:
    """Draws ``panels_<data>[_<setting>].png`` of a study's folder: seed 0 of finished rows.

    There is a line an objective and a column a beta.
    """
    for name, runs in by_setting(folder).items():
        densities(folder / f"panels_{name}.png", runs)


def by_setting(folder: Path) -> dict[str, dict[str, dict[float, Cell]]]:
    """Returns, by setting, objective and beta, the runs of seed 0.

    A row's folder is ``<data>[,_<setting>][,_<objective>],_beta=<beta>``.
    """
    found: dict[str, dict[str, dict[float, Cell]]] = {}
    for name in find_runs(folder):
        *words, last = name.split(",_")
        run = Cell(folder / name / "seed0")
        if last.startswith("beta=") and run.status != "missing":
            objective = next((word for word in words if word in OBJECTIVES), "default")
            setting = found.setdefault("_".join(word for word in words if word != objective), {})
            setting.setdefault(objective, {})[float(last.removeprefix("beta="))] = run
    return {name: {o: runs[o] for o in OBJECTIVES if o in runs} for name, runs in found.items()}


def side_by_side(folder: Path) -> None:
    """Draws ``side_by_side.png`` of a study's folder: densities of ``<data>, <objective>``, seed 0.

    There is a line a data set and a column an objective.
    """
    runs: dict[str, dict[str, Cell]] = {}
    for row in find_runs(folder):
        data, _, objective = row.replace("_", " ").partition(", ")
        if snapshots((run := Cell(folder / row / "seed0")).folder):
            runs.setdefault(data, {})[objective] = run
    densities(folder / "side_by_side.png", runs)


def densities(path: Path, runs: Runs) -> None:
    """Draws the data's density at the left of each line, then those of its runs.

    Colours go from 0 to the peak of the data's density. Words stand in the place of a run that
    diverged or is missing.
    """
    columns = sorted({column for line in runs.values() for column in line})
    shown = {name: [r for r in line.values() if snapshots(r.folder)] for name, line in runs.items()}
    if not any(shown.values()):
        return
    with figure(path, len(runs), len(columns) + 1, size=(1.6, 1.9)) as squares:
        for axes, (name, line) in zip(squares, runs.items(), strict=True):
            if not shown[name]:
                continue
            section = read_json(shown[name][0].folder / "config.json")["evals"]["density"]
            grid = Grid(section["half_width"], section["grid_points"])
            truth = read_arrays(snapshots(shown[name][0].folder)[-1])["truth"]
            peak = np.exp(truth.max())
            tile(axes[0], np.exp(truth), peak, "data")
            axes[0].set_ylabel(name.replace("_", " "))
            for place, column in zip(axes[1:], columns, strict=True):
                run, learned = line.get(column), None
                head = [f"beta {column:g}"] if isinstance(column, float) else column.split(", ")
                caption = "missing" if run is None else "diverged"
                if run is not None and run.status != "diverged":
                    found = read_arrays(snapshots(run.folder)[-1])["log_density"]
                    numbers, learned = judge_density(found, truth, grid)
                    head += [f"TV {numbers['density_tv']:.2f}"] * (learned is not None)
                    caption = "not normalisable"
                tile(place, learned, peak, "\n".join(head), missing=caption)
