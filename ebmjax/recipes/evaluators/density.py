"""The learned density of points in the plane, and the ends of short chains, beside the data's."""

import math
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax._ranges import GRID, POSITIVE, TWO_OR_MORE
from ebmjax.data import ImageData
from ebmjax.evaluate import Grid
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.evaluators import Found
from ebmjax.recipes.evaluators.plots import figure
from ebmjax.types import Key

MAX_BORDER_MASS = 0.01
"""Largest share of a density's mass at the border of the grid, or there is more beyond it."""


def grid_of(config: Config) -> Grid:
    """Returns the grid of all densities of a run."""
    return Grid(config.evals.density.half_width, config.evals.density.grid_points)


def learned_on_grid(model: Any) -> np.ndarray:
    """Returns a model's log density at the centres of the cells, (num, num), unnormalised."""
    grid = grid_of(model.config)
    values = model.log_densities(jnp.asarray(grid.centres, jnp.float32))
    return np.asarray(values, np.float64).reshape(grid.num, grid.num)


def truth_on_grid(model: Any) -> np.ndarray:
    """Returns the data's log density (num, num), normalised on the grid."""
    grid = grid_of(model.config)
    values = jax.vmap(model.truth.log_density_fn)(jnp.asarray(grid.centres, jnp.float32))
    return grid.normalise(np.asarray(values))


def judge_density(
    log_density: np.ndarray, truth: np.ndarray, grid: Grid
) -> tuple[dict[str, float], np.ndarray | None]:
    """Returns divergences from the data's log density, and the normalised learned density.

    They are NaN and None if the learned one has mass beyond the grid.
    """
    share = grid.border_mass(log_density)
    if share > MAX_BORDER_MASS:
        return {"density_tv": math.nan, "density_kl": math.nan, "border_mass": share}, None
    learned = grid.normalise(log_density)
    numbers = {
        "density_tv": grid.total_variation(np.exp(truth), np.exp(learned)),
        "density_kl": grid.kl_divergence(truth, learned),
        "border_mass": share,
    }
    return numbers, np.exp(learned)


def density(
    key: Key,
    model: Any,
    data: ImageData,
    *,
    half_width: Annotated[float, POSITIVE] = 2.0,
    grid_points: Annotated[int, GRID] = 200,
    num_samples: Annotated[int, TWO_OR_MORE] = 10_000,
    bandwidth: Annotated[float, POSITIVE] = 0.05,
) -> Found:
    """Returns "density": divergences of the learned density and of short chains from the data's.

    The chains are as long as training's. They follow the model itself, whatever beta training has,
    as in the paper's panels. As many points of the data stand beside them.

    Args:
      half_width: half width of the grid of densities in the plane
      grid_points: cells of the grid along an axis
      num_samples: samples whose distances are measured
      bandwidth: kernel bandwidth of density estimates
    """
    del data, half_width, grid_points  # others read them, too: from the configuration
    chain_key, data_key = jax.random.split(key)
    grid, steps = grid_of(model.config), model.config.sampler.num_steps
    learned, truth = learned_on_grid(model), truth_on_grid(model)
    ends = model.fresh_chains(chain_key, num_samples, steps, scale=1.0).ends
    fresh = np.asarray(model.truth.draw(data_key, num_samples))
    chains, perfect = (grid.histogram(points, bandwidth) for points in (ends, fresh))
    numbers, normalised = judge_density(learned, truth, grid)
    numbers["sample_tv"] = grid.total_variation(np.exp(truth), chains)
    of_data = {"sample_tv": grid.total_variation(np.exp(truth), perfect)}

    def draw(path: Path) -> None:
        peak = np.exp(truth).max()
        with figure(path, 1, 3, size=(1.9, 2.0)) as (squares,):
            tile(squares[0], np.exp(truth), peak, "data")
            title = f"TV {numbers['density_tv']:.2f}" if normalised is not None else "no density"
            tile(squares[1], normalised, peak, f"model: {title}", missing="not normalisable")
            tile(squares[2], chains, peak, f"chains: TV {numbers['sample_tv']:.2f}")

    return Found(
        {"density": {**numbers, "perfect_sampler": of_data}},
        numbers,
        {"log_density": learned, "truth": truth, "ends": ends},
        pictures={"density": draw},
    )


def check(model: Any, data: ImageData, **_: Any) -> None:
    """Refuses points that are not in the plane, and a grid that cuts off the data."""
    del data
    grid, dimension = grid_of(model.config), model.train.images.shape[1]
    if dimension != 2:
        raise ConfigError(
            "config.evals.density needs points in the plane, (N, 2), got points with "
            f"{dimension} coordinates: set --config.evals.density.every=never."
        )
    if (share := grid.border_mass(truth_on_grid(model))) > MAX_BORDER_MASS:
        raise ConfigError(
            f"config.evals.density.half_width={grid.half_width} leaves {share:.2g} of the data's "
            f"own mass at the border of the grid, more than {MAX_BORDER_MASS}. Widen it."
        )


def tile(axes: Any, density: np.ndarray | None, peak: float, title: str, missing: str = "") -> None:
    """Draws a density in colours from 0 to ``peak``; without one ``missing`` says why."""
    axes.set(xticks=[], yticks=[], title=title)
    if density is not None:
        axes.imshow(density.T, origin="lower", vmin=0.0, vmax=peak)
        return
    axes.text(0.5, 0.5, missing, ha="center", va="center")
    axes.set_aspect("equal")
