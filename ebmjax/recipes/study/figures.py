"""Draws the numbers that a study's rows logged over training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from ebmjax.recipes.core.plots import column
from ebmjax.recipes.study import reader

Panel = tuple[str | tuple[str, ...], str, str]
"""Number's name (or possible names) in metrics.jsonl, its label, and the scale of its axis."""

STARTS = {"sample_fid": "start_fid", "sample_kid": "start_kid", "sample_is": "start_is"}
"""Scores of the chains' starts, by the score of the samples."""

DASHES = ("-", "--", ":")
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
    starts.

    Args:
      panels: from left to right, at most three a line.
      name: name of the file.
      folder: the study's folder.
      rows: labels of the rows to show, or their names in the figure by label; None for all.
    """
    runs = _runs(folder, rows)
    if not runs:
        return
    lines = -(-len(panels) // 3)
    columns = -(-len(panels) // lines)
    figure, grid = plt.subplots(
        lines, columns, figsize=(4.6 * columns, 3.6 * lines + 1.2), squeeze=False
    )
    for axes, (names, label, scale) in zip(grid.flat, panels, strict=False):
        for i, (row, seeds) in enumerate(runs.items()):
            style: dict[str, Any] = {"color": f"C{i % 10}", "ls": DASHES[i // 10 % len(DASHES)]}
            curves = [_curve(rows_of_seed, names) for rows_of_seed in seeds]
            if scale == "log":
                curves = [(steps, np.where(values > 0, values, np.nan)) for steps, values in curves]
            line(axes, curves, row, len(runs) <= CROWD, style)
            if names in STARTS:
                of_starts = [_curve(rows_of_seed, STARTS[names]) for rows_of_seed in seeds]
                line(axes, of_starts, "_starts", False, {"color": style["color"], "ls": ":"})
        axes.set(xlabel="step", ylabel=label, yscale=scale)
        if not any(len(curve.get_xdata()) for curve in axes.lines):  # no row logs it
            axes.set_axis_off()
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.03 * -(-len(runs) // 4), 1, 1))
    figure.savefig(folder / f"{name}.png", dpi=130)
    plt.close(figure)


def _runs(
    folder: Path, rows: Sequence[str] | Mapping[str, str] | None
) -> dict[str, list[list[dict[str, Any]]]]:
    """Returns the logs of every seed, by a row's name in the figure, for rows with a run."""
    if rows is None:
        shown = {name: name.replace("_", " ") for name in reader.row_names(folder)}
    else:
        shown = rows if isinstance(rows, Mapping) else {row: row for row in rows}
    found = {
        text: [logged for run in reader.runs(folder, row) if (logged := run.logged())]
        for row, text in shown.items()
    }
    return {row: seeds for row, seeds in found.items() if seeds}


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
    for steps, values in curves if shows_seeds else []:
        axes.plot(steps, values, lw=0.5, alpha=0.4, **style)
    longest = min((len(steps) for steps, _ in curves), default=0)
    mean = np.mean([values[:longest] for _, values in curves], axis=0) if curves else []
    axes.plot(curves[0][0][:longest] if curves else [], mean, lw=1.3, label=label, **style)
