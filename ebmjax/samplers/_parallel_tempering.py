"""Non-reversible parallel tempering: replicas at several powers that exchange their positions."""

from functools import partial
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax._checks import (
    check_at_least,
    check_floating,
    check_positive,
    check_powers,
    check_scalar_density,
    is_traced,
)
from ebmjax._precision import at_least_float32
from ebmjax._ranges import COUNT, POSITIVE, optional
from ebmjax.samplers._bound import bound
from ebmjax.samplers._chains import start_chain, trace_chain
from ebmjax.samplers._langevin import acceptance_probability
from ebmjax.samplers._mala import mala
from ebmjax.samplers._states import acceptance_of, check_state, position_of
from ebmjax.types import Key, LogDensityFn, PyTree

POWERS = (0.1, 0.3, 1.0)
"""A ladder without a base density, for a first try."""


class HotReplicas(NamedTuple):
    """The replicas below power 1, leading axis (num_powers - 1,), from the lowest power up."""

    position: PyTree


class ParallelTemperingState(NamedTuple):
    """One position at each power, valid under any density: that at power 1, and the others.

    ``parity``, 0 or 1, says whether the next swaps are those of pairs 0, 2, ... or 1, 3, ...
    """

    position: PyTree
    hot: HotReplicas
    parity: jax.Array


class ParallelTemperingInfo(NamedTuple):
    """Report of one step. Pair i is that of powers i and i + 1.

    Attributes:
      acceptance_prob: scalar, mean over powers and moves; None if the sampler reports none.
      swap_prob: (num_powers - 1,), probability that each pair would be swapped, tried or not.
      is_swapped: (num_powers - 1,) bool; only every other pair is tried.
    """

    acceptance_prob: jax.Array | None
    swap_prob: jax.Array
    is_swapped: jax.Array


def parallel_tempering_init(
    position: PyTree, log_density_fn: LogDensityFn, *, powers: Any = POWERS
) -> ParallelTemperingState:
    """Starts a replica at ``position`` for each of ``powers``, a ladder; evaluates nothing."""
    check_floating("position", position)
    num = len(_read(powers))
    position = jax.tree.map(lambda x: jnp.asarray(x, jnp.result_type(x)), position)
    check_scalar_density(log_density_fn, position)
    hot = jax.tree.map(lambda x: jnp.stack([x] * (num - 1)), position)
    return ParallelTemperingState(position, HotReplicas(hot), jnp.int32(0))


