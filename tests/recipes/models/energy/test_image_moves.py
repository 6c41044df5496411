"""The moves of image energies' chains: their temperature, box and accept ratios."""

import math
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import image as smoke

from ebmjax import samplers
from ebmjax.evaluate import Chains
from ebmjax.recipes.models.energy import checks
from ebmjax.recipes.models.energy.model import Trained
from ebmjax.recipes.parts.samplers import bind_sampler as bind
from experiments.literal.accept_ratios import accept_ratios, weigh_move
from experiments.literal.mala import literal_mala


def bound(config, name, shape):
    config.sampler.names = (name,)
    return bind(checks.find_samplers(config)[name], config.sampler, shape)


def normal(x):
    return -0.5 * jnp.sum(x**2)


@pytest.mark.parametrize("name", ["mala", "tempered_mala", "hmc"])
def test_the_moves_of_a_sampler_aim_at_its_temperature(name):
    """Long chains on N(0, 1) at temperature 0.25: variance 0.25, whatever the sampler."""
    config = smoke(**{"sampler.box": "none"})
    section = config.sampler[name]
    section.temperature, section.step_size = 0.25, 0.5
    sampler = bound(config, name, (2, 1, 1))(normal)
    starts = 0.5 * jax.random.normal(jax.random.key(0), (1000, 2, 1, 1))[..., 0, 0]

    @jax.jit
    def run(starts):
        step = samplers.batch_step(sampler.step)
        return samplers.run_chain(jax.random.key(1), jax.vmap(sampler.init)(starts), step, 20)[0]

    ends = np.asarray(run(starts).position)
    # 2000 numbers of a Gaussian's variance: 5 standard errors of sqrt(2 / 2000) each.
    assert np.var(ends) == pytest.approx(0.25, rel=5 * math.sqrt(2 / 2000))


def test_annealed_steps_fall_evenly_and_noise_with_their_root():
    """To a quarter in three steps and no further; the sum over 4000 chains of a slope."""
    config = smoke(**{"sampler.box": "none", "sampler.num_steps": 3})
    config.sampler.final_step_fraction = 0.25
    config.sampler.sgld.update(step_size=0.8, noise_scale=0.5)
    sampler = bound(config, "sgld", (1, 1, 1))(lambda x: 2.0 * jnp.sum(x))
    states = jax.vmap(sampler.init)(jnp.zeros((4000, 1)))
    step, before = jax.jit(samplers.batch_step(sampler.step)), np.zeros(4000)
    for i, fraction in enumerate([1.0, 0.625, 0.25, 0.25]):
        states, _ = step(jax.random.key(i), states)
        after = np.asarray(samplers.position_of(states))[:, 0]
        noise = 0.5 * math.sqrt(fraction)
        moved = after - before
        # Means and deviations of 4000 Gaussians, to 5 standard errors.
        assert np.mean(moved) == pytest.approx(1.6 * fraction, abs=5 * noise / math.sqrt(4000))
        assert np.std(moved) == pytest.approx(noise, rel=5 / math.sqrt(2 * 4000))
        before = after


def test_an_adapted_step_anneals_too():
    config = smoke(**{"sampler.box": "none", "sampler.num_steps": 2})
    config.sampler.final_step_fraction = 0.5
    config.sampler.mala.update(temperature=1e-6)
    sampler = bound(config, "mala", (1, 1, 1))(lambda x: 2.0 * jnp.sum(x), step_size=0.1)
    state = sampler.init(jnp.zeros(1))
    # Drifts of 2 times 0.1, then 0.05; noise of variance 2e-6 times both steps, 5 deviations of it.
    for expected in (0.2, 0.3):
        state, _ = sampler.step(jax.random.key(0), state)
        assert float(samplers.position_of(state)[0]) == pytest.approx(
            expected, abs=5 * math.sqrt(2e-6 * 0.15)
        )


def by_hand(x, y, step, noise_scale, temperature=None):
    """The accept probability on E = 3 + |x|^2 / 2, in float64: printed, or at a temperature."""
    energy = [3 + 0.5 * np.sum(z**2) for z in (x, y)]
    variance = 2 * step if temperature is None else noise_scale**2
    there, back = (-np.sum((b - a + step * a) ** 2) / (2 * variance) for a, b in ((x, y), (y, x)))
    factor = energy[1] / energy[0]
    if temperature is not None:
        factor = np.exp((energy[0] - energy[1]) / temperature)
    return min(1.0, max(factor, 0.0) * np.exp(back - there))


