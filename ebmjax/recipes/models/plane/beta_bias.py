"""Measures how a learned density compensates for chains that do not follow it.

Source: robust-objective paper, appendix I and K.1; the fixed point is derived in docs/losses.md.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ebmjax.recipes.models.plane import grid as plane_grid
from ebmjax.recipes.models.plane.grid import Grid

# Rounding of float64 log densities is below this: a smaller spread counts as none.
ROUNDING = 1e-9


def compensation(
    log_density: np.ndarray, truth: np.ndarray, *, chains: np.ndarray, data: np.ndarray
) -> dict[str, float]:
    """Regresses ``log(density / truth)`` on ``log(chains / data)``, weighted by the data.

    "bias_slope" is the slope, 1 - 1 / beta in appendix I. "bias_correlation" is -1 if that line
    explains everything. The kernel flattens only the regressor: for laws about as wide as the
    data's components, the slope is too steep by the factor 1 + (bandwidth / scale)^2.

    Args:
      log_density, truth: normalised log densities on the grid.
      chains: density of the chains' ends by a kernel. Cells where it is 0 are left out.
      data: density of the data, spread by the same kernel.

    Returns:
      Both numbers. They are NaN if there are no chains, or chains follow the data everywhere; the
      correlation also if the density is the truth.
    """
    present = (chains > 0) & (data > 0)
    weights = np.exp(truth[present])
    weights = weights / max(np.sum(weights), np.finfo(np.float64).tiny)
    bias, answer = np.log(chains[present] / data[present]), (log_density - truth)[present]
    centred_bias, centred_answer = (x - np.sum(weights * x) for x in (bias, answer))
    spread, of_answer = (math.sqrt(np.sum(weights * x**2)) for x in (centred_bias, centred_answer))
    covariance = float(np.sum(weights * centred_bias * centred_answer))
    return {
        "bias_slope": covariance / spread**2 if spread > ROUNDING else math.nan,
        "bias_correlation": covariance / (spread * of_answer)
        if min(spread, of_answer) > ROUNDING
        else math.nan,
    }


def reweighted_distance(
    log_density: np.ndarray, truth: np.ndarray, *, negatives: np.ndarray, beta: float, grid: Grid
) -> float:
    """Returns the total variation between data and negatives weighted by ``density^beta``.

    It is 0 at the fixed point of the robust objective, for any sampler; NaN without negatives on
    the grid.

    Args:
      log_density: the model's on the grid, up to a constant.
      truth: normalised log density of the data.
      negatives: their kernel density; mass beyond the grid does not count.
      beta: training's.
      grid: grid of all three.
    """
    if not (np.all(np.isfinite(log_density)) and np.any(negatives > 0)):
        return math.nan
    with np.errstate(divide="ignore"):
        product = np.log(negatives) + beta * np.asarray(log_density, np.float64)
    product = plane_grid.normalised(product, grid)
    return plane_grid.total_variation(np.exp(truth), np.exp(product), grid)


class Parts(NamedTuple):
    """Parts of the plane: the positions nearest to a mode, or to a circle.

    Attributes:
      num: number of parts.
      nearest: function from positions (n, 2) to their parts (n,), from 0.
    """

    num: int
    nearest: Callable[[np.ndarray], np.ndarray]

    def shares(self, positions: np.ndarray, masses: np.ndarray | None = None) -> np.ndarray:
        """Returns (num,): shares of the mass of the finite ``positions`` (n, 2); NaN without any.

        ``masses`` (n,) are equal unless given.
        """
        finite = np.all(np.isfinite(positions), axis=1)
        weights = None if masses is None else masses[finite]
        totals = np.bincount(self.nearest(positions[finite]), weights, minlength=self.num)
        with np.errstate(invalid="ignore"):
            return totals / np.sum(totals)
