"""Figures of a study of image energies: what its rows logged against the step, and samples."""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from experiments.plots import column, finish, montage
from experiments.study_cells import folder_name
from experiments.workdir import evaluations, read_rows

Panel = tuple[str, str, str]
"""A number's name in metrics.jsonl, its label, and the scale of its axis."""

GAP = "energy of samples - of data, nats"
ACCEPTANCE: tuple[Panel, ...] = (
    ("chain_acceptance_prob", "acceptance in training", "linear"),
    ("acceptance_implied", "acceptance of a move, T implied", "linear"),
    ("score_change", "relative change of score over a move", "log"),
    ("chain_displacement", "squared distance travelled, a pixel", "log"),
    ("chain_step_size", "adapted step size", "log"),
    ("sample_fid", "FID of the buffer, classifier features", "log"),
)
RUNAWAY = (
    *(panel for panel in ACCEPTANCE if panel[0] != "chain_step_size"),
    ("energy_gap", GAP, "linear"),
)
"""What runs that adapt no step size and may lose their chains are best seen by."""
DAMPING: tuple[Panel, ...] = (
    ("sample_fid", "FID of the buffer, classifier features", "log"),
    ("energy_gap", GAP, "symlog"),
    ("chain_displacement", "squared distance travelled, a pixel", "log"),
    ("skipped", "skipped steps", "symlog"),
)

REWEIGHTED: tuple[Panel, ...] = (
    ("positive_log_density", "f of the data", "symlog"),
    ("negative_log_density", "f of the negatives", "symlog"),
    ("log_density_gap", "f of the data - of the negatives", "symlog"),
    ("positive_weight", "mean weight of the data", "linear"),
    ("effective_sample_fraction", "effective fraction of negatives", "linear"),
    ("sample_fid", "FID of chains as in training, classifier features", "log"),
)
"""What the robust objective is watched by."""

DASHES = ("-", "--", ":")
CROWD = 12


def over_training(panels: Sequence[Panel], name: str, folder: Path) -> None:
    """``<name>.png`` of a study's folder: a panel a number, a line a row, faintly every seed.

    Runs that diverged are drawn as far as they came; a logarithmic axis leaves zeros out. Seeds of
    more than ``CROWD`` rows would hide the lines and are not drawn. A number that no row has leaves
    its panel empty.
    """
    runs: dict[str, list[list[dict[str, Any]]]] = {}
    for path in sorted(folder.glob("*/seed*/metrics.jsonl")):
        runs.setdefault(path.parts[-3], []).append(read_rows(path.parent))
    columns = min(len(panels), 3)
    lines = -(-len(panels) // columns)
    figure, grid = plt.subplots(
        lines, columns, figsize=(4.6 * columns, 3.6 * lines + 1.2), squeeze=False
    )
    for axes, (number, label, scale) in zip(grid.flat, panels, strict=False):
        for i, (row, seeds) in enumerate(runs.items()):
            style: dict[str, Any] = {"color": f"C{i % 10}", "ls": DASHES[i // 10 % len(DASHES)]}
            curves = [column(rows, number) for rows in seeds]
            if scale == "log":
                curves = [(steps, np.where(values > 0, values, np.nan)) for steps, values in curves]
            line(axes, curves, row.replace("_", " "), len(runs) <= CROWD, style)
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


def line(
    axes: Axes,
    curves: list[tuple[np.ndarray, np.ndarray]],
    label: str,
    shows_seeds: bool,
    style: dict[str, Any],
) -> None:
    """The mean over seeds where all are, and each seed faintly; a lone label without numbers."""
    curves = [(steps, values) for steps, values in curves if len(steps)]
    for steps, values in curves if shows_seeds else []:
        axes.plot(steps, values, lw=0.5, alpha=0.4, **style)
    longest = min((len(steps) for steps, _ in curves), default=0)
    mean = np.mean([values[:longest] for _, values in curves], axis=0) if curves else []
    axes.plot(curves[0][0][:longest] if curves else [], mean, lw=1.3, label=label, **style)


def samples(rows: Sequence[str], folder: Path) -> None:
    """``samples.png`` of a study's folder: what seed 0's runs show at the end.

    Args:
      rows: those shown, a panel each, where they have a run: slots of its buffer, or where it has
        none chains as in training.
      folder: of the study.
    """
    paths = {row: evaluations(folder / folder_name(row) / "seed0") for row in rows}
    ends = {row: found[-1] for row, found in paths.items() if found}
    if not ends:
        return
    columns = math.ceil(math.sqrt(len(ends)))
    lines = -(-len(ends) // columns)
    figure, grid = plt.subplots(lines, columns, figsize=(2.7 * columns, 2.9 * lines), squeeze=False)
    for axes, (row, path) in zip(grid.flat, ends.items(), strict=False):
        with np.load(path) as arrays:
            axes.imshow(montage(arrays["samples"][:100], 10), interpolation="nearest")
        axes.set_title(row, fontsize=8)
    for axes in grid.flat:
        axes.set_axis_off()
    finish(figure, folder / "samples.png")


acceptance = partial(over_training, ACCEPTANCE, "acceptance")
damping = partial(over_training, DAMPING, "damping")
