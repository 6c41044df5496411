"""Accuracy and calibration of a classifier."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logsumexp

from ebmjax import evaluate
from ebmjax.data import ImageData
from ebmjax.recipes.evaluators import Found
from ebmjax.recipes.evaluators.plots import figure
from ebmjax.types import Key


def classification(key: Key, model: Any, data: ImageData) -> Found:
    """Returns "classification" of ``evaluate.classifier``, and the logits as an array."""
    del key
    found = evaluate.classifier(model.logits, data, batch_size=model.config.evals.batch_size)
    numbers, logits = found["classification"], found["logits"]
    row = {f"test_{name}": numbers[name] for name in ("accuracy", "ece", "nll", "brier")}
    row["test_log_density"] = float(np.mean(logsumexp(logits, axis=-1)))
    return Found(
        {"classification": numbers},
        row,
        {"labels": data.labels, "logits": logits},
        found["per_image"],
        pictures={"reliability": partial(draw, numbers)},
    )


def draw(numbers: dict[str, Any], path: Path) -> None:
    """Draws accuracy and mean confidence of every bin that has images."""
    bins = {name: np.asarray(values) for name, values in numbers["reliability"].items()}
    edges, is_filled = bins["edges"], bins["count"] > 0
    with figure(path, size=(5, 4), has_legend=True) as ((axes,),):
        axes.plot([0, 1], [0, 1], color="0.6", ls="--", label="perfectly calibrated")
        style: Any = {"color": "C0", "alpha": 0.25, "ec": "C0", "label": "accuracy"}
        axes.bar(edges[:-1], bins["accuracy"], np.diff(edges), align="edge", **style)
        means = bins["confidence"][is_filled], bins["accuracy"][is_filled]
        axes.plot(*means, "o", color="C1", label="mean of the bin")
        axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="confidence", ylabel="accuracy")
        accuracy, ece = f"accuracy {numbers['accuracy']:.1%}", f"ECE {numbers['ece']:.2%}"
        axes.set_title(f"{accuracy}, {ece} ({len(edges) - 1} bins)")
