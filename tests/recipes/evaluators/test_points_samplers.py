"""Samplers compared on points: numbers of chains on known laws, and the chains."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base import array_stats
from jax.tree_util import Partial

from ebmjax import samplers
from ebmjax.recipes.evaluators.comparison import (
    choose,
    draws_numbers,
    run_chains,
)
from ebmjax.recipes.parts.samplers import SAMPLERS, Chosen, defaults
from experiments.literal.psgld import literal_psgld

MEANS = np.array([[10.0, 0.0], [0.0, 10.0], [-10.0, 0.0], [0.0, -10.0]])
SIZES = {"num_steps": 200, "burn_in": 0}


def judged(draws, **changes):
    arguments = {"data": draws[0], "model": None, "means": MEANS, "num": 100}
    return draws_numbers(draws, **(arguments | changes))


def quadratic(params, position):
    """The energy of a Gaussian of variance 1 / params around 0."""
    return 0.5 * params * jnp.sum(jnp.square(position), axis=-1)


def log_density(params, position):
    return -quadratic(params, position)


def chains_of(name, options, num_chains=64, params=1.0, **sizes):
    starts = 3.0 * jax.random.normal(jax.random.key(1), (num_chains, 2))
    chosen = Chosen(name, defaults(name) | options, SAMPLERS[name])
    density = Partial(log_density, jnp.float32(params))
    return run_chains(jax.random.key(2), starts, density, chosen, **(SIZES | sizes))


def autoregressive(rng, correlation, shape):
    noise = rng.normal(size=shape)
    draws = noise.copy()
    for t in range(1, shape[1]):
        draws[:, t] = correlation * draws[:, t - 1] + math.sqrt(1 - correlation**2) * noise[:, t]
    return draws


def test_diagnostics_are_those_of_arviz():
    rng = np.random.default_rng(0)
    draws = autoregressive(rng, 0.8, (4, 200, 2)) + 0.3 * rng.normal(size=(4, 1, 2))
    numbers = judged(draws)
    options = {"chain_axis": 0, "draw_axis": 1}
    columns = [draws[..., i] for i in range(2)]
    # float32 of a mean square about that of the chains' variance: a few 1e-6, and the truncation
    # of the autocorrelations may shift by what that moves the last pair kept.
    classic = max(array_stats.rhat(x, method="identity", **options) for x in columns)
    rank = max(array_stats.rhat(x, method="rank", **options) for x in columns)
    ess = min(array_stats.ess(x, method="bulk", **options) for x in columns)
    alone = min(
        sum(array_stats.ess(chain[None], method="bulk", **options) for chain in x) for x in columns
    )
    assert numbers["rhat_classic"] == pytest.approx(classic, rel=1e-5)
    assert numbers["rhat_rank"] == pytest.approx(rank, rel=1e-5)
    assert numbers["ess"] == pytest.approx(ess, rel=1e-3)
    assert numbers["ess_within"] == pytest.approx(alone, rel=1e-3)
    assert numbers["ess_within"] > 2 * numbers["ess"]


def test_draws_in_modes_are_counted_and_ways_between_them_are_not():
    nowhere = [0.0, 0.0]
    first = [MEANS[0], MEANS[0], nowhere, MEANS[0], MEANS[1], nowhere]
    second = [nowhere, MEANS[2], nowhere, MEANS[0], MEANS[2], [13.5, 0.0]]
    share = lambda draws, means: judged(draws, means=means)["inside"]  # noqa: E731
    assert share(np.array([first, second], float), MEANS) == 7 / 12
    assert share(np.full((2, 3, 2), np.nan), MEANS) == 0.0
    # Means nearer than two radii share what lies between them.
    pair = np.array([[[1.1, 0.0], [0.9, 0.0], [-1.5, 0.0], [0.0, 0.5]]])
    assert share(np.repeat(pair, 2, axis=0), np.array([[0.0, 0.0], [2.0, 0.0]])) == 0.75
    alone = np.array([[[0.0, 0.0], [2.0, 2.5]]])
    assert share(alone, np.zeros((1, 2))) == 0.5  # no next mode


def test_draws_that_are_not_finite_are_no_number():
    draws = np.zeros((3, 10, 2))
    draws[1, 4, 0] = np.nan
    numbers = judged(draws)
    assert all(math.isnan(numbers[name]) for name in ("rhat_rank", "ess", "distance_to_data"))
    assert numbers["inside"] == 0
    assert math.isnan(judged(draws[:, :3])["ess"])


def test_particles_move_together():
    """Their first step is SVGD's of all of them; each alone would follow its score."""
    positions, numbers = chains_of("svgd", {"step_size": 0.5}, num_chains=4)
    start = 3.0 * jax.random.normal(jax.random.key(1), (4, 2))
    direction = samplers.svgd_direction(start, lambda x: -quadratic(1.0, x))
    np.testing.assert_allclose(positions[:, 0], start + 0.5 * direction, rtol=1e-4)
    assert not np.allclose(positions[:, 0], 0.5 * start, rtol=1e-2)
    assert math.isnan(numbers["acceptance_prob"])


def test_psgld_as_printed_preconditions_with_the_moment_before():
    """Repeats the step by hand, with the correct sampler's noise under the same key."""
    density = lambda x: -0.5 * jnp.sum(jnp.square(x))  # noqa: E731
    options = {"step_size": 0.05, "decay": 0.9, "damping": 0.1}
    printed, correct = (make(density, **options) for make in (literal_psgld, samplers.psgld))
    state, moment = printed.init(jnp.array([3.0, -1.0])), np.zeros(2)
    for key in jax.random.split(jax.random.key(4), 3):
        position = np.asarray(state.position, np.float64)
        after = 0.9 * moment + 0.1 * position**2
        theirs, _ = correct.step(key, state)
        metric = 1 / (0.1 + np.sqrt(after))
        noise = (theirs.position - (1 - 0.05 * metric) * position) / np.sqrt(0.1 * metric)
        state, info = printed.step(key, state)
        metric = 1 / (0.1 + np.sqrt(moment))
        expected = (1 - 0.05 * metric) * position + np.sqrt(0.1 * metric) * noise
        # The noise is a difference of float32 of size 3: known to some 1e-6.
        np.testing.assert_allclose(state.position, expected, rtol=1e-4, atol=1e-5)
        assert float(info.preconditioner) == pytest.approx(np.mean(metric), rel=1e-5)
        np.testing.assert_allclose(state.second_moment, after, rtol=1e-5)
        assert not np.allclose(state.position, theirs.position, rtol=0.01)
        moment = after


@pytest.mark.parametrize("setting", ["thesis", "tuned"])
def test_a_function_is_compared_at_temperature_1_with_the_settings_step(setting):
    chosen = choose("literal/psgld.py:literal_psgld", setting)
    step = {"thesis": 0.01, "tuned": 0.1}[setting]
    expected = {"step_size": step, "noise_scale": None, "temperature": 1.0}
    assert chosen.options == expected | {"decay": 0.99, "damping": 1e-5}
    start = jnp.zeros((2, 2))
    density = Partial(log_density, 1.0)
    positions, _ = run_chains(jax.random.key(0), start, density, chosen, 5, 1)
    assert positions.shape == (2, 4, 2)
