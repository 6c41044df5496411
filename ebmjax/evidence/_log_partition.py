"""log Z of any density, in an interval: annealing from a base density, forward and in reverse."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize, special

from ebmjax._checks import check_at_least, check_fraction
from ebmjax.evidence._annealing import AnnealedSamples, anneal
from ebmjax.evidence._bases import Base
from ebmjax.evidence._pilot import place_powers, populate, refit_base
from ebmjax.evidence._weights import Estimate, log_mean_exp, weight_sample_size
from ebmjax.samplers import (
    Autoregressive,
    batch_step,
    mala,
    position_of,
    run_chain,
    start_chains,
    tilted_metropolis,
)
from ebmjax.types import Key, LogDensityFn, PyTree, Sampler

NUM_RESAMPLES, TAIL = 1000, 1.0
"""Resamples of the bootstrap, and percent of them beyond an end of the interval."""


class LogPartition(NamedTuple):
    """log Z of a density, from both sides.

    Attributes:
      value: Bennett's estimate of log Z from both sides, in nats.
      interval: (2,), ends between which log Z lies: the first percentile of ``lower``, and the last
        one of ``upper``, by a bootstrap over chains or by Markov's inequality. In trials it held
        log Z in 96 to 99 of 100 seeds. Ends that cross show that the reverse chains missed a mode.
        Then the first alone is a bound.
      lower: log mean weight of chains from the base; below log Z in expectation.
      upper: minus the log mean weight of chains from the model's samples. It is above log Z in
        expectation if these are exact, and else only if they are right.
      is_closed: whether the two sides meet within a nat and their errors.
      sample_sizes: effective number of chains of each side, (2,).
      acceptance_prob: of the moves at every power above 0, (num_powers - 1,).
      powers: (num_powers,), from 0 to 1.
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
    a lower bound of log Z in expectation, chains from samples of the density an upper one. That is
    a bound only if ``samples`` are exact. Without them the pilot's end, moved by ``num_long`` steps
    more, takes their place: a mode that base and pilot both miss is missed.

    Args:
      key: consumed.
      log_density_fn: one position to a scalar, unnormalised.
      base: q, exact draws and a normalised log density; wide enough to cover the density. Where it
        has ``coordinates``, chains move in these.
      sampler: ``sampler(log_density_fn, step_size=)`` that leaves its density invariant: MALA, HMC,
        not SGLD.
      step_size, target_acceptance: where the pilot's step begins, and what it adapts to.
      num_chains: of each side.
      num_powers: of the ladder, both ends included. The cost is ``2 num_powers num_steps``
        gradients a chain, and the pilot's.
      num_steps: at every power.
      samples: exact samples of the density, leading axis (chains,); None for the pilot's end.
      num_long: steps that move the pilot's end, or a few more.
      refit: whether a Gaussian of the density's samples, by a first pilot, joins the base in equal
        parts. Positions are one array then. The ladder is shorter where the base is far away.

    Raises:
      ValueError: if a number is out of range, or the log density of a draw is not finite.

    Source: Neal 2001; Grosse, Ghahramani & Adams 2015; Bennett 1976; the powers as in Syed et al.
    2022.
    """
    for name, value in {"num_chains": num_chains, "num_powers": num_powers}.items():
        check_at_least(name, value, 2)
    check_at_least("num_steps", num_steps, 1)
    check_at_least("num_long", num_long, 0)
    check_fraction("target_acceptance", target_acceptance)
    keys = jax.random.split(key, 4)
    population: dict[str, Any] = {"sampler": sampler, "num_steps": num_steps}
    population |= {"num_chains": num_chains, "num_long": num_long}
    population |= {"target": target_acceptance, "first_step": step_size}
    if refit:
        base = refit_base(jax.random.fold_in(key, 1), log_density_fn, base, **population)
    coordinates = base.coordinates
    if coordinates is not None and samples is not None:
        samples = jax.vmap(coordinates.coordinates_of)(samples)
    path, start, pilot = populate(keys[0], keys[1], log_density_fn, base, **population)
    powers, step_sizes = place_powers(pilot, num_powers)
    ends: Any = pilot.positions if samples is None else samples

    @jax.jit  # one program for both sides
    def weigh(key: Key, begin: Any, powers: jax.Array, steps: jax.Array) -> AnnealedSamples:
        return anneal(
            key, begin, powers, path.at, path.log_tilt_fn, sampler, num_steps, step_sizes=steps
        )

    forward = weigh(keys[2], start, powers, step_sizes)
    backward = weigh(keys[3], ends, powers[::-1], step_sizes[::-1])
    if coordinates is not None:
        ends = jax.vmap(coordinates.place)(ends)
    return _summarise(forward, backward, powers, ends)


def tilted_log_partition(
    key: Key,
    tilt_fn: LogDensityFn,
    base: Autoregressive,
    *,
    num_chains: int = 64,
    num_powers: int = 100,
    num_long: int = 50,
) -> LogPartition:
    r"""Returns log Z of :math:`q\, e^f` in an interval, :math:`\log E_q e^f`, by redraws of q.

    Chains from draws of q give the lower side. Their ends, moved by ``num_long`` steps more, begin
    the upper one.

    Args:
      key: consumed.
      tilt_fn: f, one position to a scalar.
      base: q.
      num_chains: of each side.
      num_powers: of the ladder from q to the density, at equal distances.
      num_long: steps at the density before the reverse chains.

    Source: as ``log_partition``.
    """
    keys, powers = jax.random.split(key, 4), jnp.linspace(0.0, 1.0, num_powers)
    sampler = partial(tilted_metropolis, base=base)

    @jax.jit  # one program for both sides
    def weigh(key: Key, begin: Any, powers: jax.Array) -> AnnealedSamples:
        at = lambda power: lambda x: power * tilt_fn(x)  # noqa: E731
        return anneal(key, begin, powers, at, tilt_fn, sampler, 1)

    @jax.jit
    def move(key: Key, positions: jax.Array) -> jax.Array:
        chain = sampler(tilt_fn)
        states = start_chains(key, chain, positions)
        return position_of(run_chain(key, states, batch_step(chain.step), num_long)[0])

    forward = weigh(keys[1], jax.vmap(base.draw_any)(jax.random.split(keys[0], num_chains)), powers)
    ends = move(keys[2], forward.positions)
    return _summarise(forward, weigh(keys[3], ends, powers[::-1]), powers, ends)


def _summarise(
    forward: AnnealedSamples, backward: AnnealedSamples, powers: Any, samples: Any
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
    value, ends = _bennett(ours, theirs), np.array(ends)
    acceptance, powers = np.asarray(acceptance), np.asarray(powers)
    return LogPartition(value, ends, lower, upper, is_closed, sizes, acceptance, powers, samples)


def _low_end(rng: np.random.Generator, log_weights: np.ndarray) -> float:
    """Returns a number that lies above the log of the expected weight in about 1 % of cases.

    That is a percentile of the log mean weight of resampled chains. Where one chain outweighs all,
    Markov's inequality is sharper: a mean exceeds 100 times its expectation in 1 % of cases.
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
