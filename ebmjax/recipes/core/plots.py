"""Pictures that every family draws."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from PIL import Image

matplotlib.use("Agg")  # needs no display
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

INK = "#20304a"


def image_grid(path: Path, images: np.ndarray, *, columns: int = 10, min_side: int = 480) -> None:
    """Saves uint8 images (N, H, W, C) side by side, enlarged without smoothing."""
    tiles = montage(images, columns)
    enlarged = max(1, -(-min_side // max(tiles.shape[:2])))
    tiles = tiles.repeat(enlarged, axis=0).repeat(enlarged, axis=1)
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(tiles).save(path)


def montage(images: np.ndarray, columns: int) -> np.ndarray:
    """Returns a uint8 array (rows (H + 1) + 1, columns (W + 1) + 1, 3) with lines between tiles."""
    num, height, width, channels = images.shape
    columns = min(columns, num)
    rows = -(-num // columns)
    sheet = np.full((rows * (height + 1) + 1, columns * (width + 1) + 1, 3), 96, np.uint8)
    for i, image in enumerate(images):
        top, left = (i // columns) * (height + 1) + 1, (i % columns) * (width + 1) + 1
        sheet[top : top + height, left : left + width] = image.repeat(3 // channels, axis=2)
    return sheet


def column(rows: list[dict[str, Any]], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns steps and values of the rows that have ``name``; null becomes NaN."""
    present = [row for row in rows if name in row]
    steps = np.array([row["step"] for row in present])
    return steps, np.array([row[name] for row in present], dtype=float)


def curve(axes: Axes, rows: list[dict[str, Any]], name: str, **style: Any) -> None:
    """Draws ``name`` against the step, labelled, if the rows have it.

    For several repeats it draws mean and range.
    """
    steps, values = column(rows, name)
    if not len(steps):
        return
    if values.ndim == 2:
        axes.fill_between(steps, values.min(1), values.max(1), alpha=0.2, color=style.get("color"))
        values = values.mean(1)
    axes.plot(steps, values, **{"label": name.replace("_", " "), "lw": 1.2, **style})


def legend(axes: Axes) -> None:
    """Draws a small legend if there is anything to name."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=7, frameon=False)


def panels(
    path: Path,
    rows: list[dict[str, Any]],
    wanted: Sequence[tuple[str, Sequence[str]]],
    log_scaled: str = "",
) -> None:
    """Draws a panel for each (title, names) of which the rows have any.

    The panel with the title ``log_scaled`` has a logarithmic axis.
    """
    found = [(t, names) for t, names in wanted if any(n in row for row in rows for n in names)]
    figure, axes = plt.subplots(2, -(-len(found) // 2), figsize=(12, 6), squeeze=False)
    for axis, (title, names) in zip(axes.flat, found, strict=False):
        for name in names:
            curve(axis, rows, name)
        axis.set(title=title, xlabel="step", yscale="log" if title == log_scaled else "linear")
        legend(axis)
    for axis in axes.flat[len(found) :]:
        axis.set_axis_off()
    finish(figure, path)


def finish(figure: Any, path: Path) -> None:
    """Saves and closes."""
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)
