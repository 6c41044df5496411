"""Samples as training draws them, scored and pictured while the model trains."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial.distance import cdist

from ebmjax import evaluate
from ebmjax._ranges import TWO_OR_MORE
from ebmjax._stored import AT_ONCE, take_rows
from ebmjax.data import ImageData, from_signed_unit
from ebmjax.evaluate import Chains
from ebmjax.learning import positions_in
from ebmjax.recipes.evaluators import Found
from ebmjax.recipes.evaluators.evidence import keys_of
from ebmjax.recipes.evaluators.plots import STYLE, figure, tiles
from ebmjax.recipes.evaluators.result_tables import with_error
from ebmjax.samplers import StartFn
from ebmjax.training import TrainState
from ebmjax.types import Key

NUM_SHOWN, COLUMNS = 100, 10
"""Most images that a picture shows and ``monitor/`` keeps, and how many stand side by side."""
STARTS_KEY_NUMBER = 2**31 + 1
"""Number folded into a monitor's key for the draws of the start distribution."""


def samples(
    key: Key, model: Any, data: ImageData, *, num_images: Annotated[int, TWO_OR_MORE] = 1000
) -> Found:
    """Returns scores of samples, of their starts and of what stands beside them.

    The first of them are arrays, with their nearest training images. The evaluation after training
    generates its own, see ``generation``.

    Args:
      num_images: samples that are scored during training
    """
    chains = draw_samples(key, model, num_images)
    if chains is None:
        return Found({}, {})
    row = {}
    if chains.are_the_same:
        row["sample_rms_displacement"] = evaluate.rms_displacement(chains.starts, chains.ends)
    if is_latent(model):
        names = "num_diverged_samples", "sample_rms_displacement"
        row |= dict(zip(names, chains.about_finite(), strict=True))
    elif model.has_labels:
        name = "sample" if chains.are_the_same else "buffer"
        row[f"{name}_log_density"] = float(np.mean(model.log_densities(chains.ends)))
    else:
        row["sample_energy"] = float(np.mean(model.energies(chains.ends, chains.labels)))
    row |= evaluate.along_training(chains, data, model.distances)
    shown = take_first(chains.ends)
    arrays = {"samples": shown, "starts": take_first(chains.starts)}
    arrays["nearest"] = nearest_images(shown, model.train.images)
    return Found({}, row, arrays, pictures={"samples": partial(draw, row, arrays)})


def is_latent(model: Any) -> bool:
    """Returns whether a model's chains move latents, from which it generates images."""
    return model.config.family == "latent"


def draw_samples(key: Key, model: Any, num: int) -> Any:
    """Returns samples as training draws them: the buffer's, or without one fresh chains'.

    A latent EBM's have the same starts at every step of training. None without chains.
    """
    if is_latent(model):
        return model.fresh_chains(keys_of(key).samples, num)
    chains = draw_buffer(key, model, num)
    if chains is not None or model.plan is None:
        return chains
    return model.fresh_chains(key, num, model.config.sampler.num_steps)


def spread_slots(
    state: TrainState, num: int, num_classes: int = 1
) -> tuple[jax.Array, np.ndarray] | None:
    """Returns ``num`` positions of all shards' buffers, and their slots in a shard.

    They are evenly spaced slots of each class's block, the classes in turn. If the buffers hold
    fewer, all are returned; without a buffer, None.
    """
    if not jax.tree.leaves(state.carry.buffer):
        return None
    positions = positions_in(state.carry.buffer.positions)
    num_shards, size = positions.shape[:2]
    slots = np.arange(size // num_classes * num_classes).reshape(num_classes, -1).T
    # A row a turn: a slot of every class, of every shard before the next slot.
    turns = np.repeat(slots, num_shards, axis=0)
    spaced = np.linspace(0, len(turns) - 1, min(-(-num // num_classes), len(turns))).astype(int)
    chosen = turns[spaced].ravel()[:num]
    shards = np.repeat(spaced % num_shards, num_classes)[:num]
    return positions[shards, chosen], chosen


def draw_buffer(key: Key, model: Any, num: int) -> Chains | None:
    """Returns slots of the buffers beside draws of what fills them; None without a buffer.

    A slot's draw is of its class: what it held before any chain moved.

    There are ``num``, as many of each class, or fewer where the buffers hold fewer.
    """
    plan, state = model.plan, model.state
    if plan is None or state is None:
        return None
    if (shown := spread_slots(state, num, plan.num_classes)) is None:
        return None
    labels = np.arange(len(shown[1]), dtype=np.int32) % plan.num_classes
    keys = jax.random.split(jax.random.fold_in(key, STARTS_KEY_NUMBER), len(labels))
    draws = np.asarray(_draw(plan.start_fn, keys, jnp.asarray(labels)))
    return Chains(draws, np.asarray(shown[0]), labels, are_the_same=False)


@jax.jit
def _draw(start_fn: StartFn, keys: Key, labels: jax.Array) -> jax.Array:
    return jax.vmap(start_fn)(keys, labels)


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
    draw_sheet(path, panels)


def draw_sheet(
    path: Path, panels: Mapping[str, np.ndarray], *, columns: int = 0, rows: Sequence[str] = ()
) -> None:
    """Draws images side by side, a panel for each title.

    Args:
      path: of the picture.
      panels: title to uint8 images (N, H, W, C), each as many.
      columns: images side by side; 0 for about as many as below each other.
      rows: names of the rows.
    """
    num, height, width, _ = next(iter(panels.values())).shape
    columns = columns or min(max(COLUMNS, math.isqrt(num)), num)
    wide = max(4.0, columns * (width + 1) / STYLE["savefig.dpi"])
    size = (wide, wide * -(-num // columns) * (height + 1) / (columns * (width + 1)) + 0.5)
    with figure(path, 1, len(panels), size=size) as (axes,):
        for axis, (title, images) in zip(axes, panels.items(), strict=True):
            tiles(axis, images, columns, title, rows)


def take_first(images: Any) -> np.ndarray:
    """Returns the first images of (N, H, W, C) in [-1, 1], as uint8."""
    return np.asarray(from_signed_unit(jnp.asarray(images[:NUM_SHOWN])))


def nearest_images(images: np.ndarray, train: Any) -> np.ndarray:
    """Returns the training image nearest to each image, by the sum of squares over its pixels.

    Args:
      images: (n, H, W, C), uint8.
      train: (N, H, W, C), uint8, in memory or in files.
    """

    found, least = np.zeros_like(images), np.full(len(images), np.inf)
    for first in range(0, len(train), AT_ONCE):
        some = take_rows(train, slice(first, first + AT_ONCE))
        sides = (one.reshape(len(one), -1) for one in (images, some))
        squares = cdist(*sides, "sqeuclidean")
        is_less = squares.min(axis=1) < least
        least[is_less] = squares.min(axis=1)[is_less]
        found[is_less] = some[squares.argmin(axis=1)[is_less]]
    return found
