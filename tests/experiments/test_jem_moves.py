"""The moves of a joint model's chains: what the numbers of a configuration mean."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.configs import jem_digits
from experiments.jem_samplers import sampler
from experiments.literal_mala import literal_mala


def bound(name, density, **overrides):
    config = jem_digits.get_config("smoke")
    config.update_from_flattened_dict({"sampler.name": name, "sampler.box": "none"} | overrides)
    return sampler(config, (2, 1, 1))(density)


def moves(chain, start, count=4000):
    """Positions (count, ...) after one step from ``start`` with as many keys."""
    state = chain.init(start)
    keys = jax.random.split(jax.random.key(0), count)
    return np.asarray(jax.vmap(lambda key: chain.step(key, state)[0].position)(keys))


@pytest.mark.parametrize("name", ["mala", "tempered_mala"])
def test_the_first_proposal_is_a_langevin_move_of_the_section(name):
    """On a slope nothing is rejected: drift step times slope, noise sqrt(2 step T)."""
    section = jem_digits.get_config().sampler[name]
    ends = moves(bound(name, lambda x: 0.01 * jnp.sum(x)), jnp.zeros(2))
    noise = (2 * section.step_size * section.temperature) ** 0.5
    # Means and deviations of 8000 Gaussians, to 5 standard errors.
    assert np.mean(ends) == pytest.approx(0.01 * section.step_size, abs=5 * noise / 8000**0.5)
    assert np.std(ends) == pytest.approx(noise, rel=5 / 16000**0.5)


def test_the_first_proposal_of_tempered_mala_is_that_of_mala():
    density = lambda x: -0.1 * jnp.sum(x**2)  # noqa: E731
    start = jnp.array([0.3, -0.2])
    np.testing.assert_allclose(
        moves(bound("tempered_mala", density), start, 20),
        moves(bound("mala", density), start, 20),
        rtol=1e-5,
    )


def test_literal_mala_has_the_step_the_noise_and_the_ratio_of_its_section():
    density = lambda x: -2.0 - 0.1 * jnp.sum(x**2)  # noqa: E731
    start = jnp.array([0.3, -0.2])
    section = jem_digits.get_config().sampler.literal_mala
    expected = literal_mala(density, step_size=section.step_size, noise_scale=section.noise_scale)
    np.testing.assert_array_equal(
        moves(bound("literal_mala", density), start, 20), moves(expected, start, 20)
    )


@pytest.mark.parametrize(("decay", "num_rises"), [(0.0, 3), (0.9, 0)])
def test_tempered_mala_judges_by_the_running_acceptance_of_its_section(decay, num_rises):
    """Hopeless moves: judged one by one each raises T; averaged, seven would be needed."""
    overrides = {
        "sampler.tempered_mala.acceptance_decay": decay,
        "sampler.tempered_mala.temperature_growth": 2.0,
    }
    chain = bound("tempered_mala", lambda x: -1e6 * jnp.sum(x**2), **overrides)
    state = chain.init(jnp.zeros(2))
    before = state.temperature
    for key in jax.random.split(jax.random.key(0), 3):
        state, info = chain.step(key, state)
        assert info.acceptance_prob < 1e-3
    assert float(state.temperature / before) == pytest.approx(2.0**num_rises)
