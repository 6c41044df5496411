"""Normalises, compares and estimates densities on a square grid of the plane, in float64."""

import math
from dataclasses import dataclass

import numpy as np
from scipy import ndimage, special

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


def grid_draws(
    rng: np.random.Generator, log_density: np.ndarray, *, grid: Grid, num: int
) -> np.ndarray:
    """Returns ``num`` independent draws (num, 2) of a density that is constant in each cell.

    ``log_density`` (num, num) is up to a constant, because exponentials may underflow.
    """
    shares = special.softmax(log_density.ravel())
    cells = rng.choice(len(shares), size=num, p=shares)
    return grid.centres[cells] + grid.width * rng.uniform(-0.5, 0.5, (num, 2))
