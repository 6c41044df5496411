"""The picture of a comparison of samplers in the plane."""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from ebmjax.recipes.evaluators.plots import figure, shape
from ebmjax.recipes.evaluators.points.density_plots import COLUMNS, energy_map
from ebmjax.recipes.parts.samplers import SAMPLERS

Chains = dict[str, np.ndarray]
"""A sampler's positions (chains, steps, 2), burn-in included, by its name."""
SHOWN = 2000


def scatter(path: Path, chains: Chains, log_density: np.ndarray, numbers: Any, look: Any) -> None:
    """Plots draws after the burn-in over the learned energy, a colour a chain."""
    with figure(path, *shape(len(chains), COLUMNS), size=(2.8, 3.3)) as grid:
        for axes, (name, positions) in zip(grid.flat, chains.items(), strict=False):
            energy_map(axes, log_density, look.half_width)
            kept = positions[:, look.burn_in :]
            every = max(1, kept.shape[0] * kept.shape[1] // SHOWN)
            for i, chain in enumerate(kept):
                axes.plot(*chain[::every].T, ".", ms=2.5, color=shade(i), mew=0)
            axes.set_title(f"{title(name)}\nR-hat {numbers[name]['rhat_classic']:.3g}")


def title(name: str) -> str:
    """Returns a sampler's name for pictures and tables; of a user's, that of its function."""
    return SAMPLERS[name].title if name in SAMPLERS else name.replace("_", " ")


def shade(chain: int) -> Any:
    """Returns a chain's colour, readable on red and blue."""
    return matplotlib.colormaps["tab20"](2 * chain % 20 + (chain >= 10))
