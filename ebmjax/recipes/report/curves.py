"""Curves of a page, whose values show under the pointer; without scripts it has their picture."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from ebmjax.recipes.evaluators.plots import LINES, Line
from ebmjax.recipes.report import page
from ebmjax.recipes.report.page import Html, element

HERE = Path(__file__).parent
DASHES = {"-": [], "--": [6, 3], ":": [2, 3]}


class Panel(NamedTuple):
    """Curves with common axes.

    Attributes:
      title: of the panel.
      scale: "linear" or "log".
      lines: by their names; None for one that is not there, which keeps its colour.
    """

    title: str
    scale: str
    lines: Mapping[str, Line | None]


@cache
def script() -> str:
    """Returns the one script that a page may run: uPlot, and what draws a page's curves with it."""
    files = (HERE / "uplot" / "uPlot.iife.min.js", HERE / "curves.js")
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def curves(panels: Iterable[Panel], draw: Callable[[Path], None]) -> Html:
    """Returns the curves, and the picture that ``draw(path)`` saves, which stands until they do."""
    style = (HERE / "uplot" / "uPlot.min.css").read_text(encoding="utf-8")
    numbers = json.dumps([_panel(one) for one in panels], separators=(",", ":"))
    return element(
        "div",
        element("style", Html(style)),
        element("div", page.svg(draw), class_="still"),
        element("div", class_="live"),
        element("script", Html(numbers.replace("<", "\\u003c")), type="application/json"),
        id="curves",
    )


def _panel(panel: Panel) -> dict[str, Any]:
    is_log = panel.scale == "log"
    styles = zip(panel.lines.items(), cycle(LINES), strict=False)
    lines = [_line(name, one, style, is_log) for (name, one), style in styles if one]
    return {"title": panel.title, "log": is_log, "lines": lines}


def _line(name: str, line: Line, style: Mapping[str, str], is_log: bool) -> dict[str, Any]:
    """Returns a curve as JSON holds it: null for what cannot be drawn."""

    def shorten(values: Iterable[float]) -> list[float | None]:
        is_drawn = lambda x: math.isfinite(x) and (x > 0 or not is_log)  # noqa: E731
        return [float(f"{x:.5g}") if is_drawn(x) else None for x in values]

    found = {"name": name, "colour": style["color"], "dash": DASHES[style["linestyle"]]}
    found |= {"steps": line.steps.tolist(), "values": shorten(line.means)}
    if line.ends is not None:
        found |= {"low": shorten(line.ends[0]), "high": shorten(line.ends[1])}
    return found
