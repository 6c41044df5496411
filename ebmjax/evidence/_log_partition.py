"""log Z of any density, in an interval: annealing from a base density, forward and in reverse."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize, special

from ebmjax._checks import check_at_least, check_fraction
from ebmjax._programs import run_program
from ebmjax.densities import product
from ebmjax.evidence._annealing import AnnealedSamples, anneal
from ebmjax.evidence._bases import Base, gaussian_base
from ebmjax.evidence._weights import Estimate, log_mean_exp, weight_sample_size
from ebmjax.samplers import FactorGaussian, batch_step, mala, position_of, run_chain, start_chains
from ebmjax.types import Key, LogDensityFn, PyTree, Sampler

PILOT_SHARE, MOST_RUNGS, NUM_RESAMPLES, TAIL = 0.5, 200, 1000, 1.0
"""Effective share of the pilot's population that a power leaves, and rungs of the pilot at most.
Resamples of the bootstrap, and percent of them beyond an end of the interval."""


class LogPartition(NamedTuple):
    """log Z of a density, from both sides.

    Attributes:
      value: Bennett's estimate of log Z from both sides, in nats.
      interval: (2,), ends between which log Z lies: the first percentile of ``lower``, and the last
        one of ``upper``, by a bootstrap over chains or by Markov's inequality. In trials it held
        log Z in 98 of 100 seeds.
        Ends that cross show that the reverse chains missed a mode. Then the first alone is a bound.
      lower: log mean weight of chains from the base; below log Z in expectation.
      upper: minus the log mean weight of chains from the model's samples. It is above log Z in
        expectation if these are exact, and else only if they are right.
      is_closed: whether the two sides meet within a nat and their errors.
      sample_sizes: effective number of chains of each side, (2,).
      acceptance_prob: of the moves at every power above 0, (num_powers - 1,).
      powers, step_sizes: (num_powers,) and (num_powers - 1,).
      samples: where the reverse chains began, leading axis (chains,).
    """

    value: float
    interval: np.ndarray
    lower: Estimate
    upper: Estimate
    is_closed: bool
    sample_sizes: np.ndarray
    acceptance_prob: np.ndarray
    powers: np.ndarray
    step_sizes: np.ndarray
    samples: PyTree


def log_partition(
    key: Key,
    log_density_fn: LogDensityFn,
    base: Base,
    *,
    sampler: Callable[..., Sampler] = mala,
    step_size: float = 0.1,
    target_acceptance: float = 0.7,
    num_chains: int = 256,
    num_powers: int = 200,
    num_steps: int = 2,
    samples: PyTree | None = None,
    num_long: int = 1000,
    refit: bool = False,
) -> LogPartition:
    r"""Returns log Z of ``exp(log_density_fn)`` in an interval.

    .. math::
        f_t = (1 - t) \log q + t \log \tilde p, \qquad
        E[w_{\text{forward}}] = Z, \qquad E[w_{\text{reverse}}] = 1 / Z

    A pilot population is annealed from the base to the density. It chooses the powers t, at equal
    lengths of the standard deviation of :math:`\log \tilde p - \log q`, and a step size for each.
    Both are then frozen, so that the weights are unbiased. Chains from exact draws of the base give
    a lower bound of log Z in expectation, chains from samples of the density an upper one.

    The upper side is a bound only if ``samples`` are exact. Without them the pilot's end, moved by
    ``num_long`` steps more, takes their place: a mode that base and pilot both miss is missed.

    Args:
      key: consumed.
      log_density_fn: one position to a scalar, unnormalised.
      base: q, exact draws and a normalised log density; wide enough to cover the density. Where it
        has ``coordinates``, chains move in these.
      sampler: ``sampler(log_density_fn, step_size=)`` that leaves its density invariant: MALA, HMC,
        not SGLD.
      step_size: where the pilot begins.
      target_acceptance: that the pilot's steps adapt to.
      num_chains: of each side.
      num_powers: of the ladder, both ends included. The cost is ``2 num_powers num_steps``
        gradients a chain, and the pilot's.
      num_steps: at every power.
      samples: exact samples of the density, leading axis (chains,); None for the pilot's end.
      num_long: steps that move the pilot's end, or a few more.
      refit: whether a Gaussian of the density's samples, by a first pilot, joins the base in equal
        parts. Positions are one array then. The ladder is shorter where the base is far away.

    Returns:
      ``LogPartition``, on the host.

    Raises:
      ValueError: if a number is out of range, or the log density of a draw is not finite.
      TypeError: if ``refit`` has positions that are not one array.

    Source: Neal 2001; Grosse, Ghahramani & Adams 2015; Bennett 1976; the powers as in Syed et al.
    2022.
    """
    for name, value in {"num_chains": num_chains, "num_powers": num_powers}.items():
        check_at_least(name, value, 2)
    check_at_least("num_steps", num_steps, 1)
    check_at_least("num_long", num_long, 0)
    check_fraction("target_acceptance", target_acceptance)
    keys = jax.random.split(key, 4)
    population: dict[str, Any] = {
        "sampler": sampler,
        "num_steps": num_steps,
        "num_chains": num_chains,
        "target": target_acceptance,
        "first_step": step_size,
    }
    if refit:
        refit_key = jax.random.fold_in(key, 1)
        base = _refit(refit_key, log_density_fn, base, num_long=num_long, **population)
    num_last = -(-num_long // (NUM_MOVES * num_steps))
    coordinates = base.coordinates
    if coordinates is not None and samples is not None:
        samples = jax.vmap(coordinates.coordinates_of)(samples)
    path, start, pilot = _populate(
        keys[0], keys[1], log_density_fn, base, num_last=num_last, **population
    )
    powers, step_sizes = _ladder(pilot, num_powers)
    samples = pilot.positions if samples is None else samples
    forward, backward = (
        anneal(one, begin, p, path.at, path.log_tilt_fn, sampler, num_steps, step_sizes=steps)
        for one, begin, p, steps in (
            (keys[2], start, powers, step_sizes),
            (keys[3], samples, powers[::-1], step_sizes[::-1]),
        )
    )
    if coordinates is not None:
        samples = run_program(jax.vmap(coordinates.place), samples)
    return _summarise(forward, backward, powers, step_sizes, samples)


class _Path(NamedTuple):
    """The densities between a base and a density, in the base's coordinates."""

    log_density_fn: LogDensityFn
    base: Base

    def at(self, power: jax.Array) -> LogDensityFn:
        # One gradient of the base, where base and tilt would take two.
        return product([self.base.log_density_fn, self.log_density_fn], [1.0 - power, power])

    def log_tilt_fn(self, x: PyTree) -> jax.Array:
        return self.log_density_fn(x) - self.base.log_density_fn(x)


