"""Parallel tempering: the law of swaps, the way of replicas, modes that one chain never leaves."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import assert_mean, assert_moments
from scipy.stats import truncnorm

from ebmjax.samplers import Sampler, batch_step, mala, parallel_tempering, reflect, run_chain
from ebmjax.samplers._parallel_tempering import _along

POWERS = jnp.array([0.1, 0.35, 1.0])


class Still(NamedTuple):
    position: Any


def still(log_density_fn):
    """A sampler that never moves, so that swaps alone act."""
    return Sampler(lambda x, key=None: Still(x), lambda key, state: (state, ()))


def normal(x):
    return -0.5 * jnp.sum(x**2)


def put(state, places):
    """The state with replicas at ``places`` (num_powers, ...)."""
    return state._replace(position=places[-1], hot=state.hot._replace(position=places[:-1]))


def places_of(state):
    return jnp.concatenate([state.hot.position, state.position[..., None]], axis=-1)


def test_swaps_keep_the_joint_law():
    """Replicas of N(0, 1/t) keep it, stay independent, and swap as often as a closed form says.

    For a coin of min(1, p q' / p' q), the mean is twice the probability of the greater ratio:
    2 P(|x_1| < |x_2|).
    """
    num = 100_000
    sampler = parallel_tempering(normal, powers=POWERS, sampler=still)
    state = sampler.init(jnp.float32(0.0))
    starts = jax.random.normal(jax.random.key(0), (num, 3)) / jnp.sqrt(POWERS)[None]

    @jax.jit
    def run(keys, starts):
        states = jax.vmap(lambda place: put(state, place))(starts)
        states, first = jax.vmap(sampler.step)(keys[0], states)
        return jax.vmap(sampler.step)(keys[1], states), first

    (states, second), first = run(jax.random.split(jax.random.key(1), (2, num)), starts)
    places = np.asarray(places_of(states), np.float64)
    assert_moments(places, 0.0, 1.0 / np.asarray(POWERS))
    scaled = places**2 * np.asarray(POWERS) - 1.0
    assert_mean(scaled[:, :-1] * scaled[:, 1:], 0.0)
    assert np.any(np.asarray(places) != np.asarray(starts))
    expected = 4.0 / np.pi * np.arctan(np.sqrt(POWERS[:-1] / POWERS[1:]))
    for info, tried in ((first, 0), (second, 1)):
        assert_mean(info.swap_prob, expected)
        assert_mean(np.asarray(info.is_swapped)[:, tried], expected[tried])
        assert not np.any(np.asarray(info.is_swapped)[:, 1 - tried])
    assert first.acceptance_prob is None


def test_replicas_travel_in_one_direction():
    """On a flat density every swap is taken: a walk by hand gives places."""
    num, steps = 5, 64
    sampler = parallel_tempering(
        lambda x: 0.0 * x, powers=jnp.linspace(0.2, 1.0, num), sampler=still
    )
    state = put(sampler.init(jnp.float32(0.0)), jnp.arange(num, dtype=jnp.float32))
    order = list(range(num))
    final, positions, _ = run_chain(jax.random.key(0), state, sampler.step, steps)
    for step in range(steps):
        for low in range(step % 2, num - 1, 2):
            order[low], order[low + 1] = order[low + 1], order[low]
        assert positions[step] == order[-1]
    np.testing.assert_array_equal(places_of(final), order)


def test_a_replica_outside_of_the_support_never_becomes_cold():
    """A log density of -inf or NaN at the base's end refuses the swap, +inf too."""

    @jax.vmap
    def step(bad):
        sampler = parallel_tempering(
            lambda x: jnp.where(x > 5.0, bad, -0.5 * x**2),
            powers=jnp.array([0.0, 1.0]),
            log_base_fn=lambda x: -0.5 * x**2 / 100.0,
            sampler=still,
        )
        state = put(sampler.init(jnp.float32(0.0)), jnp.array([6.0, 1.0]))
        state, info = sampler.step(jax.random.key(0), state)
        return places_of(state), info.swap_prob

    places, swap_prob = jax.jit(step)(jnp.array([-jnp.inf, jnp.nan, jnp.inf]))
    np.testing.assert_array_equal(places, [[6.0, 1.0]] * 3)
    np.testing.assert_array_equal(swap_prob, np.zeros((3, 1)))


