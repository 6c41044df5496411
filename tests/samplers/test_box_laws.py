"""Laws of chains in a box: of every row of the contract's table, and of chains with a velocity."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract_table import TABLE
from monte_carlo import assert_moments
from scipy.stats import norm, truncnorm

from ebmjax import samplers

LOW, HIGH = -1.0, 1.0
MEAN = 1.5
"""Mean of the unit normal that is restricted: it presses chains against the upper wall."""
STEP = 0.1
REPLICAS, NUM_STEPS = 4000, 60
"""Steps of the slowest row here add up to 6 times the 0.4 in which a chain forgets: e^-12 is left
of the start."""

Field = Callable[[np.ndarray], np.ndarray]


def pressed(x):
    return -0.5 * jnp.sum((x - MEAN) ** 2)


def score(x):
    return MEAN - x


class Move(NamedTuple):
    """Hyperparameters in place of the table's, and the Gaussian move that they make."""

    hyperparameters: dict[str, Any]
    drift: Field
    scale: Field
    is_weighed: bool = False  # accepted or rejected
    ends: tuple[float, float] = (LOW, HIGH)  # narrower where the row has a box itself


def langevin(factor=1.0, **others):
    noise_scale = np.sqrt(2 * STEP * factor * others.get("temperature", 1.0))
    return Move(
        {"step_size": STEP, **others}, lambda x: STEP * factor * score(x), still(noise_scale)
    )


def still(noise_scale):
    return lambda x: np.full_like(x, noise_scale)


def metric(x):
    """G of the score's newest square alone (decay 0), whose law has one coordinate."""
    return 1 / (1 + np.abs(score(x)))


def metric_slope(x):
    return metric(x) ** 2 * np.sign(score(x))


PSGLD = {"step_size": STEP, "decay": 0.0, "damping": 1.0}
T = 0.7
FREE = {"step_size": STEP, "noise_scale": 0.3}
MALA = Move({"step_size": STEP}, lambda x: STEP * score(x), still((2 * STEP) ** 0.5), True)
# In one coordinate a single particle of stochastic SVGD follows Langevin dynamics.
ONE_PARTICLE = {"temperature": T, "langevin_weight": 0.5}
MOVES = {
    "sgld": langevin(temperature=T),
    "sgld_free_noise": langevin()._replace(hyperparameters=FREE, scale=still(0.3)),
    "psgld": Move(
        {**PSGLD, "temperature": T},
        lambda x: STEP * metric(x) * score(x),
        lambda x: np.sqrt(2 * STEP * T * metric(x)),
    ),
    "psgld_curvature": Move(
        {**PSGLD, "temperature": T, "curvature_drift": True},
        lambda x: STEP * (metric(x) * score(x) + T * metric_slope(x)),
        lambda x: np.sqrt(2 * STEP * T * metric(x)),
    ),
    "psgld_image_form": Move(
        {**PSGLD, "noise_scale": 0.3}, lambda x: STEP * metric(x) * score(x), still(0.3)
    ),
    "mala": MALA,
    "hmc": MALA._replace(hyperparameters={"step_size": STEP, "num_integration_steps": 1}),
    "tempered_mala": MALA._replace(
        hyperparameters={"step_size": STEP, "acceptance_threshold": 0.0}
    ),
    "stochastic_svgd": langevin(1.5, bandwidth=0.7, **ONE_PARTICLE),
    "stochastic_svgd_median_rule": langevin(1.5, **ONE_PARTICLE),
    "reflected_mala": MALA._replace(ends=(-0.5, 0.5)),
    "clamped_sgld": langevin()._replace(ends=(-0.5, 0.5)),
    "clipped_sgld": langevin()._replace(drift=lambda x: np.clip(STEP * score(x), -0.05, 0.05)),
    "sgld_of_clipped_score": langevin()._replace(
        drift=lambda x: STEP * np.clip(score(x), -0.5, 0.5)
    ),
    "scheduled_sgld": langevin()._replace(
        hyperparameters={"step_size": lambda step: STEP + 0.0 * step}
    ),
}
DETERMINISTIC = [name for name, row in TABLE.items() if not row.is_random]
"""Rows without a law."""

