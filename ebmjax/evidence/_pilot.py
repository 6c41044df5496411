"""A population annealed from a base to a density, which chooses powers, steps and a nearer base."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax.densities import product
from ebmjax.evidence._annealing import systematic
from ebmjax.evidence._bases import Base, gaussian_base
from ebmjax.evidence._weights import weight_sample_size
from ebmjax.samplers import batch_step, position_of, run_chain, start_chains
from ebmjax.types import Key, LogDensityFn, PyTree, Sampler

PILOT_SHARE, MOST_RUNGS = 0.5, 200
"""Effective share of the pilot's population that a power leaves, and rungs of the pilot at most."""
LEAST_MOVES, NUM_MOVES, RELAXED, NUM_KEPT = 4, 10, 0.5, 40
"""Moves of the pilot's population at a power, at least and at most, for one of a chain's; the
correlation of its tilts before and after, below which it stops; and positions of a chain, to the
second half of which a base is fitted."""


class PathFromBase(NamedTuple):
    """The densities between a base and a density, in the base's coordinates."""

    log_density_fn: LogDensityFn
    base: Base

    def at(self, power: jax.Array) -> LogDensityFn:
        # One gradient of the base, where base and tilt would take two.
        return product([self.base.log_density_fn, self.log_density_fn], [1.0 - power, power])

    def log_tilt_fn(self, x: PyTree) -> jax.Array:
        return self.log_density_fn(x) - self.base.log_density_fn(x)

    def whiten(self) -> "PathFromBase":
        """Returns the path in the base's whitened coordinates (d,), with the same integrals."""
        density, (draw, log_base_fn, coordinates) = self
        if coordinates is None:
            return self
        volume = coordinates.log_volume()

        def whitened(density: LogDensityFn) -> LogDensityFn:
            return lambda z: density(coordinates.place(z)) + volume

        base = Base(lambda key: coordinates.coordinates_of(draw(key)), whitened(log_base_fn))
        return PathFromBase(whitened(density), base)


