"""Measures how a learned density compensates for chains that do not follow it.

For runs of configs/toy_beta.py: --config.evals.functions='("literal/beta_bias.py:beta_bias",)'.
Source: robust-objective paper, appendix I and K.1; the fixed point is derived in docs/losses.md.
"""

import math
from typing import Any

import jax
import numpy as np

from ebmjax.evaluate import Grid
from ebmjax.recipes.evaluators import density as grids
from ebmjax.types import Key

# Rounding of float64 log densities is below this: a smaller spread counts as none.
ROUNDING = 1e-9


def beta_bias(key: Key, model: Any, data: Any) -> dict[str, float]:
    """Returns the bias of one model: of chains that follow it, and of training's.

    "negative_tv" is the distance from the data of training's chains, which follow ``1 - beta`` of
    the log density. "reweighted_tv" is ``distance_after_weighting``. The others come from
    ``compensation``. Numbers of the density are NaN if the grid cannot normalise it.
    """
    grid, section = grids.grid_of(model.config), model.config
    settings, num_steps = section.evals.density, section.sampler.num_steps
    keys = jax.random.split(key)
    learned, truth = grids.learned_on_grid(model), grids.truth_on_grid(model)

    def estimate(key: Key, beta: float) -> np.ndarray:
        ends = model.fresh_chains(key, settings.num_samples, num_steps, scale=1 - beta).ends
        return grid.histogram(ends, settings.bandwidth)

    beta = section.loss.beta
    chains, negatives = estimate(keys[0], 0.0), estimate(keys[1], beta)
    numbers = {
        "bias_slope": math.nan,
        "bias_correlation": math.nan,
        "negative_tv": grid.total_variation(np.exp(truth), negatives),
        "reweighted_tv": distance_after_weighting(
            learned, truth, negatives=negatives, beta=beta, grid=grid
        ),
    }
    if grid.border_mass(learned) > grids.MAX_BORDER_MASS:
        return numbers
    data = grid.smooth(np.exp(truth), settings.bandwidth)
    learned = grid.normalise(learned)
    return numbers | compensation(learned, truth, chains=chains, data=data)


beta_bias.every = "end"


def compensation(
    log_density: np.ndarray, truth: np.ndarray, *, chains: np.ndarray, data: np.ndarray
) -> dict[str, float]:
    """Regresses ``log(density / truth)`` on ``log(chains / data)``, weighted by the data.

    "bias_slope" is the slope, 1 - 1 / beta in appendix I. "bias_correlation" is -1 if that line
    explains everything. The kernel flattens only the regressor: for laws about as wide as the
    data's components, the slope is too steep by the factor 1 + (bandwidth / scale)^2.

    ``chains`` is the density of the chains' ends by a kernel, ``data`` that of the data. Both
    numbers are NaN if there are no chains, or chains follow the data everywhere.
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


def distance_after_weighting(
    log_density: np.ndarray, truth: np.ndarray, *, negatives: np.ndarray, beta: float, grid: Grid
) -> float:
    """Returns the total variation between data and negatives weighted by ``density^beta``.

    It is 0 at the fixed point of the robust objective, for any sampler; NaN without negatives on
    the grid. The model's log density has any constant; ``truth`` is normalised.
    """
    if not (np.all(np.isfinite(log_density)) and np.any(negatives > 0)):
        return math.nan
    with np.errstate(divide="ignore"):
        product = np.log(negatives) + beta * np.asarray(log_density, np.float64)
    return grid.total_variation(np.exp(truth), np.exp(grid.normalise(product)))
