"""Accuracy and calibration of a classifier."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.special import logsumexp

from ebmjax import data, evaluate, metrics
from ebmjax.recipes.evaluators.evaluator import Evaluator, Found
from ebmjax.recipes.evaluators.plots import figure, legend
from ebmjax.types import Key

IN_ROWS = ("accuracy", "ece", "nll", "brier")


@dataclass(frozen=True)
class Classification(Evaluator):
    """Accuracy, calibration and likelihood on the test images.

    It uses ``model.logits``, and ``model.held_out``, by which a temperature scales the logits.
    """

    batch_size: int = 128

    def __call__(self, model: Any, test: data.ImageData, key: Key) -> Found:
        """Returns "classification" of ``evaluate.classifier``, and the logits as an array."""
        found = evaluate.classifier(model.logits, test, batch_size=self.batch_size)
        numbers, logits = found["classification"], found["logits"]
        if model.held_out is not None:
            numbers["scaled"] = self._scale(model, test, logits)
        row = {f"test_{name}": numbers[name] for name in IN_ROWS}
        row["test_log_density"] = float(np.mean(logsumexp(logits, axis=-1)))
        return Found(
            {"classification": numbers},
            row,
            {"labels": test.labels, "logits": logits},
            found["per_image"],
        )

    def _scale(self, model: Any, test: data.ImageData, logits: Any) -> dict[str, Any]:
        """Returns calibration at a temperature of the images held out."""
        held_out, of_held = model.held_out, None
        if test.images is not held_out.images:
            found = evaluate.classifier(model.logits, held_out, batch_size=self.batch_size)
            of_held = found["logits"], held_out.labels
        return evaluate.temperature_scaling(logits, test.labels, of_held)

    def draw(self, folder: Path, found: Found) -> None:
        """Draws ``eval_reliability.png``: accuracy against confidence, and the bins' counts."""
        numbers = found.report["classification"]
        bins = metrics.ReliabilityBins(**numbers["reliability"])
        path, ratios = folder / "plots" / "eval_reliability.png", (3, 1)
        with figure(path, 2, size=(5, 3), sharex=True, height_ratios=ratios) as ((top,), (bottom,)):
            reliability_diagram(top, bottom, bins)
            accuracy, ece = f"accuracy {numbers['accuracy']:.1%}", f"ECE {numbers['ece']:.2%}"
            top.set(ylabel="accuracy", title=f"{accuracy}, {ece} ({len(bins.count)} bins)")
            bottom.set(ylabel="images")
            legend(top.figure)


def reliability_diagram(upper: Axes, lower: Axes, bins: metrics.ReliabilityBins) -> None:
    """Draws accuracy and mean confidence of every bin, and its number of images below."""
    edges, accuracy, count = (np.asarray(x) for x in (bins.edges, bins.accuracy, bins.count))
    centres, width, is_filled = (edges[1:] + edges[:-1]) / 2, np.diff(edges), count > 0
    upper.plot([0, 1], [0, 1], color="0.6", ls="--", label="perfectly calibrated")
    upper.bar(centres, accuracy, width, color="C0", alpha=0.25, edgecolor="C0", label="accuracy")
    confidence = np.asarray(bins.confidence)
    upper.plot(confidence[is_filled], accuracy[is_filled], "o", color="C1", label="mean of the bin")
    upper.set(ylim=(0, 1.02))
    lower.bar(centres, count, width, color="C0")
    lower.set(xlabel="confidence", xlim=(0, 1), yscale="symlog")
