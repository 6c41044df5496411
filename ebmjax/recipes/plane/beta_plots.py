"""Draws the panels of a run in the plane, and a study's divergences."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax.recipes.core.fields import Config
from ebmjax.recipes.core.plots import by_step, column, figure, legend, shades, shape
from ebmjax.recipes.core.workdir import read_rows, snapshots
from ebmjax.recipes.plane import grid as toy_grid
from ebmjax.recipes.plane.grid import Grid
from ebmjax.recipes.study import reader

# Lower log densities have one colour, as in the papers' panels.
FLOOR = -23.0


def draw(workdir: Path, config: Config) -> None:
    """Draws every plot of the run in ``workdir``."""
    plots = workdir / "plots"
    with np.load(snapshots(workdir)[-1]) as arrays, np.load(workdir / "truth.npz") as truth:
        panels(plots / "panels.png", arrays, truth["log_density"], config)
    training(plots / "training.png", read_rows(workdir), config.loss.betas)


def panels(path: Path, arrays: Any, truth: np.ndarray, config: Config) -> None:
    """Draws a column for the data and each beta: densities of model and chains, and logarithms."""
    section, peak = config.eval, float(truth.max())
    grid = Grid(section.half_width, section.grid_points)
    columns: list[tuple[str, Any, str, Any]] = [("data", truth, "", None)]
    pairs = zip(config.loss.betas, arrays["log_densities"], arrays["samples"], strict=True)
    for beta, log_density, samples in pairs:
        title, learned = shown_density(log_density, grid, np.exp(truth))
        estimate = toy_grid.smoothed_histogram(samples, grid, section.bandwidth)
        distance = toy_grid.total_variation(np.exp(truth), estimate, grid)
        with np.errstate(divide="ignore"):
            log_estimate = np.log(estimate)
        columns.append(
            (f"beta {beta:g}: {title}", learned, f"chains: TV {distance:.2f}", log_estimate)
        )
    with figure(path, 4, len(columns), size=(1.7, 1.8)) as squares:
        for (title, learned, below, sampled), axes in zip(columns, squares.T, strict=True):
            axes[0].set_title(title)
            axes[2].set_title(below)
            for place, values in ((0, learned), (2, sampled)):
                tile(axes[place], values, lambda v: np.exp(v), (0.0, math.exp(peak)))
                tile(axes[place + 1], values, lambda v: np.maximum(v, FLOOR), (FLOOR, peak))
        for axes in squares[2:, 0]:  # the data have no chains
            axes.set_visible(False)
        for axes, name in zip(squares[:2, 0], ("density", "log density"), strict=True):
            axes.set_ylabel(name)


def shown_density(
    log_density: np.ndarray, grid: Grid, truth: np.ndarray
) -> tuple[str, np.ndarray | None]:
    """Returns a learned density's caption, and its normalised logarithm or None."""
    if toy_grid.border_mass(log_density, grid) > toy_grid.MAX_BORDER_MASS:
        return "not normalisable", None
    learned = toy_grid.normalised(log_density, grid)
    return f"TV {toy_grid.total_variation(truth, np.exp(learned), grid):.2f}", learned


def tile(
    axes: Any,
    log_density: np.ndarray | None,
    shown: Callable[[np.ndarray], np.ndarray],
    limits: tuple[float, float],
    missing: str = "mass at\nthe border",
) -> None:
    """Draws one square of the panels; values beyond the limits have the limits' colours.

    Without a density, ``missing`` says why.
    """
    axes.set(xticks=[], yticks=[])
    if log_density is None:
        axes.text(0.5, 0.5, missing, ha="center", va="center")
        axes.set_aspect("equal")
        return
    low, high = limits
    image = shown(log_density).T
    axes.imshow(image, origin="lower", vmin=low, vmax=high)


def training(path: Path, rows: list[dict[str, Any]], betas: tuple[float, ...]) -> None:
    """Draws divergences and the objective's monitors against the step, a line a beta."""
    names = {
        "density_tv": "total variation, density",
        "density_kl": "KL(data || model), nats",
        "sample_tv": "total variation, chains",
        "log_density_gap": "f of data - f of negatives",
        "positive_weight": "mean weight of the data",
        "effective_sample_fraction": "effective fraction of negatives",
    }
    curves = {label: column(rows, name) for name, label in names.items()}
    curves = {label: found for label, found in curves.items() if np.isfinite(found[1]).any()}
    with figure(path, *shape(len(curves))) as grid:
        for axes, (label, (steps, values)) in zip(grid.flat, curves.items(), strict=False):
            for beta, numbers, shade in zip(betas, values.T, shades(len(betas)), strict=True):
                axes.plot(steps, numbers, color=shade, label=f"beta {beta:g}")
            by_step(axes, label, "log" if label == names["density_kl"] else "linear")
        legend(grid[0, 0].figure)


PANELS = (
    "gmm",
    "gmm restricted",
    "gmm degenerate",
    "circles",
    "circles restricted",
    "circles degenerate",
)


def study(folder: Path) -> None:
    """Draws divergences.png of a study's folder: total variation against beta, a line a row.

    A row's panel in ``PANELS`` has the longest name with which the row's begins. Means are over
    runs that have a number.
    """
    found = sorted(reports(folder).items())
    shown = [name for name in PANELS if any(_panel(rowname) == name for rowname, _ in found)]
    if not shown:
        return
    options: dict[str, Any] = {"size": (3, 3), "sharey": "row"}
    colours: dict[str, str] = {}
    with figure(folder / "divergences.png", 2, len(shown), **options) as grid:
        for rowname, runs in found:
            panel = _panel(rowname)
            if panel is None:
                continue
            axes = grid[:, shown.index(panel)]
            line = _as_words(rowname).removeprefix(panel).strip() or "default"
            colour = colours.setdefault(line, f"C{len(colours)}")
            for place, name in zip(axes, ("density_tv", "sample_tv"), strict=True):
                betas, values = over_betas(runs, name)
                has_any = ~np.isnan(values).all(axis=0)
                betas, values = betas[has_any], values[:, has_any]
                mean, counts = np.nanmean(values, axis=0), np.sum(~np.isnan(values), axis=0)
                # Divides by n - 1; 0 for one run.
                spread = np.nanstd(values, axis=0) * np.sqrt(counts / np.maximum(counts - 1, 1))
                place.errorbar(betas, mean, spread, color=colour, label=line)
        for axes, name in zip(grid[0], shown, strict=True):
            axes.set_title(name)
        grid[0, 0].set_ylabel("total variation, density")
        grid[1, 0].set_ylabel("total variation, chains")
        for axes in grid.flat:
            axes.set(xlabel="beta", ylim=(0, 1.03))
        legend(grid[0, 0].figure)


def _as_words(rowname: str) -> str:
    return rowname.replace("_", " ").replace(",", "")


def _panel(rowname: str) -> str | None:
    fitting = (name for name in PANELS if _as_words(rowname).startswith(name))
    return max(fitting, key=len, default=None)


def reports(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Returns, by a row's folder name, ``by_beta`` of its finished runs."""
    found = {
        row: [run.evaluation()["by_beta"] for run in reader.done(folder, row)]
        for row in reader.row_names(folder)
    }
    return {row: by_beta for row, by_beta in found.items() if by_beta}


def over_betas(runs: list[dict[str, Any]], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns betas (n,) and the number ``name`` of every run, (runs, n); NaN if missing."""
    models = [sorted(run.values(), key=lambda model: model["beta"]) for run in runs]
    betas = np.array([model["beta"] for model in models[0]])
    values = [[model[name] for model in run] for run in models]
    return betas, np.array(values, dtype=float)
