"""Figures of a study of joint energy models, from its folder."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax.metrics import ReliabilityBins
from ebmjax.recipes.evaluators.classification import reliability_diagram
from ebmjax.recipes.evaluators.landscape import contours
from ebmjax.recipes.evaluators.plots import figure, shape
from ebmjax.recipes.evaluators.robustness import NORMS, robustness_axis, robustness_curve
from ebmjax.recipes.study import reader
from ebmjax.recipes.study.figures import ACCURACY, BUFFER_FID, Panel, draw_means, over_training
from ebmjax.recipes.study.table import entry

ROBUST: tuple[Panel, ...] = (
    # Energy gaps of contrastive divergence and of the objectives of f, with the same sign.
    (("energy_gap", "log_density_gap"), "f of data - f of samples, nats", "symlog"),
    ACCURACY,
    ("sample_is", "inception score of the buffer ({extractor})", "linear"),
    BUFFER_FID,
)
"""The robust-objective paper's Figs. 16 and 20 to 25."""

NUM_LEVELS = 24


def learning(rows: Sequence[str], folder: Path) -> None:
    """Draws ``training.png`` of a study's folder: test accuracy and FID, SADA-JEM's Fig. 3."""
    over_training((ACCURACY, BUFFER_FID), "training", folder, rows)


def scenarios(rows: Mapping[str, Sequence[str]], folder: Path) -> None:
    """Draws ``training_<scenario>.png`` of a study's folder, by the labels of a scenario's rows."""
    for scenario, labels in rows.items():
        over_training(ROBUST, f"training_{reader.folder_name(scenario)}", folder, labels)


def landscapes(rows: Mapping[str, str], folder: Path) -> None:
    """Draws ``landscapes.png``: energies around seed 0's parameters, on one colour scale.

    ``rows`` has the title of each row's panel; rows without a landscape are left out.
    """
    found = {}
    for row, title in rows.items():
        path = reader.first(folder, row).folder / "evaluation.npz"
        arrays = dict(np.load(path)) if path.exists() else {}
        if "landscape_energies" in arrays:
            coordinates, energies = arrays["landscape_coordinates"], arrays["landscape_energies"]
            centre = np.argmin(np.abs(coordinates))
            rises = np.ma.masked_invalid(energies - energies[centre, centre])
            if rises.count():
                found[title] = coordinates, rises
    if not found:
        return
    every = np.concatenate([rises.compressed() for _, rises in found.values()])
    levels = np.linspace(every.min(), every.max(), NUM_LEVELS + 1)
    with figure(folder / "landscapes.png", *shape(len(found)), size=(4.4, 3.8)) as grid:
        for axis, (title, (coordinates, rises)) in zip(grid.flat, found.items(), strict=False):
            contours(axis, coordinates, rises, levels)
            axis.set_title(f"{title}\nrange {np.ptp(rises.compressed()):.3g} nats")


def robustness(rows: Iterable[str], folder: Path) -> None:
    """Draws ``robustness.png``: accuracy under attack by radius and norm, means over seeds.

    The same for refined images is below, if any row has it.
    """
    plain = {row: _reports(folder, row, "robustness") for row in rows}
    refined = {row: [one["refined"] for one in r if "refined" in one] for row, r in plain.items()}
    lines = {"PGD": plain, "PGD by both gradients, images refined": refined}
    lines = {title: found for title, found in lines.items() if any(found.values())}
    if not lines:
        return
    options: Any = {"size": (5, 3.8), "has_legend": True}
    with figure(folder / "robustness.png", len(lines), len(NORMS), **options) as grid:
        for axes, (title, found) in zip(grid, lines.items(), strict=True):
            for axis, norm in zip(axes, NORMS, strict=True):
                for i, (row, seeds) in enumerate(found.items()):
                    curves = [robustness_curve(one[norm]) for one in seeds if norm in one]
                    if curves:
                        style: Any = {"marker": "o", "color": f"C{i}", "ls": "-", "label": row}
                        accuracies = [accuracy for _, accuracy in curves]
                        draw_means(axis, curves[0][0], accuracies, is_shaded=True, **style)
                robustness_axis(axis, norm)
                axis.set_title(title)


def _reports(folder: Path, row: str, part: str) -> list[dict[str, Any]]:
    """Returns a part of the evaluations of a row's runs that did not diverge."""
    reports = [run.evaluation() for run in reader.find_done(folder, row)]
    return [report[part] for report in reports if part in report]


def reliability(rows: Mapping[str, str], folder: Path) -> None:
    """Draws ``reliability.png``: a diagram a row, with all seeds' images (thesis, Figure 5.5)."""
    found = {}
    for row, title in rows.items():
        runs = _reports(folder, row, "classification")
        runs = [run for run in runs if run["accuracy"] is not None]
        if runs:
            found[title] = runs
    if not found:
        return
    options: Any = {"sharex": True, "sharey": "row", "height_ratios": (3, 1), "has_legend": True}
    with figure(folder / "reliability.png", 2, len(found), size=(3.6, 2.5), **options) as grid:
        for (upper, lower), (title, runs) in zip(grid.T, found.items(), strict=True):
            reliability_diagram(upper, lower, pool_bins([run["reliability"] for run in runs]))
            accuracy, ece = ([100 * run[name] for run in runs] for name in ("accuracy", "ece"))
            count = "1 seed" if len(runs) == 1 else f"{len(runs)} seeds"
            shown = f"accuracy {entry(accuracy, 1)} %\nECE {entry(ece, 1)} %"
            upper.set_title(f"{title}, {count}\n{shown}")
        grid[0, 0].set_ylabel("accuracy")
        grid[1, 0].set_ylabel("images a seed")


def pool_bins(bins: Sequence[Mapping[str, Any]]) -> ReliabilityBins:
    """Returns one diagram of all seeds' images, in NumPy arrays: bins with many weigh more.

    ``bins`` has each seed's, with the same edges. ``count`` is their mean and need not be whole.
    """
    edges, confidence, accuracy, count = (
        np.array([one[name] for one in bins], float) for name in ReliabilityBins._fields
    )
    total = np.sum(count, axis=0)
    confidence, accuracy = (
        np.sum(one * count, axis=0) / np.maximum(total, 1.0) for one in (confidence, accuracy)
    )
    return ReliabilityBins(edges[0], confidence, accuracy, total / len(bins))
