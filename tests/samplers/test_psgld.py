"""Preconditioned SGLD: rescaled coordinates, the metric's recursion, the curvature drift's law."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import assert_mean, assert_moments, grid_moments, run_replicas, stationary_moments

from ebmjax import densities
from ebmjax.samplers import psgld, psgld_init, psgld_step, sgld

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


def terms(concentration):
    """G = 1 / (damping + |s|) and its slope, for the memoryless metric (decay 0)."""

    def metric(x):
        return 1 / (DAMPING + np.abs(concentration - np.exp(x)))

    def slope(x):
        return metric(x) ** 2 * np.sign(concentration - np.exp(x)) * np.exp(x)

    return metric, slope


@pytest.mark.slow
@pytest.mark.parametrize("curvature_drift", [False, True])
def test_law_of_the_memoryless_metric(curvature_drift):
    """At decay 0 the chain is Markov in x alone and quadrature gives its law at this very step."""
    concentration, step_size, temperature = 1.5, 0.25, 2.0
    target = densities.log_gamma(jnp.array(concentration)).log_density_fn
    sampler = psgld(
        target,
        step_size=step_size,
        temperature=temperature,
        decay=0.0,
        damping=DAMPING,
        curvature_drift=curvature_drift,
    )
    metric, slope = terms(concentration)
    weight = curvature_drift * temperature
    expected = stationary_moments(
        lambda x: step_size * (metric(x) * (concentration - np.exp(x)) + weight * slope(x)),
        lambda x: np.sqrt(2 * step_size * temperature * metric(x)),
        GRID,
    )
    # In the left tail G = 1/2.5, so the gap c^2 G / 4 T = 0.11 a unit of time: 320 steps of 0.25
    # leave e^-9.
    draws, _ = run_replicas(jax.random.key(2), sampler, jnp.zeros(REPLICAS), 320)
    assert_moments(draws, *expected)


def test_curvature_drift_makes_the_law_right():
    """The law tends to p as the step shrinks; without the drift it tends to p / G."""
    concentration = 1.5
    metric, slope = terms(concentration)
    density = np.exp(concentration * GRID - np.exp(GRID))
    limits = {True: grid_moments(density, GRID), False: grid_moments(density / metric(GRID), GRID)}
    assert abs(limits[True][0] - limits[False][0]) > 0.05
    for has_drift, limit in limits.items():

        def gap(step_size, has_drift=has_drift, limit=limit):
            law = stationary_moments(
                lambda x: (
                    step_size * (metric(x) * (concentration - np.exp(x)) + has_drift * slope(x))
                ),
                lambda x: np.sqrt(2 * step_size * metric(x)),
                GRID,
            )
            return np.abs(np.subtract(law, limit)).max()

        assert gap(0.01) < 0.35 * gap(0.04)
        assert gap(0.01) < 0.02


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
