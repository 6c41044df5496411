"""Acceptance rates of chains, ours and BlackJAX's."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import metrics, samplers


def log_density_fn(x):
    return -0.5 * jnp.sum(x**2)


def test_each_chain_has_its_own_rate():
    sampler = samplers.mala(log_density_fn, step_size=1.0)
    states = jax.vmap(sampler.init)(jnp.zeros((5, 3)))
    step = samplers.batch_step(sampler.step)
    _, _, infos = samplers.run_chain(jax.random.key(0), states, step, 400)
    rates = jax.jit(metrics.acceptance_rate)(infos)
    expected = np.asarray(infos.acceptance_prob, np.float64).mean(axis=1)
    # A float32 sum of 400 terms below 1: at most 400 roundings of 2^-24, relative.
    np.testing.assert_allclose(rates, expected, rtol=400 * 2.0**-24)
    # Decisions average to the probabilities: 5 standard errors of 400 coin tosses.
    decided = np.asarray(infos.is_accepted).mean(axis=1)
    assert np.all(np.abs(decided - rates) < 5 * 0.5 / np.sqrt(400))


def test_blackjax_infos_are_read():
    kernel = blackjax.hmc(
        log_density_fn, step_size=0.5, inverse_mass_matrix=jnp.ones(2), num_integration_steps=3
    )
    state = kernel.init(jnp.zeros(2))
    _, _, infos = samplers.run_chain(jax.random.key(1), state, kernel.step, 50)
    assert metrics.acceptance_rate(infos) == jnp.mean(infos.acceptance_rate)


def test_infos_without_acceptance_are_refused():
    with pytest.raises(ValueError, match="infos must report acceptance_prob"):
        metrics.acceptance_rate(samplers.GradientDescentInfo(jnp.zeros(3)))
    with pytest.raises(ValueError, match="at least one draw"):
        metrics.acceptance_rate(samplers.LangevinInfo(jnp.ones(()), jnp.ones(()), jnp.ones(())))
