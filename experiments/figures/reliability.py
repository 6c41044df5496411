"""Reliability diagrams of a study of joint energy models, drawn from its folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax.metrics import ReliabilityBins
from ebmjax.recipes.evaluators.plots import figure, legend
from ebmjax.recipes.models.joint.evaluate_plots import reliability_diagram
from ebmjax.recipes.study import reader
from ebmjax.recipes.study.table_entry import entry


def reliability(rows: Mapping[str, str], folder: Path) -> None:
    """Draws ``reliability.png`` of a study's folder: a diagram a row, with all seeds' images.

    Args:
      rows: the label of a row to its panel's title. Rows without an evaluated run are left out.
      folder: the study's folder. Diverged runs do not count; the title says how many runs do.

    Source: SVGD-in-JEM thesis, Figure 5.5.
    """
    every = {title: _evaluated(folder, row) for row, title in rows.items()}
    found = {title: runs for title, runs in every.items() if runs}
    if not found:
        return
    options: dict[str, Any] = {"sharex": True, "sharey": "row", "height_ratios": (3, 1)}
    with figure(folder / "reliability.png", 2, len(found), size=(3.6, 2.5), **options) as grid:
        for (upper, lower), (title, runs) in zip(grid.T, found.items(), strict=True):
            reliability_diagram(upper, lower, pooled([run["reliability"] for run in runs]))
            accuracy, ece = ([100 * run[name] for run in runs] for name in ("accuracy", "ece"))
            count = "1 seed" if len(runs) == 1 else f"{len(runs)} seeds"
            shown = f"accuracy {entry(accuracy, 1)} %\nECE {entry(ece, 1)} %"
            upper.set_title(f"{title}, {count}\n{shown}")
        grid[0, 0].set_ylabel("accuracy")
        grid[1, 0].set_ylabel("images a seed")
        legend(grid[0, 0].figure)


def pooled(bins: Sequence[Mapping[str, Any]]) -> ReliabilityBins:
    """Returns one diagram of all seeds' images: bins with many images weigh more.

    Args:
      bins: each seed's fields of ``ReliabilityBins``, with the same edges.

    Returns:
      NumPy arrays; ``count`` is a mean over seeds and need not be whole.
    """
    edges, confidence, accuracy, count = (
        np.array([one[name] for one in bins], float) for name in ReliabilityBins._fields
    )
    total = np.sum(count, axis=0)

    def mean(values: np.ndarray) -> Any:
        return np.sum(values * count, axis=0) / np.maximum(total, 1.0)

    return ReliabilityBins(edges[0], mean(confidence), mean(accuracy), total / len(bins))


def _evaluated(folder: Path, row: str) -> list[dict[str, Any]]:
    """Returns ``classification`` of a row's evaluated runs that did not diverge."""
    runs = [run.evaluation()["classification"] for run in reader.done(folder, row)]
    return [run for run in runs if run["accuracy"] is not None]
