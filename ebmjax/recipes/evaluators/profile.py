"""Profiles of training chains, step by step: an evaluator, and their figure."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.ticker import MaxNLocator

from ebmjax import data
from ebmjax.learning import profile_chains
from ebmjax.recipes.evaluators.evaluator import Evaluator, Found
from ebmjax.recipes.evaluators.plots import figure, step_colours
from ebmjax.recipes.folder.workdir import snapshots
from ebmjax.types import Key, Metrics

PREFIX = "profile"
KEY_NUMBER = 2**31
"""Number folded into a monitor's key for these chains; its other uses split the key into fewer."""
LABELS = {
    "acceptance_prob": ("acceptance of the move", "linear"),
    "swap_prob": ("acceptance of a swap, mean over pairs", "linear"),
    "preconditioner": ("preconditioner G, mean over pixels", "log"),
    "temperature": ("temperature", "linear"),
    "direction_norm": ("norm of the direction", "log"),
    "bandwidth": ("bandwidth of the kernel", "linear"),
    "displacement": ("squared distance from the start, a pixel", "linear"),
    "log_density": ("log density, nats", "linear"),
    "score_norm": ("norm of the score", "log"),
}
"""Numbers that are drawn, with their axes, in the order of the panels."""


def name_arrays(sampler: str, profile: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Returns ``learning.profile_chains`` by its arrays' names in ``monitor/``."""
    return {f"{PREFIX}.{sampler}.{number}": np.asarray(v) for number, v in profile.items()}


def draw(workdir: Path) -> None:
    """Draws ``plots/chains.png``: numbers against the step of a chain, one line a monitored step.

    Each sampler has a row. A run that kept no profile gets no figure.
    """
    draw_panels(workdir / "plots" / "chains.png", read(workdir))


Numbers = dict[str, dict[int, np.ndarray]]
"""For one sampler: number to step of training to values along the chain."""


def read(workdir: Path) -> dict[str, Numbers]:
    """Returns the numbers of each sampler, from a run's snapshots."""
    found: dict[str, Numbers] = {}
    for path in snapshots(workdir):
        with np.load(path) as arrays:
            for name in arrays.files:
                prefix, _, rest = name.partition(".")
                if prefix == PREFIX:
                    sampler, _, number = rest.rpartition(".")  # a function's name has dots, too
                    by_step = found.setdefault(sampler, {}).setdefault(number, {})
                    by_step[int(path.stem)] = arrays[name]
    return found


def draw_panels(path: Path, rows: Mapping[str, Numbers]) -> None:
    """Draws a row of panels for each name, a panel for each number; no file without rows."""
    if not rows:
        return
    numbers = [number for number in LABELS if any(number in row for row in rows.values())]
    last = max(step for row in rows.values() for by_step in row.values() for step in by_step)
    with figure(path, len(rows), len(numbers)) as grid:
        colour = step_colours(grid, last)
        for line, (title, row) in zip(grid, rows.items(), strict=True):
            for axes, number in zip(line, numbers, strict=True):
                if number not in row:  # not of this sampler
                    continue
                for step, values in row[number].items():
                    steps = np.arange(1, len(values) + 1)
                    axes.plot(steps, values, color=colour(step))
                label, scale = LABELS[number]
                axes.set(title=title.replace("_", " "), xlabel="step of the chain")
                axes.set(ylabel=label, yscale=scale)
                axes.xaxis.set_major_locator(MaxNLocator(integer=True))
                if number == "acceptance_prob":
                    axes.set_ylim(-0.03, 1.03)


@dataclass(frozen=True)
class ChainProfile(Evaluator):
    """Acceptance, displacement and more at every step of some chains, which start as training's do.

    It uses ``model.profile_starts``, ``model.plan`` and ``model.densities_of``. Interacting
    particles come in training's number.
    """

    num_chains: int = 64
    at_end = False

    def __call__(self, model: Any, test: data.ImageData, key: Key) -> Found:
        """Returns arrays by the names of ``chain_profiles``, for ``plots/chains.png``."""
        key = jax.random.fold_in(key, KEY_NUMBER)
        begun = None if model.plan is None else model.profile_starts(key, self.num_chains)
        if begun is None:
            return Found({}, {})

        def profile(trained: Any, key: Key, starts: Any, labels: Any) -> dict[str, Metrics]:
            kinds = model.plan.single(model.plan.num_samples).kinds_at(trained.adaptation)
            densities = model.densities_of(trained)
            return {
                name: profile_chains(key, densities, kind, starts, labels)
                for name, kind in kinds.items()
            }

        program = model.program(self, lambda: jax.jit(profile))
        found = program(model.trained, key, *map(jnp.asarray, begun))
        arrays: dict[str, Any] = {}
        for name, numbers in found.items():
            arrays |= name_arrays(name, numbers)
        return Found({}, {}, arrays)
