"""Draws total variations and densities by objective and beta, from a study's folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax.recipes.evaluators.plots import figure
from ebmjax.recipes.models.plane.beta_plots import shown_density, tile
from ebmjax.recipes.models.plane.checks import name_of
from ebmjax.recipes.models.plane.grid import Grid
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


def divergences(folder: Path) -> None:
    """Draws divergences.png of a study's folder: total variation against beta, a line a row.

    A row's panel in ``DATA`` has the longest name with which the row's begins. Means are over
    runs that have a number.
    """
    lines: dict[str, list[tuple[str, list[Any]]]] = {name: [] for name in DATA}
    for row in sorted(row_names(folder)):
        words = row.replace("_", " ").replace(",", "")
        panel = max((name for name in DATA if words.startswith(name)), key=len, default=None)
        runs = [[*run.evaluation()["by_beta"].values()] for run in find_done(folder, row)]
        if panel and runs:
            lines[panel].append((words.removeprefix(panel).strip() or "default", runs))
    lines = {panel: found for panel, found in lines.items() if found}
    if not lines:
        return
    colours: dict[str, str] = {}
    options: Any = {"size": (3, 3), "sharey": "row", "has_legend": True}
    with figure(folder / "divergences.png", 2, len(lines), **options) as grid:
        for axes, (panel, found) in zip(grid.T, lines.items(), strict=True):
            axes[0].set_title(panel)
            for line, runs in found:
                colour = colours.setdefault(line, f"C{len(colours)}")
                models = [sorted(run, key=lambda model: model["beta"]) for run in runs]
                betas = [model["beta"] for model in models[0]]
                for place, name in zip(axes, DISTANCES, strict=True):
                    values = [[model[name] for model in run] for run in models]
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


def by_setting(folder: Path) -> dict[str, dict[str, StudyRun]]:
    """Returns, by data set and setting, the runs of seed 0 by objective in TITLES' order."""
    found: dict[str, dict[str, StudyRun]] = {}
    for row in row_names(folder):
        run = first(folder, row)
        if run.status != "missing":
            objective = run.config()["loss"]["beta_variant"]
            words = [word for word in row.split(",_") if word != objective]
            found.setdefault("_".join(words), {})[objective] = run
    return {name: {o: runs[o] for o in TITLES if o in runs} for name, runs in found.items()}


def panels(path: Path, runs: dict[str, StudyRun]) -> None:
    """Draws one figure: the data, then a line for each of ``runs``, by objective."""
    shown = next(iter(runs.values()))
    config = shown.config()
    section, betas = config["eval"], config["loss"]["betas"]
    grid = Grid(section["half_width"], section["grid_points"])
    with np.load(shown.folder / "truth.npz") as arrays:
        truth = arrays["log_density"]
    limits = (0.0, float(np.exp(truth.max())))
    with figure(path, len(runs), len(betas) + 1, size=(1.5, 1.7)) as squares:
        tile(squares[0, 0], truth, np.exp, limits)
        squares[0, 0].set_title("data")
        for axes, (objective, run) in zip(squares[:, 1:], runs.items(), strict=True):
            models = _models(run, grid, np.exp(truth), betas)
            for place, (title, learned) in zip(axes, models, strict=True):
                tile(place, learned, np.exp, limits, missing=title)
                place.set_title("" if learned is None else title)
            axes[0].set_ylabel(TITLES[objective])
        for place, beta in zip(squares[0, 1:], betas, strict=True):
            place.set_title("\n".join(filter(None, (f"beta {beta:g}", place.get_title()))))


def _models(
    run: StudyRun, grid: Grid, truth: np.ndarray, betas: Sequence[float]
) -> list[tuple[str, np.ndarray | None]]:
    """Returns caption and log density of every model; None if it diverged or leaves the grid."""
    diverged = ("diverged", None)
    if not (reports := run.evaluation()):  # all models diverged, which ended the run
        return [diverged] * len(betas)
    with np.load(run.snapshots()[-1]) as arrays:
        log_densities = arrays["log_densities"]
    return [
        diverged
        if reports["by_beta"][name_of(beta)]["is_diverged"]
        else shown_density(log_density, grid, truth)
        for beta, log_density in zip(betas, log_densities, strict=True)
    ]
