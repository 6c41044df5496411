"""Draws the numbers that a study's rows logged over training."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ebmjax.recipes.config.extractor_names import with_extractor
from ebmjax.recipes.evaluators.plots import LINES, by_step, column, figure, legend, shape
from ebmjax.recipes.study import reader

Panel = tuple[str | tuple[str, ...], str, str]
"""Number's name (or possible names) in metrics.jsonl, its label, and the scale of its axis."""

STARTS = {"sample_fid": "start_fid", "sample_kid": "start_kid", "sample_is": "start_is"}
"""Scores of the chains' starts, by the score of the samples."""

CROWD = 12


def over_training(
    panels: Sequence[Panel],
    name: str,
    folder: Path,
    rows: Sequence[str] | Mapping[str, str] | None = None,
) -> None:
    """Draws ``<name>.png`` of a study's folder: a panel a number, a line a row, seeds faintly.

    Diverged runs are drawn up to their end; a logarithmic axis leaves out zeros. Seeds of more than
    ``CROWD`` rows are not drawn, because they would hide the lines. A number that no row has leaves
    its panel empty; without runs there is no figure. Dotted lines are the scores of the samples'
    starts. Labels may hold EXTRACTOR, for the runs' extractors.

    Args:
      panels: from left to right, at most three a line.
      name: name of the file.
      folder: the study's folder.
      rows: labels of the rows to show, or their names in the figure by label; None for all.
    """
    runs = _runs(folder, rows)
    if not runs:
        return
    styles = dict(zip(runs, cycle(LINES), strict=False))
    with figure(folder / f"{name}.png", *shape(len(panels)), size=(4.6, 3.6)) as grid:
        for axes, (names, label, scale) in zip(grid.flat, panels, strict=False):
            for row, found in runs.items():
                seeds = [run.logged() for run in found]
                curves = [_curve(rows_of_seed, names) for rows_of_seed in seeds]
                if scale == "log":
                    curves = [(steps, np.where(y > 0, y, np.nan)) for steps, y in curves]
                line(axes, curves, row, len(runs) <= CROWD, styles[row])
                if names in STARTS:
                    of_starts = [_curve(rows_of_seed, STARTS[names]) for rows_of_seed in seeds]
                    line(axes, of_starts, "_starts", False, styles[row] | {"linestyle": ":"})
            configs = (run.config() for found in runs.values() for run in found)
            by_step(axes, with_extractor(label, configs), scale)
        legend(grid[0, 0].figure)


def _runs(
    folder: Path, rows: Sequence[str] | Mapping[str, str] | None
) -> dict[str, list[reader.Run]]:
    """Returns the runs with logs, by a row's name in the figure, for rows with any."""
    if rows is None:
        shown = {name: name.replace("_", " ") for name in reader.row_names(folder)}
    else:
        shown = rows if isinstance(rows, Mapping) else {row: row for row in rows}
    found = {
        text: [run for run in reader.runs(folder, row) if run.logged()]
        for row, text in shown.items()
    }
    return {row: runs for row, runs in found.items() if runs}


def _curve(
    rows: list[dict[str, Any]], names: str | tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns steps and values of the first of ``names`` that the run logged, if any."""
    choices = (names,) if isinstance(names, str) else names
    curves = [column(rows, name) for name in choices]
    return next((curve for curve in curves if len(curve[0])), curves[0])


def line(
    axes: Axes,
    curves: list[tuple[np.ndarray, np.ndarray]],
    label: str,
    shows_seeds: bool,
    style: dict[str, Any],
) -> None:
    """Draws the mean over seeds at common steps, and seeds faintly, if any."""
    curves = [(steps, values) for steps, values in curves if len(steps)]
    if not curves:
        return
    for steps, values in curves if shows_seeds else []:
        axes.plot(steps, values, lw=0.5, alpha=0.4, **style)
    longest = min(len(steps) for steps, _ in curves)
    mean = np.mean([values[:longest] for _, values in curves], axis=0)
    axes.plot(curves[0][0][:longest], mean, label=label, **style)
