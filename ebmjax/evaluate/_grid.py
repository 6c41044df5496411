"""Densities of points in the plane, on a grid."""

import math
from typing import NamedTuple

import jax
import numpy as np
from scipy import ndimage, special

from ebmjax.types import Key


class Grid(NamedTuple):
    """Square [-half_width, half_width]^2 in num x num cells; arrays on it are [x, y].

    A density on it holds the value at each cell's centre, (num, num).

    Attributes:
      half_width: half the width of the square, in units of the position.
      num: cells along an axis.

    Example:
      >>> grid = Grid(half_width=6.0, num=100)
      >>> first, second = (-0.5 * np.sum((grid.centres - x) ** 2, axis=1) for x in (0.0, 0.5))
      >>> first, second = grid.normalise(first), grid.normalise(second)
      >>> round(grid.kl_divergence(first, second), 4)
      0.25
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

    def normalise(self, log_density: np.ndarray) -> np.ndarray:
        """Returns ``log_density``, one value a cell, plus the constant that gives it mass 1."""
        values = np.asarray(log_density, np.float64).reshape(self.num, self.num)
        return values - special.logsumexp(values) - 2 * math.log(self.width)

    def mass(self, density: np.ndarray) -> float:
        """Returns the integral of ``density`` over the grid."""
        return float(np.sum(density)) * self.width**2

    def border_mass(self, log_density: np.ndarray) -> float:
        """Returns the share of mass in a frame of 5 % of the side; 1 if values are not finite.

        If it is not small, there is more mass beyond and the density cannot be normalised on this
        grid. Far from the data, an energy network grows or falls linearly.
        """
        if not np.all(np.isfinite(log_density)):
            return 1.0
        frame = max(1, round(0.05 * self.num))
        inner = np.exp(self.normalise(log_density))[frame:-frame, frame:-frame]
        return max(0.0, 1.0 - self.mass(inner))

    def total_variation(self, first: np.ndarray, second: np.ndarray) -> float:
        """Returns half the integral of the absolute difference of densities, in [0, 1].

        Mass missing on the grid lies outside, where the other density is taken as 0.
        """
        outside = (1 - self.mass(first)) + (1 - self.mass(second))
        return 0.5 * (self.mass(np.abs(first - second)) + outside)

    def kl_divergence(self, log_first: np.ndarray, log_second: np.ndarray) -> float:
        """Returns KL(first || second) in nats of normalised log densities; -inf means no mass."""
        present = log_first > -np.inf
        difference = log_first[present] - log_second[present]
        return self.mass(np.exp(log_first[present]) * difference)

    def histogram(self, points: np.ndarray, bandwidth: float) -> np.ndarray:
        """Returns the density of ``points`` (n, 2): counts in cells, spread by ``smooth``.

        Points outside the grid, or not finite, count in n and leave mass missing.
        """
        finite = points[np.all(np.isfinite(points), axis=1)].astype(np.float64)
        ends = (-self.half_width, self.half_width)
        counts = np.histogram2d(*finite.T, bins=self.num, range=(ends, ends))[0]
        return self.smooth(counts / (len(points) * self.width**2), bandwidth)

    def smooth(self, density: np.ndarray, bandwidth: float) -> np.ndarray:
        """Spreads ``density`` (num, num) by a Gaussian kernel; it is 0 beyond the grid.

        ``bandwidth`` is the kernel's deviation in units of the position. Cells should be narrower.
        """
        return ndimage.gaussian_filter(density, bandwidth / self.width, mode="constant")

    def draw(self, key: Key, log_density: np.ndarray, num: int) -> np.ndarray:
        """Returns ``num`` independent draws (num, 2) of a density that is constant in each cell.

        ``log_density`` (num, num) is up to a constant, because exponentials may underflow.
        """
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        shares = special.softmax(log_density.ravel())
        cells = rng.choice(len(shares), size=num, p=shares)
        return self.centres[cells] + self.width * rng.uniform(-0.5, 0.5, (num, 2))
