"""Warm-up: Stan's windows, the numbers that it finds, and the wall between it and the draws."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.adaptation.staged_adaptation import build_schedule
from monte_carlo import assert_moments

from ebmjax import samplers
from ebmjax.samplers._warm_up import _schedule

SCALES = jnp.array([0.1, 1.0, 10.0])
KEY = jax.random.key(0)


def log_density_fn(x):
    return -0.5 * jnp.sum((x / SCALES) ** 2)


def make_mala(step_size, inverse_mass):
    return samplers.mala(log_density_fn, step_size=step_size * inverse_mass)


class Known(NamedTuple):
    position: jax.Array
    step: jax.Array


class KnownInfo(NamedTuple):
    acceptance_prob: jax.Array


def path(start, step):
    """The position of a chain from ``start`` after ``step`` moves."""
    return start * jnp.stack([jnp.sin(0.1 * step), 20.0 + jnp.cos(step)])


def known(step_size, inverse_mass):
    """A sampler on a given path, whose acceptance is exp(-step_size)."""

    def init(start):
        return Known(path(start[0], 0.0), jnp.stack([jnp.zeros(()), start[0]]))

    def step(key, state):
        moved = state.step + jnp.array([1.0, 0.0])
        return Known(path(moved[1], moved[0]), moved), KnownInfo(jnp.exp(-step_size))

    return samplers.Sampler(init, step)


@pytest.mark.parametrize("num_steps", [1, 19, 20, 100, 149, 150, 151, 300, 500, 1000, 2222])
def test_the_windows_are_stans(num_steps):
    theirs = np.asarray(build_schedule(num_steps))
    np.testing.assert_array_equal(np.stack(_schedule(num_steps, True), 1), theirs)
    assert not np.any(_schedule(num_steps, False))


def test_the_metric_is_the_variance_of_a_window_over_all_chains():
    starts, num_steps = np.array([1.0, 1.5, 3.0], np.float32), 300
    found = samplers.warm_up(KEY, known, np.stack([starts, starts], 1), num_steps=num_steps)
    steps = np.arange(1, num_steps + 1)
    paths = np.stack([np.sin(0.1 * steps), 20.0 + np.cos(steps)], -1) * starts[:, None, None]
    draws = paths[:, 150:250].reshape(-1, 2)  # the last window
    share = len(draws) / (len(draws) + 5.0)
    expected = share * draws.var(0, ddof=1) + (1 - share) * 1e-3
    # Sums of at most 300 squares in float32, around a mean of 37.
    np.testing.assert_allclose(found.inverse_mass, expected, rtol=2e-4)
    # A wall: the states are new ones, at the positions where the last step led.
    np.testing.assert_array_equal(found.states.step[:, 0], 0.0)
    np.testing.assert_allclose(found.states.step[:, 1], paths[:, -1, 0], rtol=1e-4)


def test_the_step_size_finds_its_acceptance_and_the_trace_says_how():
    found = samplers.warm_up(
        KEY, known, jnp.ones((2, 2)), num_steps=2000, target_acceptance=0.8, adapts_metric=False
    )
    np.testing.assert_allclose(found.acceptance_probs, jnp.exp(-found.step_sizes), 1e-5)
    # The pull to ten times the start leaves a mean error of about log(10) / (20 sqrt(t)).
    assert float(found.step_size) == pytest.approx(-np.log(0.8), rel=0.05)
    np.testing.assert_array_equal(found.inverse_mass, 1.0)


def test_an_unknown_acceptance_counts_as_refused():
    def broken(step_size, inverse_mass):
        inner = known(step_size, inverse_mass)
        return inner._replace(
            step=lambda key, state: (inner.step(key, state)[0], KnownInfo(jnp.array(jnp.nan)))
        )

    found = samplers.warm_up(KEY, broken, jnp.ones((1, 2)), num_steps=10)
    np.testing.assert_array_equal(found.acceptance_probs, 0.0)
    assert 0 < float(found.step_size) < 0.1


@pytest.mark.slow
def test_draws_do_not_depend_on_anything_that_adapts():
    """A wall: the warm-up hands over positions and plain numbers, and no sampler of its steps."""

    def make(step_size, inverse_mass):  # of which every refused move raises the temperature
        return samplers.tempered_mala(
            log_density_fn, step_size=step_size, acceptance_threshold=0.99, acceptance_decay=0.0
        )

    starts = jnp.array([[0.1, 1.0, 5.0], [-0.1, 2.0, 0.0]])
    found = samplers.warm_up(KEY, make, starts, num_steps=20)
    np.testing.assert_array_equal(found.states.temperature, 1.0)
    assert not np.allclose(found.states.position, starts)

    def draw(step_size, inverse_mass, positions):
        sampler = make(step_size, inverse_mass)
        states = jax.vmap(sampler.init)(positions)
        return samplers.run_chain(KEY, states, samplers.batch_step(sampler.step), 10)

    sampler = make(found.step_size, found.inverse_mass)
    _, draws, _ = samplers.run_chain(KEY, found.states, samplers.batch_step(sampler.step), 10)
    position = np.asarray(found.states.position)
    _, by_hand, _ = draw(float(found.step_size), np.asarray(found.inverse_mass), position)
    np.testing.assert_allclose(draws, by_hand, rtol=1e-5)


@pytest.mark.parametrize("num_chains", [1, 16])
@pytest.mark.slow
def test_mala_on_scales_of_a_hundred_is_as_on_one(num_chains):
    found = samplers.warm_up(KEY, make_mala, jnp.ones((num_chains, 3)), num_steps=1000)
    # Coordinates decorrelate in about 5 steps; the last window has 500 steps.
    error = 5 * np.sqrt(2 / (100 * num_chains))
    np.testing.assert_array_less(abs(np.log(found.inverse_mass / SCALES**2)), error)
    step = samplers.batch_step(make_mala(found.step_size, found.inverse_mass).step)
    _, draws, infos = samplers.run_chain(jax.random.key(1), found.states, step, 500)
    # 50 steps of the last phase leave the acceptance to about 0.1.
    assert float(infos.acceptance_prob.mean()) == pytest.approx(0.574, abs=0.12)
    if num_chains > 1:
        assert_moments(draws.mean(1), 0.0 * SCALES, draws.mean(1).var(0))
        assert_moments(draws[:, -1], 0.0 * SCALES, SCALES**2)


def test_refusals():
    def warm(make=make_mala, **options):
        return samplers.warm_up(KEY, make, jnp.ones((2, 3)), **{"num_steps": 10, **options})

    def unadjusted(step_size, inverse_mass):
        return samplers.underdamped_langevin(log_density_fn, step_size=step_size)

    with pytest.raises(TypeError, match=r"info\.acceptance_prob .* got \w+Info"):
        warm(unadjusted)
    for options in ({"num_steps": 0}, {"target_acceptance": 1.0}, {"step_size": -1.0}):
        with pytest.raises(ValueError, match=next(iter(options))):
            warm(**options)
    with pytest.raises(ValueError, match="leading axis"):
        samplers.warm_up(KEY, make_mala, jnp.float32(1.0), num_steps=10)