WRAPPERS = {"reflect": samplers.reflect, "clamp": samplers.clamp}


def place(wall, x, low=LOW, high=HIGH):
    """The place in the box where a move to ``x`` ends."""
    if wall == "clamp":
        return np.clip(x, low, high)
    return low + np.abs((x - low + (high - low)) % (2 * (high - low)) - (high - low))


def boxed_moments(move, wall):
    """Mean and variance of the law that a move leaves invariant in a box, by quadrature.

    Cells of 1/200 of the box, far below every noise, and one state for each wall where a clamp
    piles chains up. The sums are midpoint rules, exact to the square of a cell.
    """
    low, high = move.ends
    width = (high - low) / 200
    ends = low + width * (np.arange(-600, 800) + 0.5)
    cells = ends[(ends > low) & (ends < high)]
    states = np.array([low, *cells, high]) if wall == "clamp" else cells
    drift, scale = move.drift(states)[:, None], move.scale(states)[:, None]
    assert width < 0.1 * scale.min()
    assert np.all(np.abs(drift) + 5 * scale < 600 * width)
    matrix = norm.pdf((ends - states[:, None] - drift) / scale) * width / scale
    places = place(wall, ends, low, high)
    if move.is_weighed:
        # log p(z)/p(x), and the Gaussians there and back: noise z - x - drift, by the score at z.
        noise = (ends - states[:, None] - drift) / scale
        shift = (drift + back(move, wall, ends, places)) / scale
        log_ratio = (places - states[:, None]) * (MEAN - (places + states[:, None]) / 2)
        matrix *= np.exp(np.minimum(log_ratio - (noise + shift / 2) * shift, 0))
    found = np.argmin(np.abs(places[:, None] - states), axis=1)
    moved = matrix @ np.eye(len(states))[found]
    moved += np.diag(1 - moved.sum(axis=1))
    system = moved.T - np.eye(len(states))
    system[-1] = 1.0
    law = np.linalg.solve(system, np.eye(len(states))[-1])
    mean = law @ states
    return mean, law @ (states - mean) ** 2


def back(move, wall, ends, places):
    """The drift at the end of a move, before it is placed: odd mirrors turn it."""
    is_turned = (wall == "reflect") & (np.gradient(places, ends) < 0)
    return move.drift(places) * np.where(is_turned, -1, 1)


def start(name):
    """Positions of one coordinate, all over the box; for particle samplers systems of one."""
    x = jnp.linspace(-0.9, 0.9, REPLICAS)
    return x[:, None, None] if TABLE[name].has_particles else x


def ends_of(sampler, starts):
    """Final positions of independent chains."""
    return samplers.position_of(final_states(sampler, starts))


def final_states(sampler, starts):
    states = samplers.start_chains(jax.random.key(7), sampler, starts)
    keys = jax.random.split(jax.random.key(0), NUM_STEPS)
    return samplers.trace_chain(keys, states, samplers.batch_step(sampler.step))[0]


def test_every_row_is_here():
    """PYLD's box, a velocity beside the position, and replicas have tests of their own.

    No box holds the Gaussian that tilted Langevin moves in.
    """
    others = {"pyld", "underdamped_langevin", "tilted_langevin", "parallel_tempering"}
    assert set(MOVES) | set(DETERMINISTIC) | others == set(TABLE)


@pytest.mark.parametrize("wall", WRAPPERS)
@pytest.mark.parametrize("name", MOVES)
def test_the_law_in_a_box(name, wall):
    """Mean and variance of independent chains, within 5 of their own standard errors."""
    move, row = MOVES[name], TABLE[name]
    make = partial(WRAPPERS[wall](row.make, LOW, HIGH), **row.options | move.hyperparameters)
    draws = ends_of(make(pressed), start(name))
    own = {"reflected_mala": "reflect", "clamped_sgld": "clamp"}.get(name, wall)
    assert_moments(np.ravel(draws), *boxed_moments(move, own))


