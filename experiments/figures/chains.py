"""Draws the profiles of training chains, from a study's folder."""

from collections.abc import Sequence
from pathlib import Path

from ebmjax.recipes.evaluators.chain_profiles import draw_panels, read
from ebmjax.recipes.study import reader


def draw_study(rows: Sequence[str], folder: Path) -> None:
    """Draws ``chains.png`` of a study's folder, for the runs of seed 0 of its ``rows``.

    A run with several samplers shows only the first.
    """
    runs = {row: read(reader.first(folder, row).folder) for row in rows}
    firsts = {row: next(iter(samplers.values())) for row, samplers in runs.items() if samplers}
    draw_panels(folder / "chains.png", firsts)
