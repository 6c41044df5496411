"""Trains several seeds of a run as one program, with stacked states."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax.training._state import TrainState, state_axes
from ebmjax.training._step import TrainStep
from ebmjax.types import Key, Metrics, PyTree

# Axis of repeats of each field of a stacked state. For carry it follows the axis that is split
# over devices; all repeats share the step.
_AXES: Any = state_axes(0, 1)._replace(step=None)


def stack_states(states: Sequence[TrainState]) -> TrainState:
    """Stacks R states of single runs into one state of R repeats.

    Args:
      states: at least one, all with the same steps taken, structure and shapes.

    Returns:
      ``step`` stays a scalar; ``params``, ``opt_state``, ``skipped`` and ``consecutive_skipped``
      have a leading axis of R, and the leaves of ``carry`` have shape (logical shards, R, ...).

    Example:
      >>> import optax
      >>> from ebmjax.training import init_state
      >>> states = [init_state(jnp.zeros(3), optax.sgd(0.1), jnp.zeros((8, 2))) for _ in range(5)]
      >>> state = stack_states(states)
      >>> state.step.shape, state.params.shape, state.carry.shape
      ((), (5, 3), (8, 5, 2))
    """
    if not states:
        raise ValueError("states must hold at least one state, the number of repeats; got none.")
    steps = [int(state.step) for state in states]
    if len(set(steps)) > 1:
        raise ValueError(f"states must have taken the same number of steps, got {steps}.")

    def stack(axis: int | None, *parts: PyTree) -> PyTree:
        if axis is None:
            return parts[0]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves, axis), *parts)

    return TrainState(*map(stack, _AXES, *states))


def select_repeat(state: TrainState, index: int) -> TrainState:
    """Returns the state of repeat ``index`` of a stacked state, as a single run's; copied.

    It also works on a state restored from a checkpoint.

    Args:
      state: from ``stack_states`` or a run of repeats.
      index: from 0 to R - 1.
    """
    repeats = jnp.shape(state.skipped)
    if not repeats:
        raise ValueError("state is that of a single run; only stack_states makes repeats.")
    if not 0 <= index < repeats[0]:  # JAX would silently take the nearest one
        raise ValueError(f"index must lie between 0 and {repeats[0] - 1}, got index={index}.")

    def select(axis: int | None, part: PyTree) -> PyTree:
        if axis is None:
            return jax.tree.map(jnp.copy, part)
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[(slice(None),) * axis + (index,)], part)

    return TrainState(*map(select, _AXES, state))


def single_shard(state: TrainState) -> tuple[PyTree, PyTree]:
    """Returns parameters and carry as a ``gradient_fn`` sees them: ``jax.ShapeDtypeStruct``."""

    def select(state: TrainState) -> tuple[PyTree, PyTree]:
        one = select_repeat(state, 0) if jnp.ndim(state.skipped) else state
        return one.params, jax.tree.map(lambda leaf: leaf[0], one.carry)

    return jax.eval_shape(select, state)


def repeats_take_turns() -> bool:
    """Returns whether ``repeat_step`` computes one repeat after the other, as on a CPU."""
    return jax.default_backend() == "cpu"


def repeat_step(train_step: TrainStep) -> TrainStep:
    """Returns the step of all repeats, as ``fit`` runs it for many keys.

    Accelerators compute all repeats at once, by ``vmap``. On a CPU repeats take turns within the
    same program: several at once would only share caches and cores (measured in docs/training.md).

    Args:
      train_step: a single run's, from ``make_train_step``.

    Returns:
      ``step(keys, state, batch) -> (state, metrics)``, pure: keys (R,), a state from
      ``stack_states``, leaves of ``batch`` of shape (shards of this device, R, examples of a shard,
      ...). Metrics have a leading axis of R. Repeats, and their skipped steps, do not affect each
      other.
    """
    if repeats_take_turns():
        train_step = jax.custom_batching.sequential_vmap(train_step)
    # If repeats take turns, each returns a number of steps.
    repeated = jax.vmap(train_step, in_axes=(0, _AXES, 1), out_axes=(_AXES._replace(step=0), 0))

    def step(keys: Key, state: TrainState, batch: PyTree) -> tuple[TrainState, Metrics]:
        state, metrics = repeated(keys, state, batch)
        return state._replace(step=state.step[0]), metrics

    return step