@pytest.mark.parametrize("name", ["mala", "reflected_mala"])
def test_the_law_of_mala_between_mirrors_is_the_truncated_one(name):
    """A closed form holds the quadrature itself."""
    ends = MOVES[name].ends
    truncated = truncnorm(ends[0] - MEAN, ends[1] - MEAN, MEAN)
    expected = truncated.mean(), truncated.var()
    np.testing.assert_allclose(boxed_moments(MOVES[name], "reflect"), expected, rtol=1e-3)


def unfolded(x):
    """The density continued by reflection at the walls."""
    return pressed(HIGH - jnp.abs(jnp.mod(x - LOW, 2 * (HIGH - LOW)) - (HIGH - LOW)))


@pytest.mark.parametrize("wall", WRAPPERS)
@pytest.mark.parametrize("name", DETERMINISTIC)
def test_what_has_no_law_moves_as_it_would_without_walls(name, wall):
    """Between mirrors: on the unfolded density, and folded afterwards. Clamped: step by step."""
    row = TABLE[name]
    options = row.options | row.hyperparameters | {"step_size": STEP}
    sampler = WRAPPERS[wall](row.make, LOW, HIGH)(pressed, **options)
    free = row.make(unfolded if wall == "reflect" else pressed, **options)
    state = other = sampler.init(jnp.full((1, 1), 0.3))
    step, free_step = jax.jit(sampler.step), jax.jit(free.step)
    for _ in range(20):
        other, _ = free_step(jax.random.key(0), state if wall == "clamp" else other)
        state, _ = step(jax.random.key(0), state)
        expected = place(wall, np.asarray(samplers.position_of(other)))
        np.testing.assert_allclose(samplers.position_of(state), expected, rtol=1e-4, atol=1e-5)
    assert np.all((samplers.position_of(state) >= LOW) & (samplers.position_of(state) <= HIGH))


def test_pyld_has_the_law_of_clamped_moves_by_its_own_box():
    make = partial(TABLE["pyld"].make, step_size=STEP, num_inner=1, low=LOW, high=HIGH)
    assert_moments(ends_of(make(pressed), start("pyld")), *boxed_moments(langevin(), "clamp"))


def ghmc(log_density_fn, *, step_size):
    """BlackJAX's, whose state carries a momentum that its ``init`` draws."""
    return blackjax.ghmc(
        log_density_fn, step_size, momentum_inverse_scale=jnp.ones(()), alpha=0.3, delta=0.1
    )


def normal(x):
    return -0.5 * jnp.sum(x**2)


@pytest.mark.parametrize(
    ("make", "step_size"), [(ghmc, 0.3), (samplers.underdamped_langevin, 0.5 * 0.1**2)]
)
@pytest.mark.parametrize("center", [0.0, MEAN])
def test_chains_with_a_velocity_between_mirrors_have_the_truncated_law(make, step_size, center):
    """N(0, 1) on [-1, 1] has variance 0.2911; with velocities that pass through walls 0.43."""
    sampler = samplers.reflect(make, LOW, HIGH)(lambda x: normal(x - center), step_size=step_size)
    starts = jnp.linspace(-0.9, 0.9, REPLICAS)
    draws = ends_of(sampler, starts)
    truncated = truncnorm(LOW - center, HIGH - center, center)
    assert_moments(draws, truncated.mean(), truncated.var())


def test_clamped_chains_stay_inside_and_no_velocity_points_into_a_wall():
    """At their start, too: a third of the chains start at a wall, half of these against it."""
    sampler = samplers.clamp(samplers.underdamped_langevin, LOW, HIGH)(pressed, step_size=STEP)
    starts = jnp.linspace(1.5 * LOW, 1.5 * HIGH, REPLICAS)
    at_start = samplers.start_chains(jax.random.key(7), sampler, starts)
    for states in (at_start, final_states(sampler, starts)):
        x, velocity = np.asarray(states.position), np.asarray(states.velocity)
        assert np.all((x >= LOW) & (x <= HIGH))
        assert np.mean(x == HIGH) > 0.1
        assert not np.any((x == HIGH) & (velocity > 0) | (x == LOW) & (velocity < 0))
