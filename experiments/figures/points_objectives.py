"""Draws learned densities by objective and beta, from a study's folder."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from ebmjax.recipes.evaluators.density import Grid, describe_density, tile
from ebmjax.recipes.evaluators.plots import figure
from ebmjax.recipes.study.reader import StudyRun, first, row_names

TITLES = {
    "default": "default",
    "no_positive": "no positive",
    "batch_corrected": "batch corrected",
    "true_objective": "true objective",
}


def objectives(folder: Path) -> None:
    """Draws ``panels_<data>[_<setting>].png`` of a study's folder: seed 0 of finished rows.

    There is a line an objective and a column a beta, beside the data's density; colours go from 0
    to its peak.
    """
    for name, runs in by_setting(folder).items():
        panels(folder / f"panels_{name}.png", runs)


def by_setting(folder: Path) -> dict[str, dict[str, dict[float, StudyRun]]]:
    """Returns, by setting and by objective in TITLES' order, the runs of seed 0 by beta.

    A row's folder is ``<data>[,_<setting>][,_<objective>],_beta=<beta>``.
    """
    found: dict[str, dict[str, dict[float, StudyRun]]] = {}
    for name in row_names(folder):
        *words, last = name.split(",_")
        run = first(folder, name)
        if last.startswith("beta=") and run.status != "missing":
            objective = next((word for word in words if word in TITLES), "default")
            setting = found.setdefault("_".join(word for word in words if word != objective), {})
            setting.setdefault(objective, {})[float(last.removeprefix("beta="))] = run
    return {name: {o: runs[o] for o in TITLES if o in runs} for name, runs in found.items()}


def panels(path: Path, runs: dict[str, dict[float, StudyRun]]) -> None:
    """Draws one figure: the data, then a line for each objective of ``runs``."""
    every = [run for by_beta in runs.values() for run in by_beta.values()]
    shown = next((run for run in every if run.snapshots()), None)
    if shown is None:
        return
    grid, truth = _read_truth(shown)
    betas = sorted({beta for by_beta in runs.values() for beta in by_beta})
    with figure(path, len(runs), len(betas) + 1, size=(1.5, 1.7)) as squares:
        tile(squares[0, 0], truth, np.exp, _limits(truth))
        squares[0, 0].set_title("data")
        for axes, (objective, by_beta) in zip(squares[:, 1:], runs.items(), strict=True):
            for place, beta in zip(axes, betas, strict=True):
                place.set_title(_draw_model(place, by_beta.get(beta), grid, truth))
            axes[0].set_ylabel(TITLES[objective])
        for place, beta in zip(squares[0, 1:], betas, strict=True):
            place.set_title("\n".join(filter(None, (f"beta {beta:g}", place.get_title()))))


def side_by_side(folder: Path) -> None:
    """Draws ``side_by_side.png`` of a study's folder: densities of ``<data>, <objective>``, seed 0.

    There is a line a data set and a column an objective, beside the data's density.
    """
    runs: dict[str, dict[str, StudyRun]] = {}
    for row in row_names(folder):
        data, _, objective = row.replace("_", " ").partition(", ")
        run = first(folder, row)
        if run.snapshots():
            runs.setdefault(data, {})[objective] = run
    if not runs:
        return
    names = list(dict.fromkeys(name for found in runs.values() for name in found))
    with figure(folder / "side_by_side.png", len(runs), len(names) + 1, size=(1.6, 1.9)) as squares:
        for axes, (data, found) in zip(squares, runs.items(), strict=True):
            grid, truth = _read_truth(next(iter(found.values())))
            tile(axes[0], truth, np.exp, _limits(truth))
            axes[0].set(title=data, ylabel="")
            for place, name in zip(axes[1:], names, strict=True):
                caption = _draw_model(place, found.get(name), grid, truth)
                place.set_title("\n".join((*name.split(", "), caption)))


def _read_truth(run: StudyRun) -> tuple[Grid, np.ndarray]:
    """Returns a run's grid, and the data's log density on it."""
    section = run.config()["evals"]["density"]
    with np.load(run.snapshots()[-1]) as arrays:
        return Grid(section["half_width"], section["grid_points"]), arrays["truth"]


def _limits(truth: np.ndarray) -> tuple[float, float]:
    """Returns the ends of the colours: from 0 to the data's peak."""
    return 0.0, float(np.exp(truth.max()))


def _draw_model(axes: Axes, run: StudyRun | None, grid: Grid, truth: np.ndarray) -> str:
    """Draws the density of a run, and returns its caption; "" where words stand in its place."""
    caption, learned = "missing" if run is None else "diverged", None
    if run is not None and run.status != "diverged":
        with np.load(run.snapshots()[-1]) as arrays:
            caption, learned = describe_density(arrays["log_density"], grid, np.exp(truth))
    tile(axes, learned, np.exp, _limits(truth), missing=caption)
    return "" if learned is None else caption
