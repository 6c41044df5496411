"""Samples as training draws them, scored and pictured while the model trains."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from ebmjax import data
from ebmjax.evaluate import rms_displacement
from ebmjax.recipes.evaluators.evaluator import Evaluator, Found
from ebmjax.recipes.evaluators.plots import figure, tiles
from ebmjax.recipes.evaluators.sample_scores import with_error
from ebmjax.types import Key

NUM_SHOWN, COLUMNS = 100, 10
"""Most images that a picture shows and ``monitor/`` keeps, and how many stand side by side."""


@dataclass(frozen=True)
class Samples(Evaluator):
    """Distances of samples and of their starts; uses ``model.samples`` and ``model.distances``.

    The evaluation after training generates its own, see ``evaluators.generation``.

    Attributes:
      num_images: samples that are scored.
    """

    num_images: int = 1000
    at_end = False

    def __call__(self, model: Any, test: data.ImageData, key: Key) -> Found:
        """Returns scores of the samples and of what stands beside them; the first as arrays."""
        chains = model.samples(key, self.num_images)
        if chains is None:
            return Found({}, {})
        row = {}
        if chains.are_the_same:
            row["sample_rms_displacement"] = rms_displacement(chains.starts, chains.ends)
        row |= model.sample_row(chains) | model.distances.along_training(chains)
        arrays = {"samples": take_first(chains.ends), "starts": take_first(chains.starts)}
        return Found({}, row, arrays)

    def draw_step(self, folder: Path, step: int, found: Found) -> None:
        """Draws ``plots/samples_<step>.png``: samples beside their starts, with their FIDs."""
        if not found.arrays:
            return
        row, path = found.row or {}, folder / "plots" / f"samples_{step:06d}.png"
        titles = {
            "sample": f"samples at step {step:,}",
            "start": "where their chains started",
        }
        path.parent.mkdir(exist_ok=True)
        with figure(path, 1, 2, size=(4.0, 4.4)) as (axes,):
            for axis, (name, title) in zip(axes, titles.items(), strict=True):
                if f"{name}_fid" in row:
                    score = with_error(row[f"{name}_fid"], row.get(f"{name}_fid_error"))
                    title += f"\nFID {score}"
                tiles(axis, found.arrays[f"{name}s"], COLUMNS, title)


def take_first(images: Any) -> np.ndarray:
    """Returns the first images of (N, H, W, C) in [-1, 1], as uint8."""
    return np.asarray(data.from_signed_unit(jnp.asarray(images[:NUM_SHOWN])))
