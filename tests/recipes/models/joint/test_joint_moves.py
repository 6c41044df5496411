"""The moves of a joint model's chains: what the numbers of a configuration mean."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import change

from ebmjax.recipes.models.energy.checks import find_samplers
from ebmjax.recipes.parts.samplers import bind_sampler as bind
from experiments.configs import jem_digits

LITERAL = "literal/mala.py:literal_mala"


def bound(name, density, **overrides):
    fields = {"sampler.name": name, "sampler.box": "none"} | overrides
    config = change(jem_digits.get_config("smoke"), fields)
    (sampler,) = find_samplers(config).values()
    return bind(sampler, config.sampler, (2, 1, 1))(density)


def test_literal_mala_that_does_not_reject_is_sgld_with_its_ratio():
    """Down a bowl whose energy is positive everywhere, the ratio of energies is below 1."""
    density = lambda x: -2.0 - 0.1 * jnp.sum(x**2)  # noqa: E731
    start = jnp.array([0.3, -0.2])
    chain = bound(LITERAL, density, **{"sampler.options.rejects": False})
    sure = bound(LITERAL, density)
    state = chain.init(start)
    for key in jax.random.split(jax.random.key(0), 20):
        moved, info = chain.step(key, state)
        expected = sure.step(key, state)[1]
        assert info.acceptance_prob == expected.acceptance_prob < 1
        assert info.is_accepted
        noise = jax.random.normal(jax.random.split(key)[0], (2,))
        np.testing.assert_allclose(moved.position, 0.8 * start + 0.01 * noise, atol=1e-6)


@pytest.mark.parametrize("name", ["sgld", "proximal_sgld", "psgld"])
def test_sgld_reports_the_acceptance_at_the_temperature_that_its_section_implies(name):
    """Computes by hand, from two scores; the metric of pSGLD is held where it was."""
    section = jem_digits.get_config().sampler[name]
    step_size, noise_scale = section.step_size, 0.02
    temperature = noise_scale**2 / (2 * step_size)
    variance = 10.0
    overrides = {f"sampler.{name}.noise_scale": noise_scale}
    chain = bound(name, lambda x: -0.5 * jnp.sum(x**2) / variance, **overrides)
    state = chain.init(jnp.array([0.01, -0.02]))
    moved, info = chain.step(jax.random.key(1), state)
    metric = 1.0
    if name == "psgld":
        metric = 1 / (section.damping + np.sqrt(moved.second_moment))
    rise = np.sum(np.square(moved.position) - np.square(state.position)) / (2 * variance)
    noise = moved.position - state.position - step_size * metric * state.score
    back = state.position - moved.position - step_size * metric * moved.score
    log_proposals = -np.sum(np.square(back) - np.square(noise)) / (2 * noise_scale**2)
    expected = np.exp(min(0.0, -rise / temperature + log_proposals))
    assert 0.1 < expected < 0.99
    # Roundings of squares of order 1e-3 in units of the noise's variance, 4e-4.
    np.testing.assert_allclose(info.acceptance_prob, expected, rtol=1e-4)
