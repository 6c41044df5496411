"""Draws what a study's rows logged over training, means over their seeds, and their samples."""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ebmjax.recipes.config.families import with_extractor
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

CROWD = 12  # most rows whose seeds are drawn, too


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
    if rows is None:
        rows = {name: name.replace("_", " ") for name in reader.row_names(folder)}
    shown = rows if isinstance(rows, Mapping) else {row: row for row in rows}
    found = {text: reader.runs(folder, row) for row, text in shown.items()}
    every = {row: [run.read_metrics() for run in runs] for row, runs in found.items()}
    logs = {row: [log for log in seeds if log] for row, seeds in every.items() if any(seeds)}
    if not logs:
        return
    configs = [run.config() for row in logs for run in found[row] if run.read_metrics()]
    options: Any = {"size": (4.6, 3.6), "has_legend": True}
    with figure(folder / f"{name}.png", *shape(len(panels)), **options) as grid:
        for axes, (names, label, scale) in zip(grid.flat, panels, strict=False):
            for (row, seeds), style in zip(logs.items(), cycle(LINES), strict=False):
                curves = [_curve(one, names, scale) for one in seeds]
                _line(axes, curves, row, len(logs) <= CROWD, style)
                if names in STARTS:
                    of_starts = [_curve(one, STARTS[names], scale) for one in seeds]
                    _line(axes, of_starts, "_starts", False, style | {"linestyle": ":"})
            by_step(axes, with_extractor(label, configs), scale)


def _curve(
    rows: list[dict[str, Any]], names: str | tuple[str, ...], scale: str
) -> tuple[np.ndarray, np.ndarray]:
    """Returns steps and values of the first of ``names`` that the run logged, if any."""
    curves = [column(rows, name) for name in ((names,) if isinstance(names, str) else names)]
    steps, values = next((curve for curve in curves if len(curve[0])), curves[0])
    return steps, np.where(values > 0, values, np.nan) if scale == "log" else values


def _line(
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


def draw_sweep(folder: Path, name: str) -> None:
    """Draws ``sweep.png`` of a study's folder: every column against the field of ``Study.sweep``.

    There is a line of means for each row, and a dot for each seed.
    """
    if not (folder / "table.json").exists():
        return
    lines: dict[str, dict[str, Any]] = {}
    for label, row in read_json(folder / "table.json").items():
        base, _, value = label.rpartition(f", {name.rpartition('.')[2]}=")
        lines.setdefault(base, {})[value] = row
    rows = [row for line in lines.values() for row in line.values()]
    headings = [one for one, values in rows[0].items() if type(values) is list]
    headings = [one for one in headings if any(x is not None for row in rows for x in row[one])]
    if not headings:
        return
    texts = list(dict.fromkeys(value for line in lines.values() for value in line))
    try:
        x, ticks = [float(text) for text in texts], None
    except ValueError:  # names
        x, ticks = [*range(len(texts))], texts
    is_log = ticks is None and min(x) > 0 and max(x) >= 10 * min(x)
    is_named = len(lines) > 1
    with figure(folder / "sweep.png", *shape(len(headings)), has_legend=is_named) as grid:
        for axes, heading in zip(grid.flat, headings, strict=False):
            for (base, line), style in zip(lines.items(), cycle(LINES), strict=False):
                seeds = zip_longest(*(line[text][heading] for text in texts if text in line))
                values = np.ma.masked_invalid(np.array([*seeds], float))  # None is NaN
                places = [place for place, text in zip(x, texts, strict=True) if text in line]
                axes.plot(places, values.mean(axis=0), label=base, marker="o", **style)
                axes.plot(places, values.T, ".", color=style["color"])
            axes.set(xlabel=name, ylabel=heading, xscale="log" if is_log else "linear")
            if ticks:
                axes.set_xticks(x, ticks)


def draw_tiles(path: Path, sets: Mapping[str, np.ndarray], columns: int, **options: Any) -> None:
    """Draws sets of uint8 images (n, H, W, C) by their captions, ``most`` panels in a line."""
    if sets:
        with figure(path, *shape(len(sets), options.pop("most")), **options) as grid:
            for axes, (caption, images) in zip(grid.flat, sets.items(), strict=False):
                tiles(axes, images, columns, caption)
