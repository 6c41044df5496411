"""The picture of samples beside their chains' starts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from ebmjax import data
from ebmjax.recipes.evaluators.plots import figure, tiles
from ebmjax.recipes.evaluators.sample_scores import with_error

NUM_SHOWN, COLUMNS = 100, 10
"""Most images that a picture shows and ``monitor/`` keeps, and how many stand side by side."""


def shown(images: Any) -> np.ndarray:
    """Returns the first images of (N, H, W, C) in [-1, 1], as uint8."""
    return np.asarray(data.from_signed_unit(jnp.asarray(images[:NUM_SHOWN])))


def samples_beside_starts(
    folder: Path, step: int, ends: np.ndarray, starts: np.ndarray, row: Mapping[str, Any]
) -> None:
    """Draws ``plots/samples_<step>.png``: samples beside their starts, with their FIDs.

    Args:
      folder: of the run.
      step: of training.
      ends: uint8 (N, H, W, C).
      starts: uint8 (N, H, W, C), in the same order.
      row: scores along training.
    """
    panels = {
        "sample": (f"samples at step {step:,}", ends),
        "start": ("where their chains started", starts),
    }
    path = folder / "plots" / f"samples_{step:06d}.png"
    path.parent.mkdir(exist_ok=True)
    with figure(path, 1, 2, size=(4.0, 4.4)) as (axes,):
        for axis, (name, (title, images)) in zip(axes, panels.items(), strict=True):
            if f"{name}_fid" in row:
                score = with_error(row[f"{name}_fid"], row.get(f"{name}_fid_error"))
                title += f"\nFID {score}"
            tiles(axis, images, COLUMNS, title)