def populate(
    draw_key: Key,
    key: Key,
    log_density_fn: LogDensityFn,
    base: Base,
    *,
    num_chains: int,
    num_long: int,
    **options: Any,
) -> tuple[PathFromBase, PyTree, "PilotPopulation"]:
    """Returns the path, exact draws of the base, and the pilot that went from these."""
    path = PathFromBase(log_density_fn, base).whiten()
    start = jax.vmap(path.base.draw)(jax.random.split(draw_key, num_chains))
    begin = np.asarray(jax.vmap(path.log_tilt_fn)(start))
    if not np.isfinite(begin).all():
        raise ValueError(
            "log_density_fn and base.log_density_fn must be finite at every draw of the base, got "
            f"{np.sum(~np.isfinite(begin))} of {num_chains} that are not. Take a narrower base."
        )
    num_last = -(-num_long // (NUM_MOVES * options["num_steps"]))
    pilot = partial(_pilot, path=path, num_last=num_last, **options)
    return path, start, jax.jit(pilot)(key, start)


def refit_base(
    key: Key, log_density_fn: LogDensityFn, base: Base, *, num_long: int, **population: Any
) -> Base:
    """Returns the base and a Gaussian of the second half of ``num_long`` steps, in equal parts."""
    drawn = jax.eval_shape(base.draw, key)
    if not isinstance(drawn, jax.ShapeDtypeStruct):
        raise TypeError(
            "refit fits a Gaussian to positions that are one array, got draws of the base that are "
            f"{type(drawn).__name__}. Take refit=False, or make one array of them."
        )
    keys = jax.random.split(key, 4)
    path, _, pilot = populate(keys[0], keys[1], log_density_fn, base, num_long=0, **population)

    def move(key: Key, positions: PyTree) -> PyTree:
        chain = population["sampler"](path.log_density_fn, step_size=jnp.exp(pilot.log_step_size))
        states, thinning = start_chains(keys[3], chain, positions), max(num_long // NUM_KEPT, 1)
        step = batch_step(chain.step)
        return run_chain(key, states, step, NUM_KEPT * thinning, thinning=thinning)[1]

    x = jax.jit(move)(keys[2], pilot.positions)[:, NUM_KEPT // 2 :]
    x = x.reshape(-1, *x.shape[2:])
    if base.coordinates is not None:
        x = jax.vmap(base.coordinates.place)(x)
    own = gaussian_base(x, num_directions=population["num_chains"])

    def draw(key: Key) -> jax.Array:
        coin_key, draw_key = jax.random.split(key)
        is_own = jax.random.bernoulli(coin_key)
        return jnp.where(is_own, own.draw(draw_key), base.draw(draw_key))

    def density(x: jax.Array) -> jax.Array:
        both = jnp.logaddexp(own.log_density_fn(x), base.log_density_fn(x))
        return both - math.log(2.0)

    return Base(draw, density, own.coordinates)


class PilotPopulation(NamedTuple):
    """An annealed population (chains,) after ``count`` rungs.

    The last three fields are t, the tilt's standard deviation and the step at each of them.
    """

    positions: PyTree
    power: jax.Array
    log_step_size: jax.Array
    count: jax.Array
    powers: jax.Array
    spreads: jax.Array
    log_step_sizes: jax.Array


def _pilot(
    key: Key,
    start: PyTree,
    *,
    path: PathFromBase,
    sampler: Callable[..., Sampler],
    num_steps: int,
    target: float,
    first_step: float,
    num_last: int,
) -> PilotPopulation:
    """Anneals a population by weights and resampling, and adapts powers and step sizes.

    ``num_last`` more rungs move it at t = 1.
    """
    tilts_of = jax.vmap(path.log_tilt_fn)

    def widest(power: jax.Array, tilts: jax.Array) -> jax.Array:
        """Bisects the logarithm of the widest step that keeps ``PILOT_SHARE`` of the population."""

        def is_kept(step: jax.Array) -> jax.Array:
            return weight_sample_size(step * tilts) / len(tilts) > PILOT_SHARE

        def halve(_: Any, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            low, high = ends
            middle = 0.5 * (low + high)
            is_narrow = is_kept(jnp.exp(middle))
            return jnp.where(is_narrow, middle, low), jnp.where(is_narrow, high, middle)

        most = jnp.log1p(-power)
        low = jax.lax.fori_loop(0, 30, halve, (most - 30.0, most))[0]
        reached = jnp.minimum(power + jnp.exp(low), 1.0)
        return jnp.where(is_kept(1.0 - power), 1.0, reached)

    def rung(state: PilotPopulation) -> PilotPopulation:
        tilts = tilts_of(state.positions)
        power = widest(state.power, tilts)
        power = jnp.where(state.count >= MOST_RUNGS - 1, 1.0, power)
        pick_key, start_key, move_key = jax.random.split(jax.random.fold_in(key, state.count), 3)
        chosen = systematic(pick_key, (power - state.power) * tilts)
        positions = jax.tree.map(lambda leaf: leaf[chosen], state.positions)
        density, before = path.at(power), tilts[chosen]

        def move(carry: tuple[Any, ...]) -> tuple[Any, ...]:
            states, log_step, count, _ = carry
            chain = sampler(density, step_size=jnp.exp(log_step))
            states, info = batch_step(chain.step)(jax.random.fold_in(move_key, count), states)
            kept = jnp.corrcoef(before, tilts_of(position_of(states)))[0, 1]
            return states, log_step + jnp.mean(info.acceptance_prob) - target, count + 1, kept

        def is_tied(carry: tuple[Any, ...]) -> jax.Array:
            most = jnp.where(carry[3] < RELAXED, LEAST_MOVES, NUM_MOVES)
            return carry[2] < most * num_steps

        chain = sampler(density, step_size=jnp.exp(state.log_step_size))
        states = start_chains(start_key, chain, positions)
        carry = states, state.log_step_size, jnp.int32(0), jnp.float32(1)
        states, log_step, *_ = jax.lax.while_loop(is_tied, move, carry)
        place = jnp.where(state.power < 1.0, state.count, MOST_RUNGS)  # beyond it nothing is set
        return PilotPopulation(
            position_of(states),
            power,
            log_step,
            state.count + 1,
            state.powers.at[place].set(state.power),
            state.spreads.at[place].set(jnp.std(tilts)),
            state.log_step_sizes.at[place].set(log_step),
        )

    def is_due(state: PilotPopulation) -> jax.Array:
        return (state.power < 1.0) | (state.count < jnp.sum(state.powers < 1.0) + num_last)

    log_step, ones = jnp.log(jnp.float32(first_step)), jnp.ones(MOST_RUNGS)
    first = PilotPopulation(start, jnp.float32(0), log_step, jnp.int32(0), ones, 0 * ones, 0 * ones)
    return jax.lax.while_loop(is_due, rung, first)


def place_powers(pilot: PilotPopulation, num_powers: int) -> tuple[jax.Array, jax.Array]:
    """Returns powers at equal lengths of the tilt's standard deviation, and the steps above 0."""
    count = int(np.sum(np.asarray(pilot.powers) < 1.0))
    found = (np.asarray(a, np.float64)[:count] for a in pilot[-3:])
    powers, spreads, log_steps = found
    powers = np.append(powers, 1.0)
    lengths = np.append(0.0, np.cumsum(spreads * np.diff(powers)))
    placed = np.interp(np.linspace(0.0, lengths[-1], num_powers), lengths, powers)
    placed[[0, -1]] = 0.0, 1.0
    steps = np.exp(np.interp(placed[1:], powers[1:], log_steps))
    return jnp.asarray(placed, jnp.float32), jnp.asarray(steps, jnp.float32)
