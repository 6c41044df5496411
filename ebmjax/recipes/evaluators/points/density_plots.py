"""Pictures of densities in the plane: the learned one beside the data's, and over training."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax.recipes.evaluators.plots import figure, shape
from ebmjax.recipes.evaluators.points import grid as grids
from ebmjax.recipes.evaluators.points.grid import Grid
from ebmjax.recipes.folder.workdir import snapshots

FLOOR = -23.0
"""Lower log densities have one colour, as in the papers' panels."""
COLUMNS = 4


def panels(
    path: Path, arrays: Mapping[str, Any], report: Mapping[str, Any], grid: Grid, bandwidth: float
) -> None:
    """Draws data, model and chains side by side: densities above, their logarithms below.

    Arrays and report are those of the evaluator; the bandwidth is of the chains' kernel estimate.
    """
    truth = arrays["truth"]
    title, learned = describe_density(arrays["log_density"], grid, np.exp(truth))
    with np.errstate(divide="ignore"):
        chains = np.log(grids.smooth_histogram(arrays["ends"], grid, bandwidth))
    columns = (
        ("data", truth),
        (f"model: {title}", learned),
        (f"chains: TV {report['sample_tv']:.2f}", chains),
    )
    peak = float(truth.max())
    with figure(path, 2, len(columns), size=(1.9, 2.0)) as squares:
        for (title, log_density), (above, below) in zip(columns, squares.T, strict=True):
            above.set_title(title)
            tile(above, log_density, np.exp, (0.0, math.exp(peak)))
            tile(below, log_density, lambda v: np.maximum(v, FLOOR), (FLOOR, peak))
        for axes, name in zip(squares[:, 0], ("density", "log density"), strict=True):
            axes.set_ylabel(name)


def describe_density(
    log_density: np.ndarray, grid: Grid, truth: np.ndarray
) -> tuple[str, np.ndarray | None]:
    """Returns a learned density's caption, and its normalised logarithm or None."""
    if grids.border_mass(log_density, grid) > grids.MAX_BORDER_MASS:
        return "not normalisable", None
    learned = grids.normalise(log_density, grid)
    return f"TV {grids.total_variation(truth, np.exp(learned), grid):.2f}", learned


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
    axes.imshow(shown(log_density).T, origin="lower", vmin=limits[0], vmax=limits[1])


def over_training(workdir: Path, half_width: float) -> None:
    """Draws ``plots/density.png``: the learned energy at each monitored step that kept it."""
    kept = []
    for file in snapshots(workdir):
        with np.load(file) as arrays:
            if "log_density" in arrays.files:
                kept.append((int(file.stem), arrays["log_density"]))
    if not kept:
        return
    path = workdir / "plots" / "density.png"
    with figure(path, *shape(len(kept), COLUMNS), size=(2.4, 2.7)) as grid:
        for axes, (step, log_density) in zip(grid.flat, kept, strict=False):
            energy_map(axes, log_density, half_width)
            axes.set_title(f"step {step}")


def energy_map(axes: Any, log_density: np.ndarray, half_width: float) -> None:
    """Draws the learned energy, low blue and high red as in the thesis."""
    energy = log_density.max() - log_density.T
    extent = (-half_width, half_width, -half_width, half_width)
    axes.imshow(energy, origin="lower", extent=extent, cmap="coolwarm", alpha=0.75)
    axes.set(xticks=[], yticks=[], xlim=extent[:2], ylim=extent[2:])
