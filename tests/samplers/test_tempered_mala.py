"""Tempered MALA: the temperature's recursion, and its step at a temperature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import samplers

CONCENTRATION = 1.5


def skewed(x):
    return jnp.sum(CONCENTRATION * x - jnp.exp(x))


@pytest.mark.parametrize("decay", [0.0, 0.8])
def test_temperature_follows_the_documented_recursion(decay):
    """A' = d A + (1 - d) a; where A' <= u, T grows tenfold and A starts again at 1."""
    threshold, growth = 0.6, 10.0
    sampler = samplers.tempered_mala(
        # At T = 1 a step of this size is hopeless, so the temperature must rise.
        lambda x: -0.5 * jnp.sum(x**2) / 0.01,
        step_size=0.3,
        acceptance_threshold=threshold,
        temperature_growth=growth,
        acceptance_decay=decay,
    )
    state = sampler.init(jnp.full(3, 0.1))
    _, _, infos = samplers.run_chain(jax.random.key(0), state, sampler.step, 60)
    temperature, running = 1.0, 1.0
    rises = 0
    for reported, probability in zip(infos.temperature, infos.acceptance_prob, strict=True):
        np.testing.assert_allclose(reported, temperature, rtol=1e-6)
        running = decay * running + (1 - decay) * float(probability)
        if running < threshold:
            temperature, running, rises = temperature * growth, 1.0, rises + 1
    assert rises >= 2
    assert np.mean(infos.acceptance_prob[-20:]) > threshold  # and the rises were worth it


def test_a_step_is_a_mala_step_at_the_temperature_of_the_state():
    """Drift eps / T and noise sqrt(2 eps): the Langevin move of the density p^(1/T)."""
    temperature, step_size = 7.0, 0.4
    state = samplers.tempered_mala_init(jnp.array([0.2, -0.7]), skewed, temperature=temperature)
    key = jax.random.key(1)
    after, info = samplers.tempered_mala_step(key, state, skewed, step_size=step_size)
    expected, expected_info = samplers.mala_step(
        key,
        samplers.LangevinState(state.position, state.log_density, state.score),
        skewed,
        step_size=step_size / temperature,
        temperature=temperature,
    )
    # The two ways to write the step round differently: a few float32 units.
    np.testing.assert_allclose(after.position, expected.position, rtol=1e-6)
    np.testing.assert_allclose(info.acceptance_prob, expected_info.acceptance_prob, rtol=1e-5)
    # Log density and score in the state are those of the density itself, not tempered.
    np.testing.assert_allclose(after.log_density, skewed(after.position), rtol=1e-6)
    assert info.temperature == temperature


def test_a_slow_average_moves_in_bfloat16():
    """Moves that are never accepted raise T after log(0.5) / log(0.998) = 346 steps."""
    sampler = samplers.tempered_mala(
        lambda x: -0.5e6 * jnp.sum(x**2), step_size=1.0, noise_scale=0.0, acceptance_decay=0.998
    )
    state = sampler.init(jnp.full(2, 1.0, jnp.bfloat16))
    assert {state.temperature.dtype, state.running_acceptance.dtype} == {jnp.dtype(jnp.float32)}
    state, _, _ = samplers.run_chain(jax.random.key(0), state, sampler.step, 350)
    assert float(state.temperature) == 10.0
