"""Opens, styles and saves every figure, and draws the pictures that families share."""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler
from matplotlib.ticker import MaxNLocator

from ebmjax.recipes.config.families import with_extractor
from ebmjax.recipes.evaluators.result_tables import own_numbers

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's, which colour-blind readers tell apart; without yellow, too pale on white."""
LINES = cycler(linestyle=("-", "--", ":")) * cycler(color=COLOURS)
STYLE: Any = {
    "axes.grid": True,
    "axes.prop_cycle": LINES,
    "figure.constrained_layout.use": True,
    "font.size": 8,
    "grid.color": "0.9",
    "image.interpolation": "nearest",
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "savefig.bbox": "tight",
    "savefig.dpi": 130,
}
"""Style of every figure."""

LETTER = 0.6 * 9 / 72
"""Width of a letter of a title in inches, seldom more in the mean over a line."""
MOST_OWN = 9
"""Most panels of numbers of the user's."""

Panel = tuple[str, Sequence[str], str]
"""Label of an axis, names of the numbers along it, and its scale."""
Rows = list[dict[str, Any]]
"""Rows of metrics.jsonl."""


@contextmanager
def figure(
    path: Path,
    lines: int = 1,
    columns: int = 1,
    *,
    size: tuple[float, float] = (4.0, 3.0),
    has_legend: bool = False,
    **subplots: Any,
) -> Iterator[np.ndarray]:
    """Opens a figure in the project's style, and saves it to ``path`` if nothing raised.

    Empty panels are hidden, and long lines of titles and labels are broken.

    Args:
      path: of the picture.
      lines: number of lines of panels.
      columns: number of panels in a line.
      size: width and height of a panel, in inches.
      has_legend: names below all panels what is drawn.
      **subplots: passed to ``Figure.subplots``.

    Yields:
      Axes (lines, columns).
    """
    with matplotlib.rc_context(STYLE):
        drawn = Figure(figsize=(size[0] * columns, size[1] * lines))
        yield drawn.subplots(lines, columns, squeeze=False, **subplots)
        found: dict[str, Any] = {}
        for axes in drawn.axes:
            axes.set_visible(axes.get_visible() and bool(axes.has_data() or axes.texts))
            axes.set_title(_wrap(axes.get_title(), size[0]))
            axes.set_xlabel(_wrap(axes.get_xlabel(), size[0]))
            axes.set_ylabel(_wrap(axes.get_ylabel(), size[1]))
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                found.setdefault(label, handle)
        if has_legend and found:
            drawn.legend(found.values(), found, loc="outside lower center", ncols=4)
        drawn.savefig(path)


def _wrap(text: str, inches: float) -> str:
    """Breaks lines of ``text`` longer than ``inches``."""
    fill = partial(textwrap.fill, width=max(int(0.8 * inches / LETTER), 8), break_long_words=False)
    return "\n".join(map(fill, text.split("\n")))


def shape(num: int, most: int = 3) -> tuple[int, int]:
    """Returns lines and columns of ``num`` panels, at most ``most`` in a line."""
    lines = max(-(-num // most), 1)
    return lines, max(-(-num // lines), 1)


def tiles(
    axes: Axes, images: np.ndarray, columns: int, title: str = "", rows: Sequence[str] = ()
) -> None:
    """Draws uint8 images (N, H, W, C) side by side; ``rows`` names every row of them."""
    axes.set(xticks=[], yticks=[], title=title)
    if not len(images):
        return
    num, height, width, _ = images.shape
    columns = min(columns, num)
    lines = -(-num // columns)
    framed = np.full((lines * columns, height + 1, width + 1, 3), 96, np.uint8)
    framed[:num, 1:, 1:] = images
    sheet = framed.reshape(lines, columns, height + 1, width + 1, 3).swapaxes(1, 2)
    sheet = sheet.reshape(lines * (height + 1), columns * (width + 1), 3)
    axes.imshow(np.pad(sheet, ((0, 1), (0, 1), (0, 0)), constant_values=96))
    axes.set_yticks((np.arange(len(rows)) + 0.5) * len(sheet) / max(len(rows), 1), rows)
    axes.grid(False)


def column(rows: Rows, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns steps and values of the rows that have ``name``; null becomes NaN.

    The untrained model of step 0, which would rule the axis, is left out if there is another.
    """
    present = [row for row in rows if name in row]
    present = [row for row in present if row["step"] > 0] or present
    steps = np.array([row["step"] for row in present])
    return steps, np.array([row[name] for row in present], dtype=float)


def by_step(axes: Axes, label: str, scale: str = "linear") -> None:
    """Names the axes of curves against the step."""
    axes.set(xlabel="step", ylabel=label, yscale=scale)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 5, 10]))


def step_colours(grid: np.ndarray, last: int) -> Callable[[int], Any]:
    """Draws a bar of colours beside panels, and returns the colour of a step of training.

    Later steps, up to ``last``, are darker.
    """
    colours = ScalarMappable(Normalize(0, max(last, 1)), "viridis_r")
    grid.flat[0].figure.colorbar(colours, ax=grid, label="step of training")
    return lambda step: colours.to_rgba(np.array(step))


def panels(path: Path, rows: Rows, wanted: Sequence[Panel], config: Mapping[str, Any]) -> None:
    """Draws a panel for each of ``wanted`` of which the rows have a finite number.

    A number's standard error "<name>_error" stands to both sides of its curve. The name of the
    run's extractor takes the place of EXTRACTOR in labels. At most ``MOST_OWN`` numbers of the
    user's parts have panels, too.
    """
    shown = {name for _, names, _ in wanted for name in names}
    own = own_numbers({name: None for row in rows for name in row}, config)
    words = {name: name.replace("_", " ").replace("$", r"\$") for name in own if name not in shown}
    every = [*wanted, *((words[name], (name,), "linear") for name in [*words][:MOST_OWN])]
    is_drawn = lambda name: np.isfinite(column(rows, name)[1]).any()  # noqa: E731
    found = [one for one in every if any(map(is_drawn, one[1]))]
    with figure(path, *shape(len(found))) as grid:
        for axes, (label, names, scale) in zip(grid.flat, found, strict=False):
            for name in (one for one in names if len(column(rows, one)[0])):
                steps, values = column(rows, name)
                marker = "." if len(steps) <= 25 else ""
                drawn, *_ = axes.plot(steps, values, marker=marker, label=name.replace("_", " "))
                errors = column(rows, f"{name}_error")[1]
                if errors.shape == values.shape:
                    ends = values - errors, values + errors
                    axes.fill_between(steps, *ends, alpha=0.2, color=drawn.get_color())
            by_step(axes, with_extractor(label, [config]), scale)
            if len(names) > 1:
                num = 2 if all(len(name) <= 21 for name in names) else 1  # as many as fit
                axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=num)
