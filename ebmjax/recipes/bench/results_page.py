"""Writes report.html of an exam."""

from collections.abc import Mapping
from functools import partial
from inspect import getdoc
from itertools import cycle
from pathlib import Path
from typing import Any

from ebmjax.recipes.bench.exam import TASKS
from ebmjax.recipes.evaluators.plots import LINES, figure, shape
from ebmjax.recipes.report import page
from ebmjax.recipes.report.page import element


def describe(row: Mapping[str, Any]) -> dict[str, str]:
    """Returns the entries of a cell that tables show, as texts by their names."""
    hidden = "task", "curve", "bias"
    return {key.replace("_", " "): _text(row[key]) for key in row if key not in hidden}


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{value['mean']:.3g} ± {value['high'] - value['mean']:.2g}"
    if value is None or isinstance(value, str):
        return value or "-"
    return f"{value:.3g}" if value < 1e4 else f"{value:,.0f}"


def write(folder: Path, about: Mapping[str, Any], cells: list[dict[str, Any]]) -> Path:
    """Writes the page into a folder and returns its path."""
    machine = ", ".join(f"{key} {value}" for key, value in about["machine"].items())
    text = (
        f"{len(cells)} cells of {about['seeds']} seeds in {about['seconds']:.0f} s, "
        f"{about['processor_seconds']:.0f} s of processors; {machine}; {about['date']}. "
        "Intervals hold 95 %, over seeds."
    )
    sections = [element("p", text)]
    for task in dict.fromkeys(row["task"] for row in cells):
        rows = [row for row in cells if row["task"] == task]
        entries = [describe(row) for row in rows]
        names = list(dict.fromkeys(name for one in entries for name in one))
        table = page.table(([one.get(name, "-") for name in names] for one in entries), names)
        curves = [row for row in rows if "curve" in row]
        picture = page.svg(partial(draw, rows=curves)) if curves else ""
        title = "log Z" if task == "logz" else task.capitalize()
        sections.append(page.section(title, element("p", getdoc(TASKS[task])), table, picture))
    versions = page.table((name, text or "-") for name, text in about["versions"].items())
    sections.append(page.section("Versions", versions))
    page.write(folder / page.FILE, "Exam with exact answers", *sections)
    return folder / page.FILE


def draw(path: Path, rows: list[dict[str, Any]]) -> None:
    """Draws a panel for each target: error against gradients of a chain, and exact draws' error."""
    targets = list(dict.fromkeys(row["target"] for row in rows))
    names = [f"{row['library']} {row['method']}" for row in rows]
    styles = dict(zip(dict.fromkeys(names), cycle(LINES), strict=False))
    with figure(path, *shape(len(targets)), has_legend=True) as grid:
        for name, row in zip(names, rows, strict=True):
            axes = grid.flat[targets.index(row["target"])]
            points = [(float(at), one["mean"]) for at, one in row["curve"].items()]
            axes.plot(*zip(*points, strict=True), label=name, **styles[name])
            axes.axhline(row["exact_error"]["mean"], color="black", linewidth=0.8)
            axes.set(title=row["target"], xscale="log", yscale="log")
            axes.set(xlabel="gradients of a chain", ylabel="error; black: exact draws")
