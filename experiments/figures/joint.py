"""Figures of a study of joint energy models, from its folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ebmjax.recipes.evaluators.landscape import contours
from ebmjax.recipes.evaluators.plots import figure, shape
from ebmjax.recipes.folder.run_folder import read_arrays
from ebmjax.recipes.study.cells import find_runs, folder_name
from ebmjax.recipes.study.figures import ACCURACY, BUFFER_FID, Panel, over_training

ROBUST: tuple[Panel, ...] = (
    ("energy_gap", "f of data - of samples, nats, contrastive divergence", "symlog"),
    ("log_density_gap", "f of data - of samples, nats, other objectives", "symlog"),
    ACCURACY,
    ("sample_is", "inception score of the buffer ({extractor})", "linear"),
    BUFFER_FID,
)
"""The robust-objective paper's Figs. 16 and 20 to 25."""

NUM_LEVELS = 24


def learning(folder: Path) -> None:
    """Draws ``training.png`` of a study's folder: test accuracy and FID, SADA-JEM's Fig. 3."""
    over_training((ACCURACY, BUFFER_FID), "training", folder)


def scenarios(rows: Mapping[str, Sequence[str]], folder: Path) -> None:
    """Draws ``training_<scenario>.png`` of a study's folder, by the labels of a scenario's rows."""
    for scenario, labels in rows.items():
        over_training(ROBUST, f"training_{folder_name(scenario)}", folder, labels)


def landscapes(folder: Path) -> None:
    """Draws ``landscapes.png``: energies around seed 0's parameters, on one colour scale.

    Rows without a landscape are left out.
    """
    found = {}
    for row in find_runs(folder):
        path = folder / row / "seed0" / "evaluation.npz"
        arrays = read_arrays(path) if path.exists() else {}
        if "landscape_energies" in arrays:
            coordinates, energies = arrays["landscape_coordinates"], arrays["landscape_energies"]
            centre = np.argmin(np.abs(coordinates))
            rises = np.ma.masked_invalid(energies - energies[centre, centre])
            if rises.count():
                found[row.replace("_", " ")] = coordinates, rises
    if not found:
        return
    every = np.concatenate([rises.compressed() for _, rises in found.values()])
    levels = np.linspace(every.min(), every.max(), NUM_LEVELS + 1)
    with figure(folder / "landscapes.png", *shape(len(found)), size=(4.4, 3.8)) as grid:
        for axis, (title, (coordinates, rises)) in zip(grid.flat, found.items(), strict=False):
            contours(axis, coordinates, rises, levels)
            axis.set_title(f"{title}\nrange {np.ptp(rises.compressed()):.3g} nats")
