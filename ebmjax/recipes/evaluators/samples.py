"""Samples as training draws them, scored and pictured while the model trains."""

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import jax.numpy as jnp
import numpy as np

from ebmjax import evaluate
from ebmjax._ranges import TWO_OR_MORE
from ebmjax._stored import AT_ONCE, take_rows
from ebmjax.data import ImageData, from_signed_unit
from ebmjax.recipes.evaluators import Found
from ebmjax.recipes.evaluators.plots import STYLE, figure, tiles
from ebmjax.recipes.evaluators.result_tables import with_error
from ebmjax.types import Key

NUM_SHOWN, COLUMNS = 100, 10
"""Most images that a picture shows and ``monitor/`` keeps, and how many stand side by side."""


def samples(
    key: Key, model: Any, data: ImageData, *, num_images: Annotated[int, TWO_OR_MORE] = 1000
) -> Found:
    """Returns scores of samples, of their starts and of what stands beside them.

    The first of them are arrays, with their nearest training images. The evaluation after training
    generates its own, see ``generation``.

    Args:
      num_images: samples that are scored during training
    """
    chains = model.samples(key, num_images)
    if chains is None:
        return Found({}, {})
    row = {}
    if chains.are_the_same:
        row["sample_rms_displacement"] = evaluate.rms_displacement(chains.starts, chains.ends)
    row |= model.sample_row(chains) | evaluate.along_training(chains, data, model.distances)
    shown = take_first(chains.ends)
    arrays = {"samples": shown, "starts": take_first(chains.starts)}
    arrays["nearest"] = nearest_images(shown, model.train.images)
    classes = model.classes_of(chains._replace(ends=chains.ends[:NUM_SHOWN]))
    if classes is not None:
        arrays["classes"] = np.asarray(classes[:NUM_SHOWN])
    return Found({}, row, arrays, step_pictures={"samples": partial(draw, row, arrays)})


def draw(row: Mapping[str, Any], arrays: Mapping[str, np.ndarray], path: Path) -> None:
    """Draws samples, their starts and nearest training images."""
    titles = {
        "sample": f"samples at step {int(path.stem.rpartition('_')[2]):,}",
        "start": "where their chains started",
        "nearest": "nearest training images, by pixels",
    }
    panels = {}
    for name, title in titles.items():
        if f"{name}_fid" in row:
            title += f"\nFID {with_error(row[f'{name}_fid'], row.get(f'{name}_fid_error'))}"
        panels[title] = arrays["nearest" if name == "nearest" else f"{name}s"]
    draw_sheet(path, panels, arrays.get("classes"))


def draw_sheet(
    path: Path, panels: Mapping[str, np.ndarray], classes: np.ndarray | None = None
) -> None:
    """Draws images side by side, a panel for each title, in the same order.

    Args:
      path: of the picture.
      panels: title to uint8 images (N, H, W, C).
      classes: (N,), by which the images are sorted.
    """
    num, height, width, _ = next(iter(panels.values())).shape
    columns = min(max(COLUMNS, math.isqrt(num)), num)
    order = np.arange(num) if classes is None else np.argsort(classes, stable=True)
    wide = max(4.0, columns * (width + 1) / STYLE["savefig.dpi"])
    size = (wide, wide * -(-num // columns) * (height + 1) / (columns * (width + 1)) + 0.5)
    with figure(path, 1, len(panels), size=size) as (axes,):
        for axis, (title, images) in zip(axes, panels.items(), strict=True):
            tiles(axis, images[order], columns, title)


def take_first(images: Any) -> np.ndarray:
    """Returns the first images of (N, H, W, C) in [-1, 1], as uint8."""
    return np.asarray(from_signed_unit(jnp.asarray(images[:NUM_SHOWN])))


def nearest_images(images: np.ndarray, train: Any) -> np.ndarray:
    """Returns the training image nearest to each image, by the sum of squares over its pixels.

    Args:
      images: (n, H, W, C), uint8.
      train: (N, H, W, C), uint8, in memory or in files.
    """

    def flatten(some: np.ndarray) -> np.ndarray:
        return some.reshape(len(some), -1).astype(np.float32)

    ours, least, found = flatten(images), np.full(len(images), np.inf), np.zeros_like(images)
    for first in range(0, len(train), AT_ONCE):
        some = take_rows(train, slice(first, first + AT_ONCE))
        theirs = flatten(some)
        squares = np.einsum("ij,ij->i", theirs, theirs)
        distances = squares - 2.0 * (ours @ theirs.T)  # less |ours|^2
        places, here = distances.argmin(axis=1), distances.min(axis=1)
        is_less = here < least
        least[is_less] = here[is_less]
        found[is_less] = some[places[is_less]].reshape(-1, *images.shape[1:])
    return found
