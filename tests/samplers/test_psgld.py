"""Preconditioned SGLD: rescaled coordinates, the metric's recursion."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import assert_moments, run_replicas, stationary_moments

from ebmjax import densities
from ebmjax.samplers import psgld, psgld_init, psgld_step, sgld

REPLICAS = 20_000
DAMPING, CONCENTRATION = 1.0, 1.5
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


@pytest.mark.slow
def test_frozen_metric_on_a_gaussian():
    """Exact noise: v T / (1 - eps G / 2v). Image form: sigma^2 / (1 - (1 - eps G / v)^2)."""
    variance, step_size, temperature = np.array([0.6, 1.0]), 0.8, 0.8
    second_moment = jnp.array([0.04, 4.0])
    metric = 1 / (DAMPING + np.sqrt(np.array([0.04, 4.0])))

    def log_density_fn(x):
        return -0.5 * jnp.sum(x**2 / jnp.asarray(variance, jnp.float32))

    def run(noise_scale):
        def init(position, _=None):
            return psgld_init(position, log_density_fn)._replace(second_moment=second_moment)

        sampler = psgld(
            log_density_fn,
            step_size=step_size,
            noise_scale=noise_scale,
            temperature=temperature if noise_scale is None else None,
            decay=1.0,
            damping=DAMPING,
        )._replace(init=init)
        # The slower coordinate keeps 1 - eps G / v = 0.73 a step: 40 steps leave 4e-6.
        return run_replicas(jax.random.key(1), sampler, jnp.zeros((REPLICAS, 2)), 40)[0]

    rate = step_size * metric / variance
    assert_moments(run(None), 0.0, variance * temperature / (1 - rate / 2))
    assert_moments(run(0.3), 0.0, 0.3**2 / (1 - (1 - rate) ** 2))


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


def metric(x):
    """G = 1 / (damping + |s|) of the memoryless metric (decay 0)."""
    return 1 / (DAMPING + np.abs(CONCENTRATION - np.exp(x)))


@pytest.mark.slow
def test_law_of_the_memoryless_metric():
    """At decay 0 the chain is Markov in x alone and quadrature gives its law at this very step."""
    step_size, temperature = 0.25, 2.0
    target = densities.log_gamma(jnp.array(CONCENTRATION)).log_density_fn
    sampler = psgld(
        target, step_size=step_size, temperature=temperature, decay=0.0, damping=DAMPING
    )
    expected = stationary_moments(
        lambda x: step_size * metric(x) * (CONCENTRATION - np.exp(x)),
        lambda x: np.sqrt(2 * step_size * temperature * metric(x)),
        GRID,
    )
    # In the left tail G = 1/2.5, so the gap c^2 G / 4 T = 0.11 a unit of time: 320 steps of 0.25
    # leave e^-9.
    draws, _ = run_replicas(jax.random.key(2), sampler, jnp.zeros(REPLICAS), 320)
    assert_moments(draws, *expected)


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