@pytest.mark.parametrize(
    ("power", "place", "expected"), [(0.0, 6.0, -4.5), (0.5, 2.0, -1.25), (1.0, 2.0, -2.0)]
)
def test_a_replica_follows_the_base_and_the_density_by_its_power(power, place, expected):
    densities = lambda x: jnp.where(x > 5.0, -jnp.inf, -0.5 * x**2), lambda x: -0.125 * x**2
    assert _along(*densities, jnp.float32(power), jnp.float32(place)) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"powers": (0.5, 0.9)}, r"^powers must end at 1, the law of state.position.*0\.9"),
        ({"powers": (0.0, 1.0)}, r"^powers must end at 1.*above 0 without a log_base_fn"),
        ({"step_size": (0.1, 0.2)}, r"^step_size must be .* each of the 3 powers, got shape \(2,"),
    ],
)
def test_bad_options_are_refused(options, message):
    sampler = parallel_tempering(normal, **{"powers": (0.1, 0.5, 1.0), "step_size": 0.1} | options)
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(sampler.step, jax.random.key(0), sampler.init(jnp.zeros(2)))


def test_states_of_another_ladder_are_refused():
    sampler = parallel_tempering(normal, powers=POWERS, step_size=0.1)
    other = parallel_tempering(normal, powers=POWERS[1:], step_size=0.1)
    with pytest.raises(ValueError, match="with 2 powers, got 3 replicas"):
        other.step(jax.random.key(0), sampler.init(jnp.zeros(2)))


SPREAD = 20.0


def far_modes(x):
    """N(0, I) with weight 0.2 and N((10, 0), I) with 0.8, unnormalised."""
    far = x - jnp.array([10.0, 0.0])
    return jnp.logaddexp(jnp.log(0.2) + normal(x), jnp.log(0.8) + normal(far))


def wide(x):
    """The log density of N(0, 400 I) in two dimensions."""
    return normal(x) / SPREAD**2 - jnp.log(2.0 * jnp.pi * SPREAD**2)


def share_of_the_lesser(positions):
    """The share of draws in the mode of 0.2, by chain."""
    return np.mean(np.asarray(positions)[..., 0] < 5.0, axis=1)


@pytest.mark.slow
def test_far_modes_get_their_masses():
    """All chains start in the mode of 0.2. MALA alone stays there."""
    start = jnp.zeros((32, 2))
    precision = jnp.geomspace(1 / SPREAD**2, 1.0, 8)  # of each mode's Gaussian along the path
    powers = ((precision - precision[0]) / (1.0 - precision[0])).at[-1].set(1.0)
    sampler = parallel_tempering(
        far_modes, powers=powers, step_size=0.8 / precision, log_base_fn=wide, num_steps=3
    )
    states, step = jax.vmap(sampler.init)(start), batch_step(sampler.step)
    _, positions, _ = run_chain(jax.random.key(1), states, step, 3000, burn_in=1000)
    shares = share_of_the_lesser(positions)
    assert shares.std(ddof=1) / np.sqrt(32) < 0.02
    assert_mean(shares, 0.2)
    alone = mala(far_modes, step_size=1.0)
    states = jax.vmap(alone.init)(start)
    _, positions, _ = run_chain(jax.random.key(2), states, batch_step(alone.step), 6000)
    assert np.all(share_of_the_lesser(positions) == 1.0)


@pytest.mark.slow
def test_mirrors_hold_every_replica():
    """Under ``reflect`` each has the truncated law of its power."""
    sampler = reflect(parallel_tempering, -1.0, 0.5)(
        lambda x: -2.0 * x**2, powers=POWERS, step_size=0.05 / POWERS
    )
    states = jax.vmap(sampler.init)(jnp.zeros(4000))
    states, _, _ = run_chain(jax.random.key(0), states, batch_step(sampler.step), 60)
    places = np.asarray(places_of(states))
    for index, power in enumerate(np.asarray(POWERS)):
        scale = 0.5 / np.sqrt(power)
        law = truncnorm(-1.0 / scale, 0.5 / scale, 0.0, scale)
        assert_moments(places[:, index], law.mean(), law.var())