def parallel_tempering_step(
    key: Key,
    state: ParallelTemperingState,
    log_density_fn: LogDensityFn,
    *,
    powers: Any = POWERS,
    step_size: Annotated[Any, optional(POSITIVE)] = None,
    sampler: Any = mala,
    log_base_fn: LogDensityFn | None = None,
    num_steps: Annotated[int, COUNT] = 1,
) -> tuple[ParallelTemperingState, ParallelTemperingInfo]:
    r"""Swaps neighbours, every other pair in turn, and then moves every replica.

    .. math::
        f_t = (1 - t) \log q + t f, \qquad
        \alpha_i = \min\big(1,\, e^{(t_{i+1} - t_i)(w_i - w_{i+1})}\big), \qquad w = f - \log q

    Each replica has the law :math:`e^{f_t}` of its power, and the one at power 1 that of f. Even
    and odd pairs take turns, so that replicas travel in one direction until a swap is refused.
    After the swaps the sampler's states start anew: MALA's score, others' velocity. So a step costs
    ``num_steps + 1`` gradients and one evaluation a replica.

    Args:
      powers: (num_powers,), increasing to 1. From 0 with a base density, above 0 without.
      step_size: of ``sampler``, positive: a scalar or (num_powers,). None if it has one.
      sampler: log density to a sampler of one position that leaves it invariant, such as ``mala``
        or a kernel of BlackJAX. It is called with ``step_size=`` where that is given.
      log_base_fn: log q, position to scalar; None for :math:`f_t = t f`.
      num_steps: moves between swaps (static).

    Source: Syed, Bouchard-Cote, Deligiannidis & Doucet 2022 (JRSS-B 84); Okabe et al. 2001.
    """
    powers = _read(powers)
    _check(state, powers, step_size, log_base_fn)
    check_at_least("num_steps", num_steps, 1)
    num = len(powers)
    places = jax.tree.map(
        lambda hot, cold: jnp.concatenate([hot, cold[None]]), state.hot.position, state.position
    )
    coin_key, first_key, move_key = jax.random.split(key, 3)

    def log_ratio(position: PyTree) -> jax.Array:
        base = 0.0 if log_base_fn is None else log_base_fn(position)
        return at_least_float32(log_density_fn(position) - base)

    log_ratios = jax.vmap(log_ratio)(places)
    log_odds = jnp.diff(powers) * (log_ratios[:-1] - log_ratios[1:])
    swap_prob = acceptance_probability(log_odds, log_ratios[:-1])
    is_heads = jax.random.uniform(coin_key, swap_prob.shape, swap_prob.dtype) < swap_prob
    is_swapped = is_heads & (jnp.arange(num - 1) % 2 == state.parity)
    # The replica that goes to each power: of a swapped pair the other one.
    order = jnp.arange(num) + jnp.pad(is_swapped, (0, 1)) - jnp.pad(is_swapped, (1, 0))
    steps = {}
    if step_size is not None:
        steps["step_size"] = jnp.broadcast_to(jnp.asarray(step_size), (num,))

    def move(key: Key, keys: Key, place: PyTree, power: jax.Array, step: Any) -> Any:
        chain = sampler(partial(_along, log_density_fn, log_base_fn, power), **step)
        first = start_chain(key, chain, place)
        last, accepted = trace_chain(keys, first, chain.step, lambda _, info: acceptance_of(info))
        return position_of(last), accepted

    keys = jax.vmap(partial(jax.random.split, num=num))(jax.random.split(move_key, num_steps))
    first_keys = jax.random.split(first_key, num)
    starts = jax.tree.map(lambda leaf: leaf[order], places)
    moved, accepted = jax.vmap(move, (0, 1, 0, 0, 0))(first_keys, keys, starts, powers, steps)
    hot, position = (jax.tree.map(lambda leaf, at=at: leaf[at], moved) for at in (np.s_[:-1], -1))
    state = ParallelTemperingState(position, HotReplicas(hot), 1 - state.parity)
    mean = jax.tree.map(jnp.mean, accepted)
    return state, ParallelTemperingInfo(mean, swap_prob, is_swapped)


parallel_tempering = bound(
    parallel_tempering_init, parallel_tempering_step, rejects=True, adapts=True
)


def _along(
    log_density_fn: LogDensityFn, log_base_fn: LogDensityFn | None, power: jax.Array, x: PyTree
) -> jax.Array:
    """Returns ``(1 - power) log q + power f``; a density of weight 0 may be anything, also -inf."""
    value = power * log_density_fn(x)
    if log_base_fn is None:
        return value
    base = (1.0 - power) * log_base_fn(x)
    return jnp.where(power > 0, value, 0.0) + jnp.where(power < 1, base, 0.0)


def _read(powers: Any) -> Any:
    """Returns ``powers`` as an array, on the host where they are known, once they are a ladder."""
    powers = powers if is_traced(powers) else np.asarray(powers, jnp.result_type(float))
    check_powers(powers)
    return powers


def _check(state: Any, powers: Any, step_size: Any, log_base_fn: Any) -> None:
    check_state(state, *ParallelTemperingState._fields)
    num, many = len(powers), jnp.shape(state.parity)
    found = jax.tree.leaves(state.hot.position)[0].shape[len(many)] + 1
    if many != () or found != num:
        raise ValueError(
            f"state must be that of one chain with {num} powers, got {found} replicas of chains of "
            f"shape {many}. Call init with these powers; step many chains with "
            "ebmjax.samplers.batch_step(step)."
        )
    if not is_traced(powers) and (powers[-1] != 1.0 or (powers[0] == 0.0 and log_base_fn is None)):
        raise ValueError(
            "powers must end at 1, the law of state.position, and begin above 0 without a "
            f"log_base_fn; got ends {powers[0]:g} and {powers[-1]:g}."
        )
    if step_size is not None:
        check_positive("step_size", step_size)
        if np.shape(step_size) not in ((), (num,)):
            raise ValueError(
                f"step_size must be a scalar or one for each of the {num} powers, got shape "
                f"{np.shape(step_size)}."
            )
