"""Hamiltonian Monte Carlo: MALA with one leapfrog move, the law with several, their reach."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ebmjax import samplers
from ebmjax.samplers import batch_step, run_chain, start_chains


def skewed(x):
    return jnp.sum(1.5 * x["a"] - jnp.exp(x["a"])) - 0.5 * jnp.sum(x["b"] ** 2)


START = {"a": jnp.array([0.3, -0.2]), "b": jnp.float32(0.5)}


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_one_leapfrog_move_is_mala(temperature):
    """The same keys draw the same noise and coins."""
    options = {"step_size": {"a": jnp.array([0.1, 0.4]), "b": 0.2}, "temperature": temperature}
    keys = jax.random.split(jax.random.key(0), 20)
    chains = []
    for make in (samplers.mala, partial(samplers.hmc, num_integration_steps=1)):
        sampler = make(skewed, **options)
        chains.append(jax.lax.scan(lambda s, k, f=sampler.step: f(k, s), sampler.init(START), keys))
    (state, info), (ours, report) = chains
    np.testing.assert_allclose(report.acceptance_prob, info.acceptance_prob, rtol=1e-4)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4), ours, state)


def test_the_law_with_several_moves():
    """Mean and variance of log Gamma(1.5) draws, within 5 standard errors of independent chains."""
    sampler = samplers.hmc(lambda x: 1.5 * x - jnp.exp(x), step_size=0.5, num_integration_steps=3)
    states = start_chains(jax.random.key(0), sampler, jnp.zeros(20_000))
    states, _, _ = run_chain(jax.random.key(1), states, batch_step(sampler.step), 40, thinning=40)
    draws = np.asarray(states.position, np.float64)
    mean, variance = 0.03648997, 0.93480220  # digamma(1.5) and trigamma(1.5)
    error = np.sqrt(variance / draws.size)
    assert abs(draws.mean() - mean) < 5 * error
    squares = (draws - mean) ** 2
    assert abs(squares.mean() - variance) < 5 * squares.std() / np.sqrt(draws.size)


def test_a_trajectory_follows_the_exact_motion():
    """On N(0, 1) a velocity turns the position like a clock: after a quarter turn it is v.

    Leapfrog moves err by pi / 2 h^2 / 24 in the phase and by h^2 / 8 of the velocity in height.
    """
    num = 20
    h = np.pi / 2 / num
    sampler = samplers.hmc(lambda x: -0.5 * x**2, step_size=0.5 * h**2, num_integration_steps=num)
    starts = sampler.init(jnp.float32(3.0))
    keys = jax.random.split(jax.random.key(0), 10)
    states, infos = jax.vmap(sampler.step, in_axes=(0, None))(keys, starts)
    velocities = jax.vmap(
        lambda key: optax.tree.random_like(jax.random.split(key)[0], jnp.float32(0))
    )(keys)
    assert infos.is_accepted.all()
    errors = np.abs(states.position - velocities)
    assert np.all(errors < 1.05 * h**2 * (3.0 * np.pi / 48 + np.abs(velocities) / 8) + 1e-5)
