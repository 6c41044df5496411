"""Distances of densities and of samples in the plane from the data's density, on one grid."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax.recipes.evaluators.points import grid as grids
from ebmjax.recipes.evaluators.points.grid import MAX_BORDER_MASS, Grid, grid_draws
from ebmjax.recipes.parts.points_data import Truth
from ebmjax.types import Key


def plane_of(model: Any) -> "Plane":
    """Returns the plane of a model of points, made once for all states; reads ``model.truth``."""
    section = model.config.eval.density
    grid = Grid(section.half_width, section.grid_points)
    return model.program("plane", lambda: Plane(grid, section.bandwidth, model.truth))


@dataclass(frozen=True)
class Plane:
    """The data's density on a grid.

    Attributes:
      grid: grid of all densities.
      bandwidth: of the kernel estimates of samples' densities.
      truth: the data.
    """

    grid: Grid
    bandwidth: float
    truth: Truth

    @cached_property
    def log_density(self) -> np.ndarray:
        """Log density of the data (num, num), normalised on the grid."""
        values = jax.vmap(self.truth.log_density_fn)(jnp.asarray(self.grid.centres, jnp.float32))
        return grids.normalise(np.asarray(values), self.grid)

    def draw(self, key: Key, log_density: np.ndarray, num: int) -> np.ndarray:
        """Returns ``num`` independent draws (num, 2) of a log density (num, num) on the grid."""
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        return grid_draws(rng, log_density, grid=self.grid, num=num)

    def estimate(self, samples: np.ndarray) -> np.ndarray:
        """Returns the kernel density estimate (num, num) of samples (n, 2)."""
        return grids.smooth_histogram(samples, self.grid, self.bandwidth)

    def not_normalised(self, border_mass: float) -> str:
        """Returns why a density with so much of its mass at the border has no divergences."""
        share = f"{border_mass:.2g} of its mass on the grid at the grid's border"
        if border_mass == 1.0:
            share = "all of its mass at the grid's border, or values that are not finite"
        return (
            f"The learned density has {share}, so there is more beyond: no normalised density is "
            "reported. If it is bounded at all, --config.eval.density.half_width= can be larger."
        )

    def density_numbers(self, log_density: np.ndarray) -> dict[str, float]:
        """Returns divergences from the data's density; NaN if the learned one has mass beyond."""
        share = grids.border_mass(log_density, self.grid)
        names = ("density_tv", "density_kl", "density_share_tv")
        report = dict.fromkeys(names, math.nan) | {"border_mass": share, "is_normalisable": 0.0}
        if share <= MAX_BORDER_MASS:
            learned = grids.normalise(log_density, self.grid)
            report |= {
                "density_tv": self.distance(np.exp(learned)),
                "density_kl": grids.kl_divergence(self.log_density, learned, self.grid),
                "density_share_tv": self.share_distance(self.density_shares(learned)),
                "is_normalisable": 1.0,
            }
        return report

    def sample_numbers(self, samples: np.ndarray) -> dict[str, float]:
        """Returns numbers of samples (n, 2), by their kernel density estimate."""
        estimate = self.estimate(samples)
        inside = grids.mass(estimate, self.grid)
        report = {
            "sample_tv": self.distance(estimate),
            "sample_kl": math.nan,
            "sample_share_tv": self.share_distance(self.truth.shares(samples)),
            "outside": 1.0 - inside,
        }
        if inside > 0:
            with np.errstate(divide="ignore"):
                log_estimate = np.log(estimate / inside)
            report["sample_kl"] = grids.kl_divergence(log_estimate, self.log_density, self.grid)
        return report

    def distance(self, density: np.ndarray, log_density: np.ndarray | None = None) -> float:
        """Returns the total variation of a density (num, num) from another.

        That is ``exp(log_density)``, by default the data's.
        """
        other = self.log_density if log_density is None else log_density
        return grids.total_variation(np.exp(other), density, self.grid)

    def density_shares(self, log_density: np.ndarray) -> np.ndarray:
        """Returns the masses of the data's parts, their modes or circles, under a log density."""
        masses = np.exp(grids.normalise(log_density, self.grid)).ravel()
        return self.truth.shares(self.grid.centres, masses)

    def share_distance(self, shares: np.ndarray) -> float:
        """Returns the total variation of the parts' shares from the data's, in [0, 1]."""
        return 0.5 * float(np.sum(np.abs(shares - self.density_shares(self.log_density))))