def test_the_literal_ratio():
    step, noise_scale, x = 0.3, 0.4, jnp.array([0.7, -1.1, 0.2])
    density = lambda x: normal(x) - 3.0  # noqa: E731
    sampler = literal_mala(density, step_size=step, noise_scale=noise_scale)
    reached = 0
    for key in jax.random.split(jax.random.key(1), 5):
        state, info = sampler.step(key, sampler.init(x))
        noise = noise_scale * jax.random.normal(jax.random.split(key)[0], (3,))
        y = np.asarray((1 - step) * x + noise, np.float64)
        expected = by_hand(np.asarray(x, np.float64), y, step, noise_scale)
        assert float(info.acceptance_prob) == pytest.approx(expected, rel=1e-4)
        reached += 0 < expected < 1
        np.testing.assert_allclose(state.position, y if info.is_accepted else x, rtol=1e-5)
    assert reached >= 2


def test_a_move_is_weighed_by_both_ratios():
    """Compares one start with ratios by hand; a curvature of 1 changes the score by the move."""
    x, step, noise_scale = jnp.array([0.7, -1.1, 0.2]), 0.3, 0.4
    density = lambda label: lambda x: normal(x) - 3.0  # noqa: E731
    key = jax.random.key(4)
    found = weigh_move(key, density, x[None], jnp.zeros(1, jnp.int32), step, noise_scale)
    noise = noise_scale * jax.random.normal(jax.random.split(key, 1)[0], (3,))
    x, y = np.asarray(x, np.float64), np.asarray((1 - step) * x + noise, np.float64)
    implied = noise_scale**2 / (2 * step)
    expected = {
        "literal": by_hand(x, y, step, noise_scale),
        "implied": by_hand(x, y, step, noise_scale, implied),
    }
    for name, value in expected.items():
        assert float(found[f"acceptance_{name}"]) == pytest.approx(value, rel=1e-4), name
    assert float(found["score_change"]) == pytest.approx(
        np.linalg.norm(y - x) / np.linalg.norm(x), rel=1e-5
    )


def model_at(energy, adaptation, beta, config):
    """Returns what ``accept_ratios`` needs of a model."""
    density = lambda label: lambda x: -(1.0 - beta) * energy(x, label)  # noqa: E731
    return SimpleNamespace(
        config=config,
        densities_of=lambda trained: density,
        trained=Trained({}, {}, 1.0 - beta, adaptation),
        program=lambda name, make: make(),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("max_score", "beta"), [(None, 0.0), (0.1, 0.0), (None, 0.5)])
def test_the_move_that_the_chains_of_training_make_is_weighed(max_score, beta, monkeypatch):
    """Its acceptance is the one that the run's own sampler reports of the same noise."""
    config = smoke(**{"sampler.box": "none", "sampler.max_score": max_score})
    config.sampler.sgld.step_size, config.sampler.sgld.noise_scale = 0.3, 0.1
    energy = lambda x, label: 0.05 * jnp.sum(jnp.cos(9.0 * x), axis=(-3, -2, -1))  # noqa: E731
    x = jax.random.uniform(jax.random.key(3), (1, 2, 2, 1), minval=-1.0, maxval=1.0)
    chains = Chains(x, x, np.zeros(1, np.int32))
    monkeypatch.setattr("experiments.literal.accept_ratios.draw_samples", lambda *_: chains)
    model = model_at(energy, {}, beta, config)
    sampler = bound(config, "sgld", (2, 2, 1))(lambda x: -(1.0 - beta) * energy(x, 0))
    told = []
    for key in jax.random.split(jax.random.key(5), 6):
        found = accept_ratios(key, model, None, num=1)
        _, info = sampler.step(key, sampler.init(x[0]))
        told.append(float(info.acceptance_prob))
        assert float(found["acceptance_implied"]) == pytest.approx(told[-1], rel=1e-3, abs=1e-6)
    assert max(told) - min(told) > 0.1
