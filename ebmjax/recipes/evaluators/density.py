"""The learned density of points in the plane, and the ends of short chains, beside the data's."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np

from ebmjax._ranges import GRID, POSITIVE, TWO_OR_MORE
from ebmjax.data import ImageData
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.evaluators.found import Found
from ebmjax.recipes.evaluators.plane import (
    MAX_BORDER_MASS,
    Grid,
    border_mass,
    normalise,
    plane_of,
    smooth_histogram,
    total_variation,
)
from ebmjax.recipes.evaluators.plots import figure, shape
from ebmjax.recipes.folder.workdir import snapshots
from ebmjax.types import Key

FLOOR = -23.0
"""Lower log densities have one colour, as in the papers' panels."""
COLUMNS = 4


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
    del data, half_width, grid_points  # ``plane_of`` reads them
    plane = plane_of(model)
    chain_key, data_key = jax.random.split(key)
    learned = plane.on(model)
    ends = model.follow(chain_key, num_samples, model.config.sampler.num_steps)
    numbers = plane.density_numbers(learned) | plane.sample_numbers(ends)
    fresh = np.asarray(model.truth.draw(data_key, num_samples))
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
    picture = {"density": partial(draw, arrays, numbers["sample_tv"], plane.grid, bandwidth)}
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
    plane = plane_of(model)
    share = border_mass(plane.log_density, plane.grid)
    if share > MAX_BORDER_MASS:
        raise ConfigError(
            f"config.evals.density.half_width={half_width} leaves {share:.2g} of the data's own "
            f"mass at the border of the grid, more than {MAX_BORDER_MASS}. Widen it."
        )


def draw(
    arrays: Mapping[str, Any], sample_tv: float, grid: Grid, bandwidth: float, path: Path
) -> None:
    """Draws data, model and chains side by side: densities above, their logarithms below.

    Arrays are those of the evaluator; the bandwidth is of the chains' kernel estimate.
    """
    truth = arrays["truth"]
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


def over_training(workdir: Path, half_width: float) -> None:
    """Draws ``plots/density.png``: the learned energy at each monitored step that kept it."""
    kept = []
    for file in snapshots(workdir):
        with np.load(file) as arrays:
            if "log_density" in arrays.files:
                kept.append((int(file.stem), arrays["log_density"]))
    if not kept:
        return
    path = workdir / "plots" / "density.png"
    with figure(path, *shape(len(kept), COLUMNS), size=(2.4, 2.7)) as grid:
        for axes, (step, log_density) in zip(grid.flat, kept, strict=False):
            energy_map(axes, log_density, half_width)
            axes.set_title(f"step {step}")


def energy_map(axes: Any, log_density: np.ndarray, half_width: float) -> None:
    """Draws the learned energy, low blue and high red as in the thesis."""
    energy = log_density.max() - log_density.T
    extent = (-half_width, half_width, -half_width, half_width)
    axes.imshow(energy, origin="lower", extent=extent, cmap="coolwarm", alpha=0.75)
    axes.set(xticks=[], yticks=[], xlim=extent[:2], ylim=extent[2:])
