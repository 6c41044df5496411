"""Yardsticks for random samplers: standard errors, independent replicas, exact laws on a grid."""

from functools import partial

import jax
import numpy as np

from ebmjax.samplers import batch_step, position_of

RUNS_LONG = {"xla_backend_optimization_level": 1}
"""Options of ``jax.jit`` for programs that run longer than they compile."""


def assert_mean(draws, expected, allowance=0.0):
    """The mean of independent ``draws`` (axis 0) lies within 5 standard errors of ``expected``.

    A right sampler fails with probability 6e-7 a number. ``allowance`` adds a bias that the
    caller has derived.
    """
    draws = np.asarray(draws, np.float64)
    assert np.all(np.isfinite(draws))
    standard_error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    gap = np.abs(draws.mean(axis=0) - np.asarray(expected, np.float64))
    assert np.all(gap <= 5.0 * standard_error + allowance), (gap / standard_error, gap)


def assert_moments(draws, mean, variance):
    """Mean and variance, each within 5 of its own standard errors."""
    draws = np.asarray(draws, np.float64)
    assert_mean(draws, mean)
    assert_mean((draws - np.asarray(mean, np.float64)) ** 2, variance)


def run_replicas(key, sampler, positions, num_steps):
    """Final positions of independent chains, and the infos of their last step."""
    step = batch_step(sampler.step)

    @partial(jax.jit, compiler_options=RUNS_LONG)
    def run(key, positions):
        keys = jax.random.split(key, num_steps)
        states = jax.vmap(sampler.init)(positions)
        states, _ = jax.lax.scan(lambda s, k: (step(k, s)[0], None), states, keys[:-1])
        states, infos = step(keys[-1], states)
        return position_of(states), infos

    return run(key, positions)


def stationary_moments(drift, scale, grid):
    """Mean and variance of the law that ``x' = x + drift(x) + scale(x) xi`` leaves invariant.

    One coordinate, by quadrature: the transition density on an even grid, whose sums converge
    geometrically once the spacing is below the scale.
    """
    scales = np.broadcast_to(scale(grid), grid.shape)
    assert np.diff(grid).max() < scales.min()
    means = grid + drift(grid)
    matrix = np.exp(-0.5 * ((grid[None, :] - means[:, None]) / scales[:, None]) ** 2)
    matrix /= matrix.sum(axis=1, keepdims=True)
    # The left eigenvector of eigenvalue 1, with "sums to one" in place of a redundant row.
    system = matrix.T - np.eye(len(grid))
    system[-1] = 1.0
    law = np.linalg.solve(system, np.eye(len(grid))[-1])
    return grid_moments(law, grid)


def grid_moments(density, grid):
    """Mean and variance of an unnormalised density on an even grid."""
    density = density / density.sum()
    mean = float(density @ grid)
    return mean, float(density @ (grid - mean) ** 2)
