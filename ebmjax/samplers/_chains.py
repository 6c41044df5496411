"""Drivers: many steps of one chain, one step of many chains."""

import dataclasses
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax._axes import place_carry, rows_like
from ebmjax._checks import check_at_least, check_key, leading_size
from ebmjax.samplers._states import position_of
from ebmjax.types import Info, Key, PyTree, State, Step


def start_key(key: Key) -> Key:
    """Returns a key for the start of chains that ``key`` runs, different from that of any step."""
    return jax.random.fold_in(key, 2**32 - 1)


def start_chain(key: Key, sampler: Any, position: PyTree) -> Any:
    """Returns ``sampler.init(position, key)``, or ``sampler.init(position)`` if it takes no key.

    Args:
      key: consumed where it is taken; ``start_key(key)`` of the key that runs the chain.
      sampler: a ``Sampler``, or a BlackJAX ``SamplingAlgorithm``.
      position: of one chain, or all particles that move together.
    """
    try:
        inspect.signature(sampler.init).bind(position, key)
    except TypeError:
        return sampler.init(position)
    return sampler.init(position, key)


def start_chains(key: Key, sampler: Any, positions: PyTree) -> Any:
    """Returns the states of independent chains, for a step from ``batch_step``.

    Args:
      key: may be the one that runs the chains, since ``start_key`` of it is split among them.
      sampler: as ``start_chain`` takes it.
      positions: PyTree whose leaves share a leading axis of chains.
    """
    keys = jax.random.split(start_key(key), leading_size("positions", positions))
    inputs = rows_like((keys, positions), positions)
    return jax.vmap(lambda key, position: start_chain(key, sampler, position))(*inputs)


@dataclasses.dataclass(frozen=True, eq=False)
class BatchStep:
    """Step of many chains, from ``batch_step``; lets ``run_chain`` know the axis of chains.

    Attributes:
      step: of one chain.
    """

    step: Step

    def __call__(self, key: Key, states: Any) -> tuple[Any, Any]:
        """Moves every chain one step, each with a separate key."""
        num_chains = leading_size("states", states)
        # On an explicit mesh, vmap needs all mapped arguments to be spread in the same way.
        inputs = rows_like((jax.random.split(key, num_chains), states), states)
        return jax.vmap(self.step)(*inputs)


def batch_step(step: Step) -> BatchStep:
    """Returns a step that moves many independent chains at once, from the step of one.

    States have a leading axis of chains (from ``jax.vmap(init)`` or ``start_chains``). The key is
    split into one for each chain; infos gain the same axis. Where that axis is spread over the
    devices of an explicit mesh, the keys are too.
    """
    _check_step(step)
    return BatchStep(step)


def _check_step(step: Any) -> None:
    """Raises TypeError for a whole sampler in place of its step, and for swapped arguments."""
    if not callable(step):
        hint = " Pass its step: sampler.step." if hasattr(step, "step") else ""
        raise TypeError(
            "step must be a function (key, state) -> (state, info), got "
            f"{type(step).__name__}.{hint}"
        )
    names = list(inspect.signature(step).parameters)
    if names[:1] == ["state"]:
        raise TypeError(f"step must be a function (key, state) -> (state, info), got {names}.")


def trace_chain(
    keys: PyTree,
    state: State,
    step: Callable[[Key, State], tuple[State, Any]],
    report: Callable[[Any, Any], PyTree] = lambda state, info: None,
    *,
    unroll: int = 1,
) -> tuple[State, PyTree]:
    """Takes a step for each key; returns the last state and ``report(state, info)`` of every step.

    ``run_chain`` keeps positions and infos, which may fill the memory.

    Args:
      keys: (num_steps, ...); with ``jax.random.split(key, num_steps)`` the steps are those of
        ``run_chain``.
      step: ``step(key, state) -> (state, info)``.
      report: what is kept of a step, from the state that it led to and its info; reports gain a
        leading axis of steps.
      unroll: see ``run_chain``.
    """
    leading_size("keys", keys)

    def advance(state: Any, key: Key) -> tuple[Any, PyTree]:
        state, info = step(key, state)
        return state, report(state, info)

    return jax.lax.scan(advance, state, keys, unroll=unroll)


