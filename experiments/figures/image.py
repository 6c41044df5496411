"""Figures of a study of image energies: its rows over training, and samples."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from ebmjax.recipes.evaluators.plots import figure, shape, tiles
from ebmjax.recipes.study import reader
from ebmjax.recipes.study.figures import Panel, over_training

GAP = "energy of samples - of data, nats"
ACCEPTANCE: tuple[Panel, ...] = (
    ("chain_acceptance_prob", "acceptance in training", "linear"),
    ("acceptance_implied", "acceptance of a move, T implied", "linear"),
    ("score_change", "relative change of score over a move", "log"),
    ("chain_displacement", "squared distance travelled, a pixel", "log"),
    ("chain_step_size", "adapted step size", "log"),
    ("sample_fid", "FID of the buffer ({extractor})", "log"),
)
RUNAWAY = (
    *(panel for panel in ACCEPTANCE if panel[0] != "chain_step_size"),
    ("energy_gap", GAP, "linear"),
)
"""Panels for runs that adapt no step size and may lose their chains."""
DAMPING: tuple[Panel, ...] = (
    ("sample_fid", "FID of the buffer ({extractor})", "log"),
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
    ("sample_fid", "FID of chains as in training ({extractor})", "log"),
)
"""Panels for the robust objective."""


def samples(rows: Sequence[str], folder: Path) -> None:
    """Draws ``samples.png`` of a study's folder: samples of seed 0's runs at the end.

    Args:
      rows: rows to show, a panel each, if they have a run. A panel shows slots of the buffer, or
        without one chains as in training.
      folder: of the study.
    """
    paths = {row: reader.first(folder, row).snapshots() for row in rows}
    ends = {row: found[-1] for row, found in paths.items() if found}
    if not ends:
        return
    with figure(folder / "samples.png", *shape(len(ends), 4), size=(2.7, 2.9)) as grid:
        for axes, (row, path) in zip(grid.flat, ends.items(), strict=False):
            with np.load(path) as arrays:
                tiles(axes, arrays["samples"][:100], 10, row)


acceptance = partial(over_training, ACCEPTANCE, "acceptance")
damping = partial(over_training, DAMPING, "damping")
