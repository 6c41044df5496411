"""Draws the panels of a run in the plane."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.evaluators.plots import by_step, column, figure, legend, shades, shape
from ebmjax.recipes.folder.workdir import read_rows, snapshots
from ebmjax.recipes.models.plane import grid as plane_grid
from ebmjax.recipes.models.plane.grid import Grid

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
        estimate = plane_grid.smoothed_histogram(samples, grid, section.bandwidth)
        distance = plane_grid.total_variation(np.exp(truth), estimate, grid)
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
    if plane_grid.border_mass(log_density, grid) > plane_grid.MAX_BORDER_MASS:
        return "not normalisable", None
    learned = plane_grid.normalised(log_density, grid)
    return f"TV {plane_grid.total_variation(truth, np.exp(learned), grid):.2f}", learned


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
