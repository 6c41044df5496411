"""Accuracy and calibration of a classifier."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.special import logsumexp

from ebmjax import evaluate, metrics
from ebmjax.data import ImageData
from ebmjax.recipes.evaluators import Found
from ebmjax.recipes.evaluators.plots import figure, legend
from ebmjax.types import Key

IN_ROWS = ("accuracy", "ece", "nll", "brier")


def classification(key: Key, model: Any, data: ImageData) -> Found:
    """Returns "classification" of ``evaluate.classifier``, and the logits as an array.

    Where images are held out, they choose a temperature that scales the logits.
    """
    del key
    classify = partial(evaluate.classifier, model.logits, batch_size=model.config.evals.batch_size)
    found = classify(data)
    numbers, logits = found["classification"], found["logits"]
    if (held_out := model.held_out) is not None:
        of_held = None
        if data.images is not held_out.images:
            of_held = classify(held_out)["logits"], held_out.labels
        numbers["scaled"] = evaluate.temperature_scaling(logits, data.labels, of_held)
    row = {f"test_{name}": numbers[name] for name in IN_ROWS}
    row["test_log_density"] = float(np.mean(logsumexp(logits, axis=-1)))
    return Found(
        {"classification": numbers},
        row,
        {"labels": data.labels, "logits": logits},
        found["per_image"],
        pictures={"reliability": partial(draw, numbers)},
    )


def draw(numbers: dict[str, Any], path: Path) -> None:
    """Draws accuracy against confidence, and the bins' counts."""
    bins = metrics.ReliabilityBins(**numbers["reliability"])
    with figure(path, 2, size=(5, 3), sharex=True, height_ratios=(3, 1)) as ((top,), (bottom,)):
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
