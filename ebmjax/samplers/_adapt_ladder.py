"""A ladder of powers for parallel tempering, placed by the rejections of its swaps."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax._checks import check_at_least, check_fraction, leading_size
from ebmjax._programs import make_program
from ebmjax.samplers._chains import batch_step, run_chain
from ebmjax.samplers._mala import mala
from ebmjax.samplers._parallel_tempering import ParallelTemperingState, parallel_tempering
from ebmjax.types import Key, LogDensityFn, PyTree

LEAST_REJECTION = 1e-3
"""Rejection that a pair counts with at least, so that no two powers fall together."""


class Ladder(NamedTuple):
    """An adapted ladder, with what its last round measured at just these powers and steps.

    Attributes:
      powers: (num_powers,).
      step_sizes: (num_powers,); None if the sampler has its step.
      rejections: (num_powers - 1,), mean probability that a swap of each pair is refused.
      round_trip_rate: round trips a step, of all replicas of a chain, mean over chains.
      log_ratios: (chains, draws, num_powers), for ``ebmjax.evidence.tempering_log_partition``.
      states: of the chains at its end, for a step from ``batch_step``.
    """

    powers: np.ndarray
    step_sizes: np.ndarray | None
    rejections: np.ndarray
    round_trip_rate: float
    log_ratios: np.ndarray
    states: ParallelTemperingState

    @property
    def barrier(self) -> float:
        """Sum of the rejections, which hardly depends on the number of powers."""
        return float(np.sum(self.rejections))

    @property
    def best_rate(self) -> float:
        """Rate of round trips that no ladder exceeds, ``1 / (2 + 2 barrier)``."""
        return 1.0 / (2.0 + 2.0 * self.barrier)


def adapt_ladder(
    key: Key,
    positions: PyTree,
    log_density_fn: LogDensityFn,
    *,
    powers: Any,
    step_size: Any = None,
    sampler: Any = mala,
    log_base_fn: LogDensityFn | None = None,
    num_steps: int = 1,
    num_rounds: int = 7,
    first_round: int = 32,
    target_acceptance: float | None = None,
) -> Ladder:
    r"""Places the powers so that every pair rejects as many swaps.

    .. math::
        \Lambda(t_i) = \sum_{j < i} E(1 - \alpha_j), \qquad
        \Lambda(t'_i) = \tfrac{i}{n}\, \Lambda(1)

    Rounds double in length. Each estimates the barrier :math:`\Lambda` on the powers that it has,
    interpolates it by a monotone cubic, and places the next round's powers at equal steps of it.
    The last round changes nothing: its draws are those of a fixed ladder.

    Args:
      key: consumed.
      positions: where chains start, leading axis (chains,).
      log_density_fn, log_base_fn, sampler, num_steps: as in ``parallel_tempering_step``.
      powers: the first ladder; it decides the ends and the number of powers.
      step_size: where the steps begin, a scalar or (num_powers,); None if the sampler has one.
      num_rounds: at least 1.
      first_round: steps of the first round; all take ``first_round * (2**num_rounds - 1)``.
      target_acceptance: that each power's step adapts to before the last round, if there is a
        ``step_size`` and ``sampler`` reports an acceptance; None to keep ``step_size``.

    Source: Syed, Bouchard-Cote, Deligiannidis & Doucet 2022, Algorithm 4.
    """
    for name, value in {"num_rounds": num_rounds, "first_round": first_round}.items():
        check_at_least(name, value, 1)
    leading_size("positions", positions)
    if target_acceptance is not None:
        check_fraction("target_acceptance", target_acceptance)
    options = {"sampler": sampler, "log_base_fn": log_base_fn, "num_steps": num_steps}
    bind = partial(parallel_tempering, log_density_fn, **options)

    def block(key: Key, states: Any, powers: jax.Array, log_steps: Any) -> tuple[Any, Any]:
        bound = bind(powers=powers, step_size=jax.tree.map(jnp.exp, log_steps))
        states, _, infos = run_chain(key, states, batch_step(bound.step), first_round)
        return states, infos

    first = bind(powers=powers, step_size=step_size)
    states = jax.vmap(first.init)(positions)
    info = jax.eval_shape(batch_step(first.step), key, states)[1]  # and checks known numbers
    if target_acceptance is not None and (step_size is None or info.acceptance_prob is None):
        raise ValueError(
            "target_acceptance adapts step_size to the acceptance that sampler reports; give a "
            "step_size and such a sampler, or leave it out."
        )
    powers, log_steps = np.asarray(powers, np.float64), None
    if step_size is not None:
        log_steps = np.log(np.broadcast_to(np.asarray(step_size, np.float64), powers.shape))
    in_float32 = partial(jax.tree.map, jnp.float32)
    program = make_program(block, key, states, *in_float32((powers, log_steps)))
    for index in range(num_rounds):
        found, before, is_last = [], states.num_round_trips, index == num_rounds - 1
        for _ in range(2**index):
            key, own = jax.random.split(key)
            states, infos = program(own, states, *in_float32((powers, log_steps)))
            found.append(infos)
            if target_acceptance is not None and not is_last:
                accepted = np.mean(infos.acceptance_by_power, (0, 1))
                log_steps = np.asarray(log_steps) + accepted - target_acceptance
        rejections = 1.0 - np.stack([one.swap_prob for one in found]).mean((0, 1, 2), np.float64)
        if not is_last:
            old, powers = powers, _place(powers, rejections)
            log_steps = None if log_steps is None else np.interp(powers, old, log_steps)
    trips = np.mean(np.asarray(states.num_round_trips - before))
    return Ladder(
        powers.astype(np.float32),
        None if log_steps is None else np.exp(log_steps).astype(np.float32),
        rejections,
        float(trips) / (first_round * len(found)),
        np.concatenate([one.log_ratios for one in found], axis=1),
        states,
    )


def _place(powers: np.ndarray, rejections: np.ndarray) -> np.ndarray:
    """Returns as many powers, at equal steps of the sum of rejections."""
    from scipy.interpolate import PchipInterpolator  # late: it takes long to import

    barrier = np.append(0.0, np.cumsum(np.maximum(rejections, LEAST_REJECTION)))
    placed = PchipInterpolator(barrier, powers)(np.linspace(0.0, barrier[-1], len(powers)))
    placed[[0, -1]] = powers[[0, -1]]
    return placed
