"""The learned density of points in the plane, and the ends of short chains, beside the data's."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

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

FLOOR = -23.0
"""Lower log densities have one colour, as in the papers' panels."""
BORDER = 0.05
MAX_BORDER_MASS = 0.01
"""Largest share of a density's mass at the border of the grid, or there is more beyond it."""


@dataclass(frozen=True)
class Grid:
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
    def edges(self) -> np.ndarray:
        """Edges of the cells along an axis, (num + 1,)."""
        return np.linspace(-self.half_width, self.half_width, self.num + 1)

    @property
    def centres(self) -> np.ndarray:
        """Centres of all cells, (num * num, 2), x the slower."""
        middle = (self.edges[1:] + self.edges[:-1]) / 2
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
    values = np.asarray(log_density, np.float64)
    if not np.all(np.isfinite(values)):
        return 1.0
    density = np.exp(normalise(values, grid))
    frame = max(1, round(BORDER * grid.num))
    inner = density[frame:-frame, frame:-frame]
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

    Points outside the grid, or not finite, count in n and leave mass missing.

    Args:
      points: at least one.
      grid: its cells should be narrower than the bandwidth.
      bandwidth: standard deviation of the kernel, in units of the position.
    """
    finite = points[np.all(np.isfinite(points), axis=1)].astype(np.float64)
    counts, _, _ = np.histogram2d(*finite.T, bins=(grid.edges, grid.edges))
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

    def make() -> np.ndarray:
        grid = grid_of(model.config)
        values = jax.vmap(model.truth.log_density_fn)(jnp.asarray(grid.centres, jnp.float32))
        return normalise(np.asarray(values), grid)

    return model.program("truth on the grid", make)


def part_shares(model: Any, log_density: np.ndarray) -> np.ndarray:
    """Returns the masses of the data's parts, their modes or circles, under a log density."""
    grid = grid_of(model.config)
    return model.truth.shares(grid.centres, np.exp(normalise(log_density, grid)).ravel())


def share_distance(model: Any, shares: np.ndarray) -> float:
    """Returns the total variation of the parts' shares from the data's, in [0, 1]."""
    return 0.5 * float(np.sum(np.abs(shares - part_shares(model, truth_on_grid(model)))))


def density_numbers(model: Any, log_density: np.ndarray) -> dict[str, float]:
    """Returns divergences from the data's density; NaN if the learned one has mass beyond."""
    grid, truth = grid_of(model.config), truth_on_grid(model)
    share = border_mass(log_density, grid)
    names = ("density_tv", "density_kl", "density_share_tv")
    report = dict.fromkeys(names, math.nan) | {"border_mass": share, "is_normalisable": 0.0}
    if share <= MAX_BORDER_MASS:
        learned = normalise(log_density, grid)
        report |= {
            "density_tv": total_variation(np.exp(truth), np.exp(learned), grid),
            "density_kl": kl_divergence(truth, learned, grid),
            "density_share_tv": share_distance(model, part_shares(model, learned)),
            "is_normalisable": 1.0,
        }
    return report


def sample_numbers(model: Any, samples: np.ndarray) -> dict[str, float]:
    """Returns numbers of samples (n, 2), by their kernel density estimate."""
    grid, truth = grid_of(model.config), truth_on_grid(model)
    estimate = smooth_histogram(samples, grid, model.config.evals.density.bandwidth)
    inside = mass(estimate, grid)
    report = {
        "sample_tv": total_variation(np.exp(truth), estimate, grid),
        "sample_kl": math.nan,
        "sample_share_tv": share_distance(model, model.truth.shares(samples)),
        "outside": 1.0 - inside,
    }
    if inside > 0:
        with np.errstate(divide="ignore"):
            log_estimate = np.log(estimate / inside)
        report["sample_kl"] = kl_divergence(log_estimate, truth, grid)
    return report


