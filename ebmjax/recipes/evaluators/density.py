"""The learned density of points in the plane, and the ends of short chains, beside the data's."""

import math
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import ndimage, special

from ebmjax._ranges import GRID, POSITIVE, TWO_OR_MORE
from ebmjax.data import ImageData
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.evaluators import Found
from ebmjax.recipes.evaluators.plots import figure
from ebmjax.types import Key

MAX_BORDER_MASS = 0.01
"""Largest share of a density's mass at the border of the grid, or there is more beyond it."""


class Grid(NamedTuple):
    """Square [-half_width, half_width]^2 in num x num cells; arrays on it are [x, y].

    A density on it holds the value at each cell's centre.
    """

    half_width: float
    num: int

    @property
    def width(self) -> float:
        """Width of a cell, in units of the position."""
        return 2 * self.half_width / self.num

    @property
    def centres(self) -> np.ndarray:
        """Centres of all cells, (num * num, 2), x the slower."""
        edges = np.linspace(-self.half_width, self.half_width, self.num + 1)
        middle = (edges[1:] + edges[:-1]) / 2
        return np.stack(np.meshgrid(middle, middle, indexing="ij"), axis=-1).reshape(-1, 2)


def normalise(log_density: np.ndarray, grid: Grid) -> np.ndarray:
    """Returns ``log_density`` (num, num) plus the constant that gives it mass 1 on the grid."""
    values = np.asarray(log_density, np.float64).reshape(grid.num, grid.num)
    return values - special.logsumexp(values) - 2 * math.log(grid.width)


def mass(density: np.ndarray, grid: Grid) -> float:
    """Returns the integral of ``density`` over the grid."""
    return float(np.sum(density)) * grid.width**2


def border_mass(log_density: np.ndarray, grid: Grid) -> float:
    """Returns the share of mass in a frame of 5 % of the side; 1 if values are not finite.

    If it is not small, there is more mass beyond and the density cannot be normalised on this grid.
    Far from the data, an energy network grows or falls linearly.
    """
    if not np.all(np.isfinite(log_density)):
        return 1.0
    frame = max(1, round(0.05 * grid.num))
    inner = np.exp(normalise(log_density, grid))[frame:-frame, frame:-frame]
    return max(0.0, 1.0 - mass(inner, grid))


def total_variation(first: np.ndarray, second: np.ndarray, grid: Grid) -> float:
    """Returns half the integral of the absolute difference, in [0, 1].

    Mass missing on the grid lies outside, where the other density is taken as 0.
    """
    outside = (1 - mass(first, grid)) + (1 - mass(second, grid))
    return 0.5 * (mass(np.abs(first - second), grid) + outside)


def kl_divergence(log_first: np.ndarray, log_second: np.ndarray, grid: Grid) -> float:
    """Returns KL(first || second) in nats of normalised log densities; -inf means no mass."""
    present = log_first > -np.inf
    difference = log_first[present] - log_second[present]
    return mass(np.exp(log_first[present]) * difference, grid)


def smooth_histogram(points: np.ndarray, grid: Grid, bandwidth: float) -> np.ndarray:
    """Returns the density of ``points`` (n, 2): counts in cells, spread by a Gaussian kernel.

    Points outside the grid, or not finite, count in n and leave mass missing. The grid's cells
    should be narrower than ``bandwidth``, the kernel's deviation in units of the position.
    """
    finite = points[np.all(np.isfinite(points), axis=1)].astype(np.float64)
    ends = (-grid.half_width, grid.half_width)
    counts = np.histogram2d(*finite.T, bins=grid.num, range=(ends, ends))[0]
    return smooth(counts / (len(points) * grid.width**2), grid, bandwidth)


def smooth(density: np.ndarray, grid: Grid, bandwidth: float) -> np.ndarray:
    """Spreads ``density`` (num, num) by the kernel of ``smooth_histogram``; 0 beyond the grid."""
    return ndimage.gaussian_filter(density, bandwidth / grid.width, mode="constant")


def grid_draws(key: Key, log_density: np.ndarray, grid: Grid, num: int) -> np.ndarray:
    """Returns ``num`` independent draws (num, 2) of a density that is constant in each cell.

    ``log_density`` (num, num) is up to a constant, because exponentials may underflow.
    """
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    shares = special.softmax(log_density.ravel())
    cells = rng.choice(len(shares), size=num, p=shares)
    return grid.centres[cells] + grid.width * rng.uniform(-0.5, 0.5, (num, 2))


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
    return normalise(np.asarray(values), grid)


def judge_density(
    log_density: np.ndarray, truth: np.ndarray, grid: Grid
) -> tuple[dict[str, float], np.ndarray | None]:
    """Returns divergences from the data's log density, and the normalised learned density.

    They are NaN and None if the learned one has mass beyond the grid.
    """
    share = border_mass(log_density, grid)
    if share > MAX_BORDER_MASS:
        return {"density_tv": math.nan, "density_kl": math.nan, "border_mass": share}, None
    learned = normalise(log_density, grid)
    numbers = {
        "density_tv": total_variation(np.exp(truth), np.exp(learned), grid),
        "density_kl": kl_divergence(truth, learned, grid),
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
    chains, perfect = (smooth_histogram(points, grid, bandwidth) for points in (ends, fresh))
    numbers, normalised = judge_density(learned, truth, grid)
    numbers["sample_tv"] = total_variation(np.exp(truth), chains, grid)
    of_data = {"sample_tv": total_variation(np.exp(truth), perfect, grid)}

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
    if (share := border_mass(truth_on_grid(model), grid)) > MAX_BORDER_MASS:
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
