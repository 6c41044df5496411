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
from ebmjax.recipes.evaluators.plots import STYLE, figure, shape, tiles
from ebmjax.recipes.evaluators.result_tables import as_text
from ebmjax.samplers import StartFn
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
    row = evaluate.along_training(chains, data, model.distances)
    if is_latent(model):
        row["num_diverged_samples"] = len(chains.ends) - len(chains.drop_diverged().ends)
    elif model.has_labels:
        row["buffer_log_density"] = float(np.mean(model.log_densities(chains.ends)))
    else:
        row["sample_energy"] = float(np.mean(model.energies(chains.ends, chains.labels)))
    shown = take_first(chains.ends)
    arrays = {"samples": shown, "starts": take_first(chains.starts)}
    arrays["nearest"] = nearest_images(shown, model.train.images)
    panels = {
        f"samples\nFID {as_text(row, 'sample_fid')}": shown,
        f"where their chains started\nFID {as_text(row, 'start_fid')}": arrays["starts"],
        "nearest training images, by pixels": arrays["nearest"],
    }
    pictures = {"samples": partial(draw_sheet, panels=panels)}
    return Found({}, row, arrays, pictures=pictures)


def is_latent(model: Any) -> bool:
    """Returns whether a model's chains move latents, from which it generates images."""
    return model.config.family == "latent"


def draw_samples(key: Key, model: Any, num: int) -> Chains:
    """Returns samples as training draws them: the buffer's, or without one fresh chains'.

    A latent EBM's have the same starts at every step of training.
    """
    if is_latent(model):
        return model.fresh_chains(keys_of(key)["samples"], num)
    chains = draw_buffer(key, model, num)
    return chains or model.fresh_chains(key, num, model.config.sampler.num_steps)


def draw_buffer(key: Key, model: Any, num: int) -> Chains | None:
    """Returns slots of all shards' buffers beside draws of what fills them; None without a buffer.

    They are evenly spaced slots of each class's block, the classes in turn, ``num`` in all or as
    many as there are. A slot's draw is of its class: what it held before any chain moved.
    """
    plan, state = model.plan, model.state
    if state is None or not jax.tree.leaves(state.carry.buffer):
        return None
    positions = positions_in(state.carry.buffer.positions)
    places = np.arange(math.prod(positions.shape[:2])).reshape(len(positions), plan.num_classes, -1)
    # A row a turn: a slot of every class, of every shard before the next slot.
    turns = places.transpose(2, 0, 1).reshape(-1, plan.num_classes)
    num_turns = min(-(-num // plan.num_classes), len(turns))
    spaced = np.linspace(0, len(turns) - 1, num_turns).astype(int)
    ends = positions[np.divmod(turns[spaced].ravel()[:num], positions.shape[1])]
    labels = np.arange(len(ends), dtype=np.int32) % plan.num_classes
    keys = jax.random.split(jax.random.fold_in(key, STARTS_KEY_NUMBER), len(labels))
    draws = np.asarray(_draw(plan.start_fn, keys, jnp.asarray(labels)))
    return Chains(draws, np.asarray(ends), labels, are_the_same=False)


@jax.jit
def _draw(start_fn: StartFn, keys: Key, labels: jax.Array) -> jax.Array:
    return jax.vmap(start_fn)(keys, labels)


def draw_sheet(
    path: Path, panels: Mapping[str, np.ndarray], *, columns: int = 0, rows: Sequence[str] = ()
) -> None:
    """Draws uint8 images (N, H, W, C) by title, four panels a line; 0 columns: as many as rows."""
    _, height, width, _ = next(iter(panels.values())).shape
    num = max(1, *map(len, panels.values()))
    columns = columns or min(max(COLUMNS, math.isqrt(num)), num)
    wide = max(4.0, columns * (width + 1) / STYLE["savefig.dpi"])
    size = (wide, wide * -(-num // columns) * (height + 1) / (columns * (width + 1)) + 0.5)
    with figure(path, *shape(len(panels), 4), size=size) as grid:
        for axis, (title, images) in zip(grid.flat, panels.items(), strict=False):
            tiles(axis, images, columns, title, rows)


def take_first(images: Any) -> np.ndarray:
    """Returns the first images of (N, H, W, C) in [-1, 1], as uint8."""
    return np.asarray(from_signed_unit(jnp.asarray(images[:NUM_SHOWN])))


def nearest_images(images: np.ndarray, train: Any) -> np.ndarray:
    """Returns the row of ``train`` nearest to each uint8 image, by squares over its pixels."""
    parts = [slice(first, first + AT_ONCE) for first in range(0, len(train), AT_ONCE)]
    flat = lambda some: some.reshape(len(some), -1)  # noqa: E731
    squares = [cdist(flat(images), flat(take_rows(train, one)), "sqeuclidean") for one in parts]
    return take_rows(train, np.concatenate(squares, axis=1).argmin(axis=1))
