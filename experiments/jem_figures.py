"""Figures of a study of joint energy models, from its folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from experiments.jem_assessment_plots import contours
from experiments.plots import finish
from experiments.study_cells import folder_name
from experiments.study_figures import Panel, over_training

ACCURACY: Panel = ("test_accuracy", "test accuracy", "linear")
FID: Panel = ("sample_fid", "FID of the buffer", "log")
LEARNING = (ACCURACY, FID)
"""SADA-JEM's Fig. 3."""
ROBUST: tuple[Panel, ...] = (
    # Of contrastive divergence and of the objectives of f, in the same sense.
    (("energy_gap", "log_density_gap"), "f of data - f of samples, nats", "symlog"),
    ACCURACY,
    ("sample_is", "inception score of the buffer", "linear"),
    FID,
)
"""The robust-objective paper's Figs. 16 and 20 to 25."""


def landscapes(rows: Mapping[str, str], folder: Path) -> None:
    """``landscapes.png`` of a study's folder: the energies around seed 0's trained parameters.

    Args:
      rows: the label of a row to its panel's title. A row whose run is missing, or was evaluated
        without a landscape, is left out.
      folder: of the study.
    """
    found = {}
    for row, title in rows.items():
        path = folder / folder_name(row) / "seed0" / "evaluation.npz"
        if not path.exists():
            continue
        with np.load(path) as arrays:
            if "landscape_energies" in arrays:
                found[title] = arrays["landscape_coordinates"], arrays["landscape_energies"]
    if not found:
        return
    figure, grid = plt.subplots(1, len(found), figsize=(4.4 * len(found), 3.6), squeeze=False)
    for axis, (title, (coordinates, energies)) in zip(grid[0], found.items(), strict=True):
        contours(axis, coordinates, energies)
        axis.set_title(title, fontsize=9)
    finish(figure, folder / "landscapes.png")


def learning(rows: Sequence[str], folder: Path) -> None:
    """``training.png`` of a study's folder: test accuracy and FID of ``rows`` over training."""
    over_training(LEARNING, "training", folder, rows)


def scenarios(rows: Mapping[str, Sequence[str]], folder: Path) -> None:
    """``training_<scenario>.png`` of a study's folder, for each scenario that has a run.

    Args:
      rows: a scenario to the labels of its rows.
      folder: of the study.
    """
    for scenario, labels in rows.items():
        over_training(ROBUST, f"training_{folder_name(scenario)}", folder, labels)