def run_chain(
    key: Key,
    state: State,
    step: Callable[[Key, State], tuple[State, Info]],
    num_steps: int,
    *,
    burn_in: int = 0,
    thinning: int = 1,
    unroll: int = 1,
) -> tuple[State, PyTree, Info]:
    """Takes ``num_steps`` steps and keeps every ``thinning``-th position after ``burn_in``.

    The trajectory depends on ``key`` and ``num_steps`` alone. Burn-in and thinning choose what is
    kept, and only that takes memory.

    Args:
      key: split into one key a step.
      state: one chain's; many chains' with a step from ``batch_step``; any BlackJAX state.
      step: ``step(key, state) -> (state, info)`` of a ``Sampler`` or of BlackJAX.
      num_steps: steps in all, burn-in included (static).
      burn_in: first steps, of which nothing is kept (static).
      thinning: the last of every ``thinning`` steps is kept (static).
      unroll: steps written out per turn of the compiled loop (static). XLA's own convolutions lose
        their threads inside a CPU loop, and run faster with ``unroll=num_steps``.

    Returns:
      The final state; the kept positions; the infos of the steps that led to them. Both gain an
      axis of ``(num_steps - burn_in) // thinning`` draws: ``(draws, ...)`` for one chain, and
      ``(chains, draws, ...)`` for a step from ``batch_step``, also in ``jax.jit``, as
      ``ebmjax.metrics`` and ArviZ read draws.
    """
    check_key("key", key)
    _check_step(step)
    position_of(state)  # raises TypeError for a state without one
    check_at_least("num_steps", num_steps, 1)
    check_at_least("thinning", thinning, 1)
    check_at_least("burn_in", burn_in, 0)
    if burn_in > num_steps:
        raise ValueError(
            f"burn_in must be at most num_steps, which counts it; got burn_in={burn_in} and "
            f"num_steps={num_steps}."
        )
    num_draws = (num_steps - burn_in) // thinning
    axis = 1 if isinstance(inspect.unwrap(step), BatchStep) else 0

    def outcome(state: Any, info: Any) -> tuple[PyTree, PyTree]:
        return position_of(state), info

    # One loop, whose body is compiled once. Every step writes to the draw it leads to and the last
    # one stays, so burn-in and thinning need no separate loop.
    def advance(inputs: Any, carry: tuple[Any, PyTree]) -> tuple[tuple[Any, PyTree], None]:
        state, draws = carry
        key, draw, is_kept = inputs
        state, info = step(key, state)
        if num_draws:
            write = partial(_write, axis=axis, index=draw, is_kept=is_kept)
            draws = jax.tree.map(write, draws, outcome(state, info))
        return (state, draws), None

    step_index = np.arange(num_steps)
    draw = np.clip((step_index - burn_in) // thinning, 0, max(num_draws - 1, 0))
    is_kept = step_index < burn_in + num_draws * thinning

    keys = jax.random.split(key, num_steps)
    try:
        state, shapes = place_carry(step, keys, state)
        empty = jax.tree.map(partial(_room, axis=axis, num_draws=num_draws), outcome(*shapes))
        start = state, empty
        (state, (positions, infos)), _ = trace_chain(
            (keys, draw, is_kept), start, advance, unroll=unroll
        )
    except (TypeError, ValueError) as error:
        if axis == 0:
            error.add_note("If state holds many chains, give run_chain batch_step(step).")
        raise
    return state, positions, infos


def _room(leaf: jax.ShapeDtypeStruct, *, axis: int, num_draws: int) -> jax.Array:
    """Returns zeros for ``num_draws`` of ``leaf`` along a new ``axis``, on its devices."""
    shape = (*leaf.shape[:axis], num_draws, *leaf.shape[axis:])
    dimensions = [i for i in range(len(shape)) if i != axis]
    return jax.lax.broadcast_in_dim(jnp.zeros_like(leaf), shape, dimensions)


def _write(draws: jax.Array, new: jax.Array, *, axis: int, index: Any, is_kept: Any) -> jax.Array:
    old = jax.lax.dynamic_index_in_dim(draws, index, axis, keepdims=False)
    return jax.lax.dynamic_update_index_in_dim(draws, jnp.where(is_kept, new, old), index, axis)
