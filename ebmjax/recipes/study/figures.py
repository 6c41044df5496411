"""Draws what a study's rows logged over training, means over their seeds, and their samples."""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ebmjax.recipes.config.extractor_names import with_extractor
from ebmjax.recipes.evaluators.plots import LINES, by_step, column, figure, shape, tiles
from ebmjax.recipes.folder.run_folder import read_json
from ebmjax.recipes.study import reader

Panel = tuple[str | tuple[str, ...], str, str]
"""Number's name (or possible names) in metrics.jsonl, its label, and the scale of its axis."""

ACCURACY: Panel = ("test_accuracy", "test accuracy", "linear")
BUFFER_FID: Panel = ("sample_fid", "FID of the buffer ({extractor})", "log")
DISTANCE: Panel = ("chain_displacement", "squared distance travelled, a pixel", "log")
SKIPPED: Panel = ("skipped", "skipped steps", "symlog")

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

    ``rows`` has labels, or names in the figure by label; None for all. Diverged runs are drawn up
    to their end. A number that no row has leaves its panel empty; without runs there is no figure.
    Dotted lines are the scores of the samples' starts. Labels may hold EXTRACTOR.
    """
    runs = _runs(folder, rows)
    if not runs:
        return
    styles = dict(zip(runs, cycle(LINES), strict=False))
    path = folder / f"{name}.png"
    with figure(path, *shape(len(panels)), size=(4.6, 3.6), has_legend=True) as grid:
        for axes, (names, label, scale) in zip(grid.flat, panels, strict=False):
            for row, found in runs.items():
                seeds = [run.read_metrics() for run in found]
                curves = [_curve(rows_of_seed, names) for rows_of_seed in seeds]
                if scale == "log":
                    curves = [(steps, np.where(y > 0, y, np.nan)) for steps, y in curves]
                line(axes, curves, row, len(runs) <= CROWD, styles[row])
                if names in STARTS:
                    of_starts = [_curve(rows_of_seed, STARTS[names]) for rows_of_seed in seeds]
                    line(axes, of_starts, "_starts", False, styles[row] | {"linestyle": ":"})
            configs = (run.config() for found in runs.values() for run in found)
            by_step(axes, with_extractor(label, configs), scale)


def _runs(
    folder: Path, rows: Sequence[str] | Mapping[str, str] | None
) -> dict[str, list[reader.StudyRun]]:
    """Returns the runs with logs, by a row's name in the figure, for rows with any."""
    if rows is None:
        shown = {name: name.replace("_", " ") for name in reader.row_names(folder)}
    else:
        shown = rows if isinstance(rows, Mapping) else {row: row for row in rows}
    found = {
        text: [run for run in reader.runs(folder, row) if run.read_metrics()]
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


def draw_each(*functions: Callable[[Path], None]) -> Callable[[Path], None]:
    """Returns a function that draws all figures of a study's folder, for ``Study.draw``."""

    def draw(folder: Path) -> None:
        for function in functions:
            function(folder)

    return draw


def draw_means(axes: Axes, x: Any, values: Any, *, is_shaded: bool = False, **style: Any) -> None:
    """Draws means over seeds (n,) of values (seeds, n), and their range or the seeds as dots."""
    values = np.ma.masked_invalid(np.asarray(values, float))
    is_there = values.count(axis=0) > 0
    x, values = np.asarray(x)[is_there], values[:, is_there]
    (drawn,) = axes.plot(x, values.mean(axis=0), **style)
    if is_shaded:
        ends = (values.min(axis=0), values.max(axis=0))
        axes.fill_between(x, *ends, alpha=0.15, color=drawn.get_color(), lw=0)
    else:
        axes.plot(x, values.T, ".", color=drawn.get_color())


def draw_sweep(folder: Path, name: str) -> None:
    """Draws ``sweep.png`` of a study's folder: every column against the field of ``Study.sweep``.

    There is a line for each row.
    """
    if not (folder / "table.json").exists():
        return
    table = read_json(folder / "table.json")
    headings = [key for key, value in next(iter(table.values())).items() if type(value) is list]
    lines: dict[str, dict[str, Any]] = {}
    for label, row in table.items():
        base, _, value = label.rpartition(f", {name.rpartition('.')[2]}=")
        lines.setdefault(base, {})[value] = row
    texts = list(dict.fromkeys(value for line in lines.values() for value in line))
    try:
        x, ticks = [float(text) for text in texts], None
    except ValueError:  # names
        x, ticks = [*range(len(texts))], texts
    is_log = ticks is None and min(x) > 0 and max(x) >= 10 * min(x)
    columns = [
        one for one in headings if any(x is not None for row in table.values() for x in row[one])
    ]
    if not columns:
        return
    is_named = len(lines) > 1
    with figure(folder / "sweep.png", *shape(len(columns)), has_legend=is_named) as grid:
        for axes, heading in zip(grid.flat, columns, strict=False):
            for (base, line), style in zip(lines.items(), cycle(LINES), strict=False):
                seeds = zip_longest(*(line[text][heading] for text in texts if text in line))
                places = [place for place, text in zip(x, texts, strict=True) if text in line]
                values = np.array([*seeds], float)  # None is NaN
                draw_means(axes, places, values, label=base, marker="o", **style)
            axes.set(xlabel=name, ylabel=heading, xscale="log" if is_log else "linear")
            if ticks:
                axes.set_xticks(x, ticks)


def draw_tiles(path: Path, sets: Mapping[str, np.ndarray], columns: int, **options: Any) -> None:
    """Draws sets of uint8 images (n, H, W, C) by their captions, ``most`` panels in a line."""
    if sets:
        with figure(path, *shape(len(sets), options.pop("most")), **options) as grid:
            for axes, (caption, images) in zip(grid.flat, sets.items(), strict=False):
                tiles(axes, images, columns, caption)
