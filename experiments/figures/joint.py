"""Figures of a study of joint energy models, from its folder."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ebmjax.recipes.evaluators.plots import figure, legend, shape
from ebmjax.recipes.models.joint.evaluate_plots import contours, robustness_axis, robustness_curve
from ebmjax.recipes.models.joint.robustness import NORMS
from ebmjax.recipes.study import reader
from ebmjax.recipes.study.figures import Panel, over_training

ACCURACY: Panel = ("test_accuracy", "test accuracy", "linear")
FID: Panel = ("sample_fid", "FID of the buffer ({extractor})", "log")
LEARNING = (ACCURACY, FID)
"""SADA-JEM's Fig. 3."""
ROBUST: tuple[Panel, ...] = (
    # Energy gaps of contrastive divergence and of the objectives of f, with the same sign.
    (("energy_gap", "log_density_gap"), "f of data - f of samples, nats", "symlog"),
    ACCURACY,
    ("sample_is", "inception score of the buffer ({extractor})", "linear"),
    FID,
)
"""The robust-objective paper's Figs. 16 and 20 to 25."""

NUM_LEVELS = 24


def landscapes(rows: Mapping[str, str], folder: Path) -> None:
    """Draws ``landscapes.png`` of a study's folder: energies around seed 0's trained parameters.

    Energies are relative to that at the parameters, on one colour scale. A panel's title has their
    range.

    Args:
      rows: the label of a row to its panel's title. Rows without a run or a landscape are left out.
      folder: of the study.
    """
    found = {}
    for row, title in rows.items():
        path = reader.first(folder, row).folder / "evaluation.npz"
        if not path.exists():
            continue
        with np.load(path) as arrays:
            if "landscape_energies" in arrays:
                rises = np.ma.masked_invalid(_from_the_centre(arrays))
                found[title] = arrays["landscape_coordinates"], rises
    found = {title: panel for title, panel in found.items() if panel[1].count()}
    if not found:
        return
    every = np.concatenate([rises.compressed() for _, rises in found.values()])
    levels = np.linspace(every.min(), every.max(), NUM_LEVELS + 1)
    with figure(folder / "landscapes.png", *shape(len(found)), size=(4.4, 3.8)) as grid:
        for axis, (title, (coordinates, rises)) in zip(grid.flat, found.items(), strict=False):
            contours(axis, coordinates, rises, levels)
            axis.set_title(f"{title}\nrange {np.ptp(rises.compressed()):.3g} nats")


def _from_the_centre(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns a landscape's energies minus the one nearest to the parameters."""
    centre = np.argmin(np.abs(arrays["landscape_coordinates"]))
    energies = arrays["landscape_energies"]
    return energies - energies[centre, centre]


def robustness(rows: Iterable[str], folder: Path) -> None:
    """Draws ``robustness.png`` of a study's folder: accuracy under attack by radius and norm.

    Each row has a line, the mean over seeds with their range. The same for refined images is below,
    if any row has it. Runs that diverged or are missing are left out.

    Args:
      rows: labels.
      folder: of the study.
    """
    plain = {row: _robustness_reports(folder, row) for row in rows}
    refined = {row: [one["refined"] for one in r if "refined" in one] for row, r in plain.items()}
    lines = {"PGD": plain, "PGD by both gradients, images refined": refined}
    lines = {title: found for title, found in lines.items() if any(found.values())}
    if not lines:
        return
    with figure(folder / "robustness.png", len(lines), len(NORMS), size=(5, 3.8)) as grid:
        for axes, (title, found) in zip(grid, lines.items(), strict=True):
            for axis, norm in zip(axes, NORMS, strict=True):
                for i, (row, seeds) in enumerate(found.items()):
                    _with_range(axis, [one[norm] for one in seeds if norm in one], row, f"C{i}")
                robustness_axis(axis, norm)
                axis.set_title(title)
        legend(grid[0, 0].figure)


def _robustness_reports(folder: Path, row: str) -> list[dict[str, Any]]:
    """Returns the "robustness" reports of a row's runs that did not diverge."""
    reports = [run.evaluation() for run in reader.done(folder, row)]
    return [report["robustness"] for report in reports if "robustness" in report]


def _with_range(axis: Axes, curves: list[dict[str, float]], label: str, color: str) -> None:
    """Draws the mean of curves over the same radii, and their range shaded."""
    if not curves:
        return
    levels, _ = robustness_curve(curves[0])
    accuracies = np.array([robustness_curve(curve)[1] for curve in curves])
    axis.fill_between(levels, accuracies.min(0), accuracies.max(0), alpha=0.15, color=color, lw=0)
    axis.plot(levels, accuracies.mean(0), "o-", color=color, label=label)


def learning(rows: Sequence[str], folder: Path) -> None:
    """Draws ``training.png`` of a study's folder: test accuracy and FID of ``rows``."""
    over_training(LEARNING, "training", folder, rows)


def scenarios(rows: Mapping[str, Sequence[str]], folder: Path) -> None:
    """Draws ``training_<scenario>.png`` of a study's folder, for each scenario with a run.

    Args:
      rows: a scenario to the labels of its rows.
      folder: of the study.
    """
    for scenario, labels in rows.items():
        over_training(ROBUST, f"training_{reader.folder_name(scenario)}", folder, labels)