def why_not_normalised(border_mass: float) -> str:
    """Returns why a density with so much of its mass at the border has no divergences."""
    share = f"{border_mass:.2g} of its mass on the grid at the grid's border"
    if border_mass == 1.0:
        share = "all of its mass at the grid's border, or values that are not finite"
    return (
        f"The learned density has {share}, so there is more beyond: no normalised density is "
        "reported. If it is bounded at all, --config.evals.density.half_width= can be larger."
    )


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
    del data, half_width, grid_points, bandwidth  # others read them, too: from the configuration
    chain_key, data_key = jax.random.split(key)
    learned, truth = learned_on_grid(model), truth_on_grid(model)
    ends = model.follow(chain_key, num_samples, model.config.sampler.num_steps)
    numbers = density_numbers(model, learned) | sample_numbers(model, ends)
    fresh = np.asarray(model.truth.draw(data_key, num_samples))
    is_normalisable = bool(numbers["is_normalisable"])
    shares = {
        "data": part_shares(model, truth).tolist(),
        "density": part_shares(model, learned).tolist() if is_normalisable else None,
        "chains": model.truth.shares(ends).tolist(),
    }
    notes = [] if is_normalisable else [why_not_normalised(numbers["border_mass"])]
    report = {**numbers, "perfect_sampler": sample_numbers(model, fresh)}
    report |= {"shares": shares, "notes": notes}
    arrays = {"log_density": learned, "truth": truth, "ends": ends}
    picture = {"density": partial(draw, arrays, numbers["sample_tv"], model.config)}
    return Found({"density": report}, numbers, arrays, pictures=picture, step_pictures=picture)


def check(model: Any, data: ImageData, *, half_width: float, **_: Any) -> None:
    """Refuses points of another space than the plane, and a grid that cuts off the data."""
    del data
    dimension = model.train.images.shape[1]
    if dimension != 2:
        raise ConfigError(
            "config.evals.density needs points in the plane, (N, 2), got points with "
            f"{dimension} coordinates: set --config.evals.density.every=never."
        )
    share = border_mass(truth_on_grid(model), grid_of(model.config))
    if share > MAX_BORDER_MASS:
        raise ConfigError(
            f"config.evals.density.half_width={half_width} leaves {share:.2g} of the data's own "
            f"mass at the border of the grid, more than {MAX_BORDER_MASS}. Widen it."
        )


def draw(arrays: Mapping[str, Any], sample_tv: float, config: Config, path: Path) -> None:
    """Draws data, model and chains side by side: densities above, their logarithms below."""
    truth, grid, bandwidth = arrays["truth"], grid_of(config), config.evals.density.bandwidth
    title, learned = describe_density(arrays["log_density"], grid, np.exp(truth))
    with np.errstate(divide="ignore"):
        chains = np.log(smooth_histogram(arrays["ends"], grid, bandwidth))
    columns = (
        ("data", truth),
        (f"model: {title}", learned),
        (f"chains: TV {sample_tv:.2f}", chains),
    )
    peak = float(truth.max())
    with figure(path, 2, len(columns), size=(1.9, 2.0)) as squares:
        for (title, log_density), (above, below) in zip(columns, squares.T, strict=True):
            above.set_title(title)
            tile(above, log_density, np.exp, (0.0, math.exp(peak)))
            tile(below, log_density, lambda v: np.maximum(v, FLOOR), (FLOOR, peak))
        for axes, name in zip(squares[:, 0], ("density", "log density"), strict=True):
            axes.set_ylabel(name)


def describe_density(
    log_density: np.ndarray, grid: Grid, truth: np.ndarray
) -> tuple[str, np.ndarray | None]:
    """Returns a learned density's caption, and its normalised logarithm or None."""
    if border_mass(log_density, grid) > MAX_BORDER_MASS:
        return "not normalisable", None
    learned = normalise(log_density, grid)
    return f"TV {total_variation(truth, np.exp(learned), grid):.2f}", learned


def tile(
    axes: Any,
    log_density: np.ndarray | None,
    shown: Callable[[np.ndarray], np.ndarray],
    limits: tuple[float, float],
    missing: str = "mass at\nthe border",
) -> None:
    """Draws one square of the panels; values beyond the limits have the limits' colours.

    Without a density, ``missing`` says why.
    """
    axes.set(xticks=[], yticks=[])
    if log_density is None:
        axes.text(0.5, 0.5, missing, ha="center", va="center")
        axes.set_aspect("equal")
        return
    axes.imshow(shown(log_density).T, origin="lower", vmin=limits[0], vmax=limits[1])
