"""Figures of a study: numbers over training."""

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ebmjax.recipes.config.families import with_extractor
from ebmjax.recipes.evaluators.plots import LINES, by_step, column, figure, shape
from ebmjax.recipes.folder import run_folder
from ebmjax.recipes.study.cells import find_runs, folder_name

Panel = tuple[str, str, str]
"""Number's name in metrics.jsonl, its label, and the scale of its axis."""

ACCURACY: Panel = ("test_accuracy", "test accuracy", "linear")
BUFFER_FID: Panel = ("sample_fid", "FID of the buffer ({extractor})", "log")
DISTANCE: Panel = ("chain_displacement", "squared distance travelled, a pixel", "log")


def over_training(
    panels: Sequence[Panel], name: str, folder: Path, rows: Sequence[str] | None = None
) -> None:
    """Draws ``<name>.png`` of a study's folder: a panel a number, a line a row, seeds faintly.

    ``rows`` are labels; None for all. Diverged runs are drawn up to their end. A number that no row
    has leaves its panel empty; without runs there is no figure. Dotted lines are the scores of the
    samples' starts. Labels of panels may hold "{extractor}".
    """
    found, logs, configs = find_runs(folder), {}, []
    for row in found if rows is None else rows:
        for run in found.get(folder_name(row), ()):
            if log := run_folder.read_rows(run.folder):
                logs.setdefault(row.replace("_", " "), []).append(log)
                configs.append(run_folder.as_json(run_folder.config_of(run.folder)))
    if not logs:
        return
    options: Any = {"size": (4.6, 3.6), "has_legend": True}
    with figure(folder / f"{name}.png", *shape(len(panels)), **options) as grid:
        for axes, (number, label, scale) in zip(grid.flat, panels, strict=False):
            for (row, seeds), style in zip(logs.items(), cycle(LINES), strict=False):
                _draw(axes, seeds, number, scale, label=row, **style)
                if number.startswith("sample_"):
                    start, dotted = number.replace("sample", "start"), style | {"linestyle": ":"}
                    _draw(axes, seeds, start, scale, **dotted)
            by_step(axes, with_extractor(label, configs), scale)


def _draw(axes: Axes, seeds: Sequence[Any], name: str, scale: str, **style: Any) -> None:
    """Draws the mean over seeds at common steps, and seeds faintly if it has a label."""
    curves = [one for one in (column(rows, name) for rows in seeds) if len(one[0])]
    if scale == "log":
        curves = [(steps, np.where(values > 0, values, np.nan)) for steps, values in curves]
    if not curves:
        return
    faint: Any = style | {"label": None, "lw": 0.5, "alpha": 0.4}
    for steps, values in curves if "label" in style else ():
        axes.plot(steps, values, **faint)
    shortest = min(len(steps) for steps, _ in curves)
    means = np.mean([values[:shortest] for _, values in curves], axis=0)
    axes.plot(curves[0][0][:shortest], means, **style)
