"""Draws total variations and densities by objective and beta, from a study's folder."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from ebmjax.recipes.evaluators.plots import figure
from ebmjax.recipes.evaluators.points.density_plots import describe_density, tile
from ebmjax.recipes.evaluators.points.grid import Grid
from ebmjax.recipes.study.figures import draw_means
from ebmjax.recipes.study.reader import StudyRun, find_done, first, row_names

TITLES = {
    "default": "default",
    "no_positive": "no positive",
    "batch_corrected": "batch corrected",
    "true_objective": "true objective",
}
ENDS = ("", " restricted", " degenerate")
DATA = tuple(f"{name}{end}" for name in ("gmm", "circles") for end in ENDS)
DISTANCES = {"density_tv": "total variation, density", "sample_tv": "total variation, chains"}


class BetaRow(NamedTuple):
    """A row of the study; its folder is ``<data>[,_<setting>][,_<objective>],_beta_<beta>``.

    Attributes:
      name: of the folder.
      setting: data and setting, with spaces.
      objective: in ``TITLES``.
      beta: of the objective.
    """

    name: str
    setting: str
    objective: str
    beta: float


def rows_of(folder: Path) -> list[BetaRow]:
    """Returns the rows of a study's folder that have a beta in their name, by beta."""
    found = []
    for name in row_names(folder):
        *words, last = name.split(",_")
        if last.startswith("beta_"):
            objective = next((word for word in words if word in TITLES), "default")
            setting = " ".join(word for word in words if word != objective)
            found.append(BetaRow(name, setting, objective, float(last.removeprefix("beta_"))))
    return sorted(found, key=lambda row: row.beta)


def divergences(folder: Path) -> None:
    """Draws divergences.png of a study's folder: total variation against beta.

    A setting's panel in ``DATA`` has the longest name with which the setting's begins. In it there
    is a line for each setting and objective. Means are over runs that have a number.
    """
    panels: dict[str, dict[str, list[tuple[float, list[Any]]]]] = {name: {} for name in DATA}
    for row in rows_of(folder):
        found = (name for name in DATA if row.setting.startswith(name))
        panel = max(found, key=len, default=None)
        runs = [run.evaluation()["density"] for run in find_done(folder, row.name)]
        if panel and runs:
            rest = row.setting.removeprefix(panel).strip()
            objective = "" if row.objective == "default" else TITLES[row.objective]
            line = " ".join(filter(None, (rest, objective))) or "default"
            panels[panel].setdefault(line, []).append((row.beta, runs))
    panels = {panel: lines for panel, lines in panels.items() if lines}
    if not panels:
        return
    colours: dict[str, str] = {}
    options: Any = {"size": (3, 3), "sharey": "row", "has_legend": True}
    with figure(folder / "divergences.png", 2, len(panels), **options) as grid:
        for axes, (panel, lines) in zip(grid.T, panels.items(), strict=True):
            axes[0].set_title(panel)
            for line, points in lines.items():
                colour = colours.setdefault(line, f"C{len(colours)}")
                betas, num = [beta for beta, _ in points], max(len(runs) for _, runs in points)
                for place, name in zip(axes, DISTANCES, strict=True):
                    values = np.full((num, len(points)), np.nan)
                    for i, (_, runs) in enumerate(points):
                        values[: len(runs), i] = [run[name] for run in runs]  # None is NaN
                    draw_means(place, betas, values, "deviation", color=colour, label=line)
        for axes, label in zip(grid, DISTANCES.values(), strict=True):
            axes[0].set_ylabel(label)
        for axes in grid.flat:
            axes.set(xlabel="beta", ylim=(0, 1.03))


def objectives(folder: Path) -> None:
    """Draws ``panels_<data>[_<setting>].png`` of a study's folder: seed 0 of finished rows.

    There is a line an objective and a column a beta, beside the data's density; colours go from 0
    to its peak.
    """
    for name, runs in by_setting(folder).items():
        panels(folder / f"panels_{name}.png", runs)


def by_setting(folder: Path) -> dict[str, dict[str, dict[float, StudyRun]]]:
    """Returns, by setting and by objective in TITLES' order, the runs of seed 0 by beta."""
    found: dict[str, dict[str, dict[float, StudyRun]]] = {}
    for row in rows_of(folder):
        run = first(folder, row.name)
        if run.status != "missing":
            setting = found.setdefault(row.setting.replace(" ", "_"), {})
            setting.setdefault(row.objective, {})[row.beta] = run
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
    section = run.config()["eval"]["density"]
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
