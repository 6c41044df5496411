"""Draws the total variation against beta, from a study's folder."""

from pathlib import Path
from typing import Any

import numpy as np

from ebmjax.recipes.evaluators.plots import figure, legend
from ebmjax.recipes.study import reader

PANELS = (
    "gmm",
    "gmm restricted",
    "gmm degenerate",
    "circles",
    "circles restricted",
    "circles degenerate",
)


def divergences(folder: Path) -> None:
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
