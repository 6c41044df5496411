"""Profiles of training chains, step by step, and their figure."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.ticker import MaxNLocator

from ebmjax._ranges import COUNT
from ebmjax.data import ImageData
from ebmjax.learning import ANY_CLASS, profile_chains
from ebmjax.recipes.evaluators import Found
from ebmjax.recipes.evaluators.plots import figure, step_colours
from ebmjax.recipes.evaluators.samples import draw_buffer
from ebmjax.recipes.folder.run_folder import read_arrays, snapshots
from ebmjax.types import Key, Metrics

PREFIX = "profile."
KEY_NUMBER = 2**31
"""Number folded into a monitor's key for these chains; its other uses split the key into fewer."""
LABELS = {
    "acceptance_prob": ("acceptance of the move", "linear"),
    "preconditioner": ("preconditioner G, mean over pixels", "log"),
    "temperature": ("temperature", "linear"),
    "direction_norm": ("norm of the direction", "log"),
    "bandwidth": ("bandwidth of the kernel", "linear"),
    "displacement": ("squared distance from the start, a pixel", "linear"),
    "log_density": ("log density, nats", "linear"),
    "score_norm": ("norm of the score", "log"),
}
"""Numbers that are drawn, with their axes, in the order of the panels."""


def profile(
    key: Key, model: Any, data: ImageData, *, num_chains: Annotated[int, COUNT] = 64
) -> Found:
    """Returns acceptance, displacement and more at every step of chains that start as training's.

    They are arrays, ``profile.<sampler>.<number>``, for ``plots/chains.png``. Interacting particles
    come in training's number.

    Args:
      num_chains: chains whose every step is kept and drawn
    """
    del data
    key, plan = jax.random.fold_in(key, KEY_NUMBER), model.plan
    num = model.config.sampler.num_samples if plan.is_interacting else num_chains
    if (chains := draw_buffer(key, model, num)) is not None:
        starts, labels = chains.ends, chains.labels
    else:
        labels = np.arange(num, dtype=np.int32) % plan.num_classes
        keys = jax.random.split(jax.random.fold_in(key, 0), num)
        starts = jax.vmap(plan.start_fn)(keys, labels)
    if not model.config.model.is_conditional:
        labels = np.full_like(labels, ANY_CLASS)

    def find(trained: Any, key: Key, starts: Any, labels: Any) -> dict[str, Metrics]:
        kinds = plan.single(plan.num_samples).kinds_at(trained.adaptation)
        of_kind = partial(profile_chains, key, model.densities_of(trained))
        return {name: of_kind(kind, starts, labels) for name, kind in kinds.items()}

    program = model.program("profile", lambda: jax.jit(find))
    found = program(model.trained, key, jnp.asarray(starts), jnp.asarray(labels))
    arrays = {
        f"{PREFIX}{sampler}.{number}": np.asarray(values)
        for sampler, numbers in found.items()
        for number, values in numbers.items()
    }
    return Found({}, {}, arrays)


Numbers = dict[str, dict[int, np.ndarray]]
"""For one sampler: number to step of training to values along the chain."""


def read(workdir: Path) -> dict[str, Numbers]:
    """Returns the numbers of each sampler, from a run's snapshots."""
    found: dict[str, Numbers] = {}
    for path in snapshots(workdir):
        for name, array in read_arrays(path, PREFIX).items():
            # A function's name has dots, too.
            sampler, _, number = name.removeprefix(PREFIX).rpartition(".")
            found.setdefault(sampler, {}).setdefault(number, {})[int(path.stem)] = array
    return found


def draw_panels(path: Path, rows: Mapping[str, Numbers]) -> None:
    """Draws numbers against the step of a chain, one line a monitored step; no file without rows.

    Each name has a row of panels.
    """
    if not rows:
        return
    numbers = [number for number in LABELS if any(number in row for row in rows.values())]
    last = max(step for row in rows.values() for by_step in row.values() for step in by_step)
    with figure(path, len(rows), len(numbers)) as grid:
        colour = step_colours(grid, last)
        for line, (title, row) in zip(grid, rows.items(), strict=True):
            for axes, number in zip(line, numbers, strict=True):
                for step, values in row.get(number, {}).items():  # {}: not of this sampler
                    axes.plot(np.arange(1, len(values) + 1), values, color=colour(step))
                label, scale = LABELS[number]
                axes.set(title=title.replace("_", " "), xlabel="step of the chain")
                axes.set(ylabel=label, yscale=scale)
                axes.xaxis.set_major_locator(MaxNLocator(integer=True))
