"""Energies of test images and of samples."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax import data
from ebmjax.evaluate import energy_moments
from ebmjax.recipes.evaluators.evaluator import Evaluator, Found
from ebmjax.recipes.evaluators.plots import figure, histograms, legend
from ebmjax.types import Key


@dataclass(frozen=True)
class Energies(Evaluator):
    """Energies in nats; uses ``model.energies`` and the samples that generation has drawn."""

    def __call__(self, model: Any, test: data.ImageData, key: Key) -> Found:
        """Returns moments of finite energies, and the gap between long chains and test images."""
        sets = {"test": model.energies(test.images, test.labels)}
        for name, chains in model.known_sets.items():
            sets[name] = model.energies(chains.ends, chains.labels)
        report: dict[str, Any] = {name: energy_moments(found) for name, found in sets.items()}
        if "fresh" in sets:
            # A chain that left for an infinite energy has no place in a gap that looks small.
            ends, images = (np.mean(sets[name], dtype=np.float64) for name in ("fresh", "test"))
            report["gap"] = float(ends - images)
        arrays = {f"{name}_energies": found for name, found in sets.items()}
        return Found({"energies": report}, {"test_energy": float(np.mean(sets["test"]))}, arrays)

    def draw(self, folder: Path, found: Found) -> None:
        """Draws ``eval_energies.png``: histograms of the energies."""
        ends = "_energies"
        with figure(folder / "plots" / "eval_energies.png", size=(6, 4)) as ((axis,),):
            histograms(axis, {k.removesuffix(ends): found.arrays[k] for k in found.arrays})
            axis.set(xlabel="energy, nats")
            legend(axis)
