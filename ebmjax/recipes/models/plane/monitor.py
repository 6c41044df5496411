"""Data density in the plane on a grid, and a learned density's distance from it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.models.plane import grid as plane_grid
from ebmjax.recipes.models.plane.grid import MAX_BORDER_MASS, Grid
from ebmjax.recipes.models.plane.numbers import grid_draws


@dataclass(frozen=True)
class PlaneMonitor:
    """Density, grid and divergences that both experiments in the plane monitor and evaluate.

    Attributes:
      workdir: gets ``monitor/<step>.npz``.
      key: used at every monitored step.
      energy_fn: ``energy_fn(params, positions)``.
      toy: the truth, a ``beta.ToyData``.
      config: section eval is read.
    """

    workdir: Path
    key: jax.Array
    energy_fn: Callable[..., jax.Array]
    toy: Any
    config: Config

    @property
    def grid(self) -> Grid:
        """Grid of all densities."""
        return Grid(self.config.eval.half_width, self.config.eval.grid_points)

    @cached_property
    def truth(self) -> np.ndarray:
        """Log density of the data, normalised on the grid."""
        values = jax.vmap(self.toy.log_density_fn)(jnp.asarray(self.grid.centres, jnp.float32))
        return plane_grid.normalised(np.asarray(values), self.grid)

    def drawn(self, key: jax.Array, log_density: np.ndarray, num: int) -> np.ndarray:
        """Returns ``num`` independent draws (num, 2) of a log density (num, num) on the grid."""
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        return grid_draws(rng, log_density, grid=self.grid, num=num)

    def check(self) -> None:
        """Raises ConfigError for a grid that cuts off the data."""
        share, section = plane_grid.border_mass(self.truth, self.grid), self.config.eval
        if share > MAX_BORDER_MASS:
            raise ConfigError(
                f"config.eval.half_width={section.half_width} leaves {share:.2g} of the data's own "
                f"mass at the border of the grid, more than {MAX_BORDER_MASS}. "
                "Widen it."
            )

    def not_normalised(self, border_mass: float) -> str:
        """Returns why a density with so much of its mass at the border has no divergences."""
        share = f"{border_mass:.2g} of its mass on the grid at the grid's border"
        if border_mass == 1.0:
            share = "all of its mass at the grid's border, or values that are not finite"
        return (
            f"has {share}, so there is more beyond: no normalised density is reported. If it is "
            "bounded at all, --config.eval.half_width= can be larger."
        )

    def density_numbers(self, log_density: np.ndarray) -> dict[str, float]:
        """Returns divergences from the data's density; NaN if the learned one has mass beyond."""
        grid = self.grid
        share = plane_grid.border_mass(log_density, grid)
        report = {"density_tv": math.nan, "density_kl": math.nan, "border_mass": share}
        if share <= MAX_BORDER_MASS:
            learned = plane_grid.normalised(log_density, grid)
            truth = np.exp(self.truth)
            report["density_tv"] = plane_grid.total_variation(truth, np.exp(learned), grid)
            report["density_kl"] = plane_grid.kl_divergence(self.truth, learned, grid)
        return report
