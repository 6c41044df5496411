"""Measures how a learned density compensates for chains that do not follow it.

For runs of configs/toy_beta.py: --config.eval.functions='("literal/beta_bias.py:beta_bias",)'.
Source: robust-objective paper, appendix I and K.1; the fixed point is derived in docs/losses.md.
"""

import math
from typing import Any

import jax
import numpy as np

from ebmjax import samplers
from ebmjax.recipes.evaluators.points import grid as grids
from ebmjax.recipes.evaluators.points.density import on_grid
from ebmjax.recipes.evaluators.points.grid import Grid
from ebmjax.recipes.evaluators.points.plane import plane_of
from ebmjax.types import Key

# Rounding of float64 log densities is below this: a smaller spread counts as none.
ROUNDING = 1e-9


LONG, FIRST, EVERY = 3000, 2000, 100
"""Steps of a long chain, those left out, and those between two of its ten draws."""


def beta_bias(model: Any, points: np.ndarray, key: Key) -> dict[str, float]:
    """Returns the bias of one model: of chains that follow it, training's, and long ones.

    "negative_tv" is the distance from the data of training's chains, which follow ``1 - beta`` of
    the log density. "reweighted_tv" is ``distance_after_weighting``. "long_tv" is the distance of
    long chains from the learned density, "exact_tv" that of as many independent draws. The others
    come from ``compensation``. Numbers of the density are NaN if the grid cannot normalise it.
    ``model`` is a ``models.energy.points.PointsModel`` of the plane; test ``points`` are not used.
    """
    plane, section = plane_of(model), model.config
    num, num_steps = section.eval.density.num_samples, section.sampler.num_steps
    keys = jax.random.split(key, 4)
    learned = on_grid(model, plane.grid)
    followed = model.follow(keys[0], num, num_steps)
    beta = section.loss.beta
    estimate = plane.estimate(model.follow(keys[1], num, num_steps, beta=beta))
    numbers = {
        "bias_slope": math.nan,
        "bias_correlation": math.nan,
        "negative_tv": plane.distance(estimate),
        "reweighted_tv": distance_after_weighting(
            learned, plane.log_density, negatives=estimate, beta=beta, grid=plane.grid
        ),
        "long_tv": math.nan,
        "exact_tv": math.nan,
    }
    if grids.border_mass(learned, plane.grid) > grids.MAX_BORDER_MASS:
        return numbers
    learned = grids.normalise(learned, plane.grid)
    data = grids.smooth(np.exp(plane.log_density), plane.grid, plane.bandwidth)
    draws = long_chains(model, keys[2], num)
    exact = plane.draw(keys[3], learned, len(draws))
    return {
        **numbers,
        **compensation(learned, plane.log_density, chains=plane.estimate(followed), data=data),
        "long_tv": plane.distance(plane.estimate(draws), learned),
        "exact_tv": plane.distance(plane.estimate(exact), learned),
    }


beta_bias.every = "end"  # long chains would take longer than the training


def long_chains(model: Any, key: Key, num: int) -> np.ndarray:
    """Returns about ``num`` draws (draws, 2) of Langevin chains with training's starts and noise.

    Every chain gives ten, from steps 2,100 to 3,000; all chains' first draws come first.
    """
    start_key, chain_key = jax.random.split(key)
    num_chains, step_size = -(-num // 10), 1 / model.config.loss.output_scale

    def make() -> Any:
        @jax.jit
        def run(start_key: Key, chain_key: Key, params: Any) -> jax.Array:
            keys = jax.random.split(start_key, num_chains)
            starts = jax.vmap(model.plan.start_fn, (0, None))(keys, 0)
            sampler = samplers.sgld(model.log_density_of(params), step_size=step_size)
            state = samplers.start_chains(chain_key, sampler, starts)
            step = samplers.batch_step(sampler.step)
            options: Any = {"burn_in": FIRST, "thinning": EVERY}
            return samplers.run_chain(chain_key, state, step, LONG, **options)[1]

        return run

    draws = model.program(("long chains", num), make)(start_key, chain_key, model.params)
    return np.asarray(draws).swapaxes(0, 1).reshape(-1, 2)


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


def distance_after_weighting(
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
    product = grids.normalise(product, grid)
    return grids.total_variation(np.exp(truth), np.exp(product), grid)
