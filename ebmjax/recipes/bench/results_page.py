"""Writes report.html of an exam from its results.json."""

import json
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from ebmjax.recipes.bench.command import LABELS, describe
from ebmjax.recipes.evaluators.plots import LINES, figure, shape
from ebmjax.recipes.report import page
from ebmjax.recipes.report.page import element

NOTES = {
    "sample": "error: root mean square bias of means and variances, in standard deviations, after "
    "the gradients beside it; exact draws: that of as many independent draws; start: that of the "
    "start. bias (se): the largest bias of chains that begin at exact draws, in standard errors; "
    "beyond 5 the verdict is wrong. Not yet: far from the target after these gradients.",
    "logz": "error: distance from log Z in nats; start: that of plain weights of as many draws "
    "from the base; inside: seeds whose interval holds log Z; width: of the interval.",
    "learn": "error: KL divergence from the target to the model, in nats; start: that of a "
    "Gaussian fitted to the same data. Exact answers have 0.",
}


def write(folder: Path) -> Path:
    """Writes the page beside results.json and returns its path."""
    found = json.loads((folder / "results.json").read_text())
    about, cells, path = found["about"], found["cells"], folder / page.FILE
    machine = ", ".join(f"{key} {value}" for key, value in about["machine"].items())
    sections = []
    for task, note in NOTES.items():
        rows = [row for row in cells if row["task"] == task]
        entries = [describe(row) for row in rows]
        labels = [one for one in LABELS.values() if any(one in found for found in entries)]
        table = page.table(
            (
                [
                    row["target"],
                    f"{row['library']} {row['method']}",
                    *(x.get(k, "-") for k in labels),
                ]
                for row, x in zip(rows, entries, strict=True)
            ),
            ["target", "method", *labels],
        )
        picture = page.svg(partial(draw, rows=rows)) if any("curve" in x for x in rows) else ""
        parts = [element("p", note), table, picture] if rows else []
        sections.append(page.section("log Z" if task == "logz" else task.capitalize(), *parts))
    versions = page.table((name, text or "-") for name, text in about["versions"].items())
    page.write(
        path,
        "Exam with exact answers",
        element("p", f"{len(cells)} cells of {about['seeds']} seeds in {about['seconds']:.0f} s, "
            f"{about['processor_seconds']:.0f} s of processors; "
                f"{machine}; {about['date']}. Intervals hold 95 %, over seeds."),
        *sections,
        page.section("Versions", versions),
    )  # fmt: skip
    return path


def draw(path: Path, rows: list[dict[str, Any]]) -> None:
    """Draws a panel for each target: error against gradients of a chain, and exact draws' error."""
    rows = [row for row in rows if "curve" in row]
    targets = list(dict.fromkeys(row["target"] for row in rows))
    labels = dict.fromkeys(f"{row['library']} {row['method']}" for row in rows)
    styles = dict(zip(labels, cycle(LINES), strict=False))
    with figure(path, *shape(len(targets)), has_legend=True) as grid:
        for axes, target in zip(grid.flat, targets, strict=False):
            for row in (one for one in rows if one["target"] == target):
                label = f"{row['library']} {row['method']}"
                points = [(float(at), one["mean"]) for at, one in row["curve"].items()]
                axes.plot(*zip(*points, strict=True), label=label, **styles[label])
                axes.axhline(row["exact_error"]["mean"], color="black", linewidth=0.8)
            axes.set(title=target, xscale="log", yscale="log")
            axes.set(xlabel="gradients of a chain", ylabel="error; black: exact draws")
