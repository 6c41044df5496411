"""Preconditioned SGLD: rescaled coordinates, the metric's recursion, and its laws."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from monte_carlo import assert_mean, grid_moments, run_replicas, stationary_moments

from ebmjax import densities
from ebmjax.samplers import psgld, psgld_init, psgld_step, schedule, sgld

REPLICAS = 20_000
DAMPING = 1.0
GRID = np.linspace(-14.0, 3.5, 1201)


def test_frozen_metric_is_langevin_in_rescaled_coordinates():
    """With u = x / sqrt(G), the step is ULA on u -> f(sqrt(G) u): same key, same path."""
    second_moment = jnp.array([0.01, 1.0, 25.0])
    root = jnp.sqrt(1 / (0.1 + jnp.sqrt(second_moment)))
    target = densities.log_gamma(jnp.array([0.7, 1.5, 3.0])).log_density_fn
    with_metric = psgld(target, step_size=0.1, temperature=1.3, decay=1.0, damping=0.1)
    rescaled = sgld(lambda u: target(root * u), step_size=0.1, temperature=1.3)
    position = jnp.array([0.3, -0.4, 0.8])
    left = with_metric.init(position)._replace(second_moment=second_moment)
    right = rescaled.init(position / root)
    left_step, right_step = jax.jit(with_metric.step), jax.jit(rescaled.step)
    for key in jax.random.split(jax.random.key(0), 20):
        left, left_info = left_step(key, left)
        right, right_info = right_step(key, right)
    # 20 steps of float32 rounding; the dynamics contracts, so errors add up at most.
    np.testing.assert_allclose(left.position, root * right.position, atol=20 * 3e-6)
    np.testing.assert_allclose(left_info.acceptance_prob, right_info.acceptance_prob, atol=1e-3)
    np.testing.assert_array_equal(left.second_moment, second_moment)


def test_a_step_reports_the_mean_of_the_metric():
    """Scores are -1 and -3 at decay 0.75, so V is 1/4 and 9/4, and G is 1 / (0.5 + root)."""
    sampler = psgld(
        lambda x: -0.5 * jnp.sum(x["a"] ** 2) - 0.5 * jnp.sum(x["b"] ** 2),
        step_size=0.1,
        decay=0.75,
        damping=0.5,
    )
    state = sampler.init({"a": jnp.array([1.0, 1.0, 1.0]), "b": jnp.array([3.0])})
    _, info = jax.jit(sampler.step)(jax.random.key(0), state)
    np.testing.assert_allclose(info.preconditioner, (3 * 1.0 + 0.5) / 4, rtol=1e-6)


def test_second_moment_and_step_by_hand():
    """Without noise, in numpy: the metric of a step includes the score it moves along."""
    scores, decay, step_size = [], 0.6, 0.05
    target = densities.log_gamma(jnp.array([0.7, 3.0])).log_density_fn
    state = psgld_init(jnp.array([1.0, -1.0]), target)
    np.testing.assert_array_equal(state.second_moment, 0.0)
    for _ in range(3):
        before = state
        state, _ = psgld_step(
            jax.random.key(0),
            state,
            target,
            step_size=step_size,
            noise_scale=0.0,
            decay=decay,
            damping=0.2,
        )
        scores.append(np.asarray(before.score, np.float64))
        weights = (1 - decay) * decay ** np.arange(len(scores))[::-1]
        moment = weights @ np.square(scores)
        np.testing.assert_allclose(state.second_moment, moment, rtol=1e-5)
        moved = before.position + step_size * scores[-1] / (0.2 + np.sqrt(moment))
        np.testing.assert_allclose(state.position, moved, rtol=1e-5)


def test_curvature_drift_is_unbiased_for_a_correlated_density():
    """The random signs average to the diagonal of the Hessian, off-diagonal terms to zero."""
    precision = jnp.array([[2.0, 1.2], [1.2, 1.5]])

    def log_density_fn(x):
        return -0.5 * x @ precision @ x

    position, decay, step_size, temperature = jnp.array([0.7, -0.2]), 0.5, 0.1, 1.0
    state = psgld_init(position, log_density_fn)._replace(second_moment=jnp.array([0.5, 2.0]))

    def displacement(key, noise_scale=0.0):
        after, _ = psgld_step(
            key,
            state,
            log_density_fn,
            step_size=step_size,
            noise_scale=noise_scale,
            decay=decay,
            damping=DAMPING,
            curvature_drift=True,
        )
        return after.position - position

    score = -np.asarray(precision @ position, np.float64)
    moment = decay * np.array([0.5, 2.0]) + (1 - decay) * score**2
    metric = 1 / (DAMPING + np.sqrt(moment))
    slope = metric**2 * (1 - decay) * score * np.diag(precision) / np.sqrt(moment)
    keys = jax.random.split(jax.random.key(3), 4000)
    draws = np.asarray(jax.jit(jax.vmap(displacement))(keys))
    assert np.all(np.std(draws, axis=0) > 1e-4)
    assert_mean(draws, step_size * (metric * score + temperature * slope), allowance=1e-7)
    # The signs know nothing of the noise: a product of two of them is not that of two normals.
    # Noise of temperature 1, which the noise of 0 counts as too.
    noisy = partial(displacement, noise_scale=(2 * step_size) ** 0.5)
    noise = np.asarray(jax.jit(jax.vmap(noisy))(keys) - draws)
    products = (draws - draws.mean(axis=0)) / draws.std(axis=0) * noise[:, :1] * noise[:, 1:]
    assert_mean(products, 0.0)


def test_curvature_drift_where_the_score_vanishes():
    sampler = psgld(lambda x: -0.5 * x**2, step_size=0.1, decay=0.0, curvature_drift=True)
    state, _ = sampler.step(jax.random.key(0), sampler.init(jnp.float32(0.0)))
    assert np.isfinite(state.position)


def test_the_second_moment_of_a_bfloat16_chain_does_not_stall():
    """A constant score of 1 from V = 0.9: steps of 0.001 and below, less than bfloat16's 0.004."""
    sampler = psgld(jnp.sum, step_size=0.1, decay=0.99)
    state = sampler.init(jnp.zeros(1, jnp.bfloat16))
    state = state._replace(second_moment=jnp.full_like(state.second_moment, 0.9))
    step = jax.jit(sampler.step)
    for key in jax.random.split(jax.random.key(0), 100):
        state, _ = step(key, state)
    assert state.position.dtype == jnp.bfloat16
    # A hundred roundings of 2^-24.
    expected = 1 - 0.1 * 0.99**100
    np.testing.assert_allclose(state.second_moment, [expected], atol=100 * 2**-24)