def _populate(
    draw_key: Key,
    key: Key,
    log_density_fn: LogDensityFn,
    base: Base,
    *,
    num_chains: int,
    **options: Any,
) -> tuple[_Path, PyTree, "_Pilot"]:
    """Returns the path, exact draws of the base, and the pilot that went from these."""
    path = _Path(log_density_fn, base)
    if base.coordinates is not None:
        path = _Path(*_whiten(log_density_fn, base, base.coordinates))
    start = run_program(jax.vmap(path.base.draw), jax.random.split(draw_key, num_chains))
    begin = np.asarray(run_program(jax.vmap(path.log_tilt_fn), start))
    if not np.isfinite(begin).all():
        raise ValueError(
            "log_density_fn and base.log_density_fn must be finite at every draw of the base, got "
            f"{np.sum(~np.isfinite(begin))} of {num_chains} that are not. Take a narrower base."
        )
    return path, start, run_program(partial(_pilot, path=path, **options), key, start)


def _refit(
    key: Key, log_density_fn: LogDensityFn, base: Base, *, num_long: int, **population: Any
) -> Base:
    """Returns the base and a Gaussian of samples of the density, in equal parts.

    The samples are the second half of ``num_long`` steps of a first population.
    """
    shape = jax.eval_shape(base.draw, key)
    if not isinstance(shape, jax.ShapeDtypeStruct):
        raise TypeError(
            "refit fits a Gaussian to positions that are one array, got draws of the base that are "
            f"{type(shape).__name__}. Take refit=False, or make one array of them."
        )
    keys = jax.random.split(key, 4)
    path, _, pilot = _populate(keys[0], keys[1], log_density_fn, base, num_last=0, **population)

    def move(key: Key, positions: PyTree) -> PyTree:
        chain = population["sampler"](path.log_density_fn, step_size=jnp.exp(pilot.log_step_size))
        states, thinning = start_chains(keys[3], chain, positions), max(num_long // NUM_KEPT, 1)
        step = batch_step(chain.step)
        return run_chain(key, states, step, NUM_KEPT * thinning, thinning=thinning)[1]

    x = run_program(move, keys[2], pilot.positions)[:, NUM_KEPT // 2 :]
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


def _whiten(
    log_density_fn: LogDensityFn, base: Base, coordinates: FactorGaussian
) -> tuple[LogDensityFn, Base]:
    """Returns a density and its base in whitened coordinates (d,), with the same integrals."""
    volume = coordinates.log_volume()

    def whitened(density: LogDensityFn) -> LogDensityFn:
        return lambda z: density(coordinates.place(z)) + volume

    draw = lambda key: coordinates.coordinates_of(base.draw(key))  # noqa: E731
    return whitened(log_density_fn), Base(draw, whitened(base.log_density_fn))


class _Pilot(NamedTuple):
    """An annealed population and what it met at every rung.

    Attributes:
      positions: leading axis (chains,).
      power, log_step_size: scalars, now.
      count: int32, of rungs.
      powers, spreads, log_step_sizes: before every rung below t = 1, (``MOST_RUNGS``,): t, the
        standard deviation of the tilt, and the step of the moves to the next. Beyond them they are
        1 or 0.
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
    path: _Path,
    sampler: Callable[..., Sampler],
    num_steps: int,
    target: float,
    first_step: float,
    num_last: int,
) -> _Pilot:
    """Anneals a population by weights and resampling, and adapts powers and step sizes.

    ``num_last`` more rungs move it at t = 1.
    """
    tilts_of = jax.vmap(path.log_tilt_fn)

    def sample_share(step: jax.Array, tilts: jax.Array) -> jax.Array:
        return weight_sample_size(step * tilts) / len(tilts)

    def widest(power: jax.Array, tilts: jax.Array) -> jax.Array:
        """Bisects the logarithm of the widest step that keeps ``PILOT_SHARE`` of the population."""

        def halve(_: Any, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            low, high = ends
            middle = 0.5 * (low + high)
            is_kept = sample_share(jnp.exp(middle), tilts) > PILOT_SHARE
            return jnp.where(is_kept, middle, low), jnp.where(is_kept, high, middle)

        most = jnp.log1p(-power)
        low = jax.lax.fori_loop(0, 30, halve, (most - 30.0, most))[0]
        is_last = sample_share(1.0 - power, tilts) > PILOT_SHARE
        return jnp.where(is_last, 1.0, jnp.minimum(power + jnp.exp(low), 1.0))

    def rung(state: _Pilot) -> _Pilot:
        tilts = tilts_of(state.positions)
        power = widest(state.power, tilts)
        power = jnp.where(state.count >= MOST_RUNGS - 1, 1.0, power)
        pick_key, start_key, *move_keys = jax.random.split(
            jax.random.fold_in(key, state.count), 2 + NUM_MOVES * num_steps
        )
        chosen = _systematic(pick_key, (power - state.power) * tilts)
        positions = jax.tree.map(lambda leaf: leaf[chosen], state.positions)
        density = path.at(power)

        def move(carry: tuple[Any, jax.Array], key: Key) -> tuple[tuple[Any, Any], None]:
            states, log_step = carry
            chain = sampler(density, step_size=jnp.exp(log_step))
            states, info = batch_step(chain.step)(key, states)
            return (states, log_step + jnp.mean(info.acceptance_prob) - target), None

        chain = sampler(density, step_size=jnp.exp(state.log_step_size))
        carry = start_chains(start_key, chain, positions), state.log_step_size
        (states, log_step), _ = jax.lax.scan(move, carry, jnp.stack(move_keys))
        place = jnp.where(state.power < 1.0, state.count, MOST_RUNGS)  # beyond it nothing is set
        return _Pilot(
            position_of(states),
            power,
            log_step,
            state.count + 1,
            state.powers.at[place].set(state.power),
            state.spreads.at[place].set(jnp.std(tilts)),
            state.log_step_sizes.at[place].set(log_step),
        )

    def is_due(state: _Pilot) -> jax.Array:
        return (state.power < 1.0) | (state.count < jnp.sum(state.powers < 1.0) + num_last)

    log_step, ones = jnp.log(jnp.float32(first_step)), jnp.ones(MOST_RUNGS)
    first = _Pilot(start, jnp.float32(0), log_step, jnp.int32(0), ones, 0 * ones, 0 * ones)
    return jax.lax.while_loop(is_due, rung, first)


NUM_MOVES, NUM_KEPT = 10, 40
"""Moves of the pilot's population at a power, for one of a chain's, and positions of a chain, to
the second half of which a base is fitted."""


def _systematic(key: Key, log_weights: jax.Array) -> jax.Array:
    """Returns the indices (n,) of systematic resampling by weights (n,)."""
    ends = jnp.cumsum(jax.nn.softmax(log_weights))
    places = (jnp.arange(len(ends)) + jax.random.uniform(key)) / len(ends)
    return jnp.minimum(jnp.searchsorted(ends, places), len(ends) - 1)


def _ladder(pilot: _Pilot, num_powers: int) -> tuple[jax.Array, jax.Array]:
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


def _summarise(
    forward: AnnealedSamples, backward: AnnealedSamples, powers: Any, step_sizes: Any, samples: Any
) -> LogPartition:
    ours, theirs = (np.asarray(one.log_weights, np.float64) for one in (forward, backward))
    lower, negated = (
        Estimate(*map(float, log_mean_exp(jnp.asarray(one)))) for one in (ours, theirs)
    )
    upper = Estimate(-negated.value, negated.standard_error)
    rng = np.random.default_rng(0)
    ends = [_low_end(rng, ours), -_low_end(rng, theirs)]
    sizes = np.array([float(weight_sample_size(jnp.asarray(one))) for one in (ours, theirs)])
    gap = abs(upper.value - lower.value)
    is_closed = bool(gap < 1.0 + 2.0 * np.hypot(lower.standard_error, upper.standard_error))
    acceptance = forward.infos.acceptance_prob.mean(axis=1)
    return LogPartition(
        _bennett(ours, theirs),
        np.array(ends),
        lower,
        upper,
        is_closed,
        sizes,
        np.asarray(acceptance),
        np.asarray(powers),
        np.asarray(step_sizes),
        samples,
    )


def _low_end(rng: np.random.Generator, log_weights: np.ndarray) -> float:
    """Returns a number that lies above the log of the expected weight in about 1 % of cases.

    That is a percentile of the log mean weight of resampled chains. One chain may outweigh all, and
    most resamples lack it. Then Markov's inequality is sharper: a mean exceeds 100 times its
    expectation in 1 % of cases at most.
    """
    highest = log_weights.max()
    weights = np.exp(log_weights - highest)
    drawn = rng.choice(weights, (NUM_RESAMPLES, len(weights))).mean(axis=1)
    ends = np.log([np.percentile(drawn, TAIL), weights.mean() * TAIL / 100])
    return float(highest + ends.max())


def _bennett(forward: np.ndarray, backward: np.ndarray) -> float:
    """Returns the log Z that both sides agree on best, from log weights of Z and of 1 / Z.

    Source: Bennett 1976; Crooks 2000 for paths.
    """
    shift = np.log(len(forward) / len(backward))

    def surplus(log_z: float) -> float:
        ours = special.expit(-shift - (forward - log_z)).sum()
        theirs = special.expit(shift - (backward + log_z)).sum()
        return float(ours - theirs)

    ends = min(forward.min(), -backward.max()) - 50.0, max(forward.max(), -backward.min()) + 50.0
    return float(optimize.root_scalar(surplus, bracket=ends).root)
