"""The learned density of points in the plane, and the ends of short chains, beside the data's."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.evaluators.evaluator import Evaluator, Found
from ebmjax.recipes.evaluators.points import density_plots
from ebmjax.recipes.evaluators.points.grid import MAX_BORDER_MASS, Grid, border_mass
from ebmjax.recipes.evaluators.points.plane import plane_of
from ebmjax.types import Key


@dataclass(frozen=True)
class Density(Evaluator):
    """Divergences of the learned density and of chains as long as training's, from the data's.

    The chains follow the model itself, whatever beta training has, as in the paper's panels. It
    uses ``model.truth``, ``model.log_densities`` and ``model.follow``.
    """

    half_width: float = 2.0
    grid_points: int = 200
    num_samples: int = 10_000
    bandwidth: float = 0.05

    def __call__(self, model: Any, test: data.ImageData, key: Key) -> Found:
        """Returns "density": numbers of density and chains, and of as many points of the data."""
        plane = plane_of(model)
        chain_key, data_key = jax.random.split(key)
        learned = on_grid(model, plane.grid)
        ends = model.follow(chain_key, self.num_samples, model.config.sampler.num_steps)
        numbers = plane.density_numbers(learned) | plane.sample_numbers(ends)
        fresh = np.asarray(model.truth.draw(data_key, self.num_samples))
        is_normalisable = bool(numbers["is_normalisable"])
        shares = {
            "data": plane.density_shares(plane.log_density).tolist(),
            "density": plane.density_shares(learned).tolist() if is_normalisable else None,
            "chains": model.truth.shares(ends).tolist(),
        }
        notes = [] if is_normalisable else [plane.not_normalised(numbers["border_mass"])]
        report = {**numbers, "perfect_sampler": plane.sample_numbers(fresh)}
        report |= {"shares": shares, "notes": notes}
        arrays = {"log_density": learned, "truth": plane.log_density, "ends": ends}
        return Found({"density": report}, numbers, arrays)

    def check(self, model: Any, test: data.ImageData) -> None:
        """Refuses points of another space than the plane, and a grid that cuts off the data."""
        del test
        dimension = model.train.images.shape[1]
        if dimension != 2:
            raise ConfigError(
                "config.eval.density needs points in the plane, (N, 2), got points with "
                f"{dimension} coordinates: set --config.eval.density.every=never."
            )
        plane = plane_of(model)
        share = border_mass(plane.log_density, plane.grid)
        if share > MAX_BORDER_MASS:
            raise ConfigError(
                f"config.eval.density.half_width={self.half_width} leaves {share:.2g} of the "
                f"data's own mass at the border of the grid, more than {MAX_BORDER_MASS}. Widen it."
            )

    def draw(self, folder: Path, found: Found) -> None:
        """Draws ``plots/eval_density.png``, see ``density_plots.panels``."""
        self._panels(folder / "plots" / "eval_density.png", found)

    def draw_step(self, folder: Path, step: int, found: Found) -> None:
        """Draws ``plots/density_<step>.png``, see ``density_plots.panels``."""
        self._panels(folder / "plots" / f"density_{step:06d}.png", found)

    def _panels(self, path: Path, found: Found) -> None:
        path.parent.mkdir(exist_ok=True)
        grid = Grid(self.half_width, self.grid_points)
        density_plots.panels(path, found.arrays, found.report["density"], grid, self.bandwidth)


def on_grid(model: Any, grid: Grid) -> np.ndarray:
    """Returns the learned log density at the centres of the cells, (num, num), up to a constant."""
    values = model.log_densities(jnp.asarray(grid.centres, jnp.float32))
    return np.asarray(values, np.float64).reshape(grid.num, grid.num)