CONCENTRATION, DAMPING, REPLICAS = 1.5, 0.1, 8000
TARGET = densities.log_gamma(jnp.array(CONCENTRATION)).log_density_fn
SCORE = CONCENTRATION - np.exp(GRID)
DENSITY = np.exp(CONCENTRATION * GRID - np.exp(GRID))
P = grid_moments(DENSITY, GRID)
P_OVER_G = grid_moments(DENSITY * (DAMPING + np.abs(SCORE)), GRID)


def draws(step_size, num_steps, **options):
    """Ends of chains whose starts are exact draws from p."""
    sampler = schedule(psgld)(TARGET, step_size=step_size, damping=DAMPING, **options)
    start_key, key = jax.random.split(jax.random.key(0))
    starts = jnp.log(jax.random.gamma(start_key, CONCENTRATION, (REPLICAS,)))
    return np.asarray(run_replicas(key, sampler, starts, num_steps)[0], np.float64)


@pytest.mark.slow
def test_the_default_memory_leaves_p_for_p_over_g():
    """A memory of 100 steps of 0.005, half a unit of time, lets the metric follow the chain."""
    ends = draws(0.005, 800, decay=0.99, curvature_drift=True)
    squares = (ends - ends.mean()) ** 2
    standard_error = squares.std() / REPLICAS**0.5
    assert P[1] + 5 * standard_error < squares.mean() < P_OVER_G[1] + 5 * standard_error


def frozen(step):
    """The default for 100 steps, then 1: the metric stays."""
    return optax.join_schedules(
        [optax.constant_schedule(0.99), optax.constant_schedule(1.0)], [100]
    )(step)


@pytest.mark.slow
@pytest.mark.parametrize(
    "decay", [frozen, pytest.param(lambda t: 1.0 - 1.0 / (t + 2.0), marks=pytest.mark.slow)]
)
def test_adaptation_that_ends_or_vanishes_samples_p(decay):
    """Moments within 5 standard errors, and the bias of the step, that of SGLD at eps G.

    The mean metric here is at most 1. At the constant decay of 0.99 these very steps put the
    variance at 1.165 (standard error 0.038, 4000 chains), where p has 0.935.
    """
    step_size = 0.01
    law = stationary_moments(lambda x: step_size * SCORE, lambda _: (2 * step_size) ** 0.5, GRID)
    ends = draws(step_size, 2000, decay=decay)
    bias = np.abs(np.subtract(law, P))
    assert_mean(ends, P[0], allowance=bias[0])
    assert_mean((ends - P[0]) ** 2, P[1], allowance=bias[1])
