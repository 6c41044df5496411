"""Figures of a study of image energies: its rows over training, samples, and chains."""

from functools import partial
from pathlib import Path

from ebmjax.recipes.evaluators.profile import draw_panels, read
from ebmjax.recipes.evaluators.samples import draw_sheet
from ebmjax.recipes.folder.run_folder import read_arrays, snapshots
from ebmjax.recipes.study import figures
from ebmjax.recipes.study.cells import find_runs

ACCEPT_RATIOS = "--config.evals.functions=('literal/accept_ratios.py:accept_ratios',)"
"""Numbers of ``ACCEPTANCE`` that an evaluation of the thesis gives."""
SOUND: tuple[figures.Panel, ...] = (
    ("chain_acceptance_prob", "acceptance in training", "linear"),
    ("acceptance_implied", "acceptance of a move, T implied", "linear"),
    ("score_change", "relative change of score over a move", "log"),
    figures.DISTANCE,
)
ACCEPTANCE = (*SOUND, ("chain_step_size", "adapted step size", "log"), figures.BUFFER_FID)
RUNAWAY = (*SOUND, figures.BUFFER_FID, ("energy_gap", "energy of samples - data, nats", "linear"))
"""Panels for runs that adapt no step size and may lose their chains."""
acceptance = partial(figures.over_training, ACCEPTANCE, "training")
runaway = partial(figures.over_training, RUNAWAY, "training")


def samples(folder: Path) -> None:
    """Draws ``samples.png``: samples of seed 0's runs at the end, a panel a row."""
    paths = {row: snapshots(folder / row / "seed0") for row in find_runs(folder)}
    ends = {row: read_arrays(found[-1])["samples"][:100] for row, found in paths.items() if found}
    if ends:
        draw_sheet(folder / "samples.png", ends, columns=10)


def profiles(folder: Path) -> None:
    """Draws ``chains.png`` for the runs of seed 0; only the first of several samplers."""
    runs = {row: read(folder / row / "seed0") for row in find_runs(folder)}
    firsts = {row: next(iter(samplers.values())) for row, samplers in runs.items() if samplers}
    draw_panels(folder / "chains.png", firsts)
