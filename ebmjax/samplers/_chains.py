"""Drivers: many steps of one chain, one step of many chains."""

from typing import Any

import jax

from ebmjax._checks import check_at_least, check_key, check_state, check_step, leading_size
from ebmjax.types import Key, PyTree, Step


def position_of(state: Any) -> PyTree:
    """Where a chain stands: ``state.position``, or ``state.particles`` of particle samplers.

    Raises:
      TypeError: if ``state`` has neither.
    """
    if hasattr(state, "particles"):
        return state.particles
    check_state(state, "position")
    return state.position


def _check_chain(state: Any, step: Step) -> None:
    """Raises TypeError for a step that is no function and for a state that has no position."""
    check_step(step)
    position_of(state)


def batch_step(step: Step) -> Step:
    """The step of many independent chains at once, from the step of one.

    Args:
      step: ``step(key, state) -> (state, info)`` of one chain.

    Returns:
      A step over states whose leaves share a leading axis of chains (from ``jax.vmap(init)``).
      The key is split into one for each chain; infos gain the same axis.

    Raises:
      TypeError: if ``step`` is no function.
      ValueError: when called with states whose leaves differ in their leading size.

    Example:
      >>> import jax.numpy as jnp
      >>> from ebmjax.samplers import mala
      >>> sampler = mala(lambda x: -0.5 * (x**2).sum(), step_size=0.5)
      >>> states = jax.vmap(sampler.init)(jnp.zeros((64, 2)))
      >>> states, infos = batch_step(sampler.step)(jax.random.key(0), states)
      >>> infos.acceptance_prob.shape
      (64,)
    """

    check_step(step)

    def step_all(key: Key, states: Any) -> tuple[Any, Any]:
        keys = jax.random.split(key, leading_size("states", states))
        return jax.vmap(step)(keys, states)

    return step_all


def run_chain(
    key: Key,
    state: Any,
    step: Step,
    num_steps: int,
    *,
    burn_in: int = 0,
    thinning: int = 1,
    unroll: int = 1,
) -> tuple[Any, PyTree, PyTree]:
    """Takes ``num_steps`` steps and keeps every ``thinning``-th position after ``burn_in``.

    The trajectory depends on ``key`` and ``num_steps`` alone: burn-in and thinning only choose
    what is kept, and only what is kept takes memory.

    Args:
      key: split into one key a step.
      state: of one chain; of many with a step from ``batch_step``; any BlackJAX state.
      step: ``step(key, state) -> (state, info)``, a ``Sampler``'s or BlackJAX's.
      num_steps: steps in all, burn-in included (static).
      burn_in: steps of which nothing is kept (static).
      thinning: one draw is kept out of so many steps, the last of them (static).
      unroll: steps written out per turn of the compiled loop (static). 1 is right for matrix
        products on every backend. XLA's own convolutions lose their threads inside a CPU loop;
        where a network insists on them, ``unroll=num_steps`` buys speed with compile time.

    Returns:
      The final state; the kept positions, ``(num_steps - burn_in) // thinning`` along a new
      leading axis; the infos of the steps that led to them, stacked alike.

    Raises:
      TypeError: if ``key`` is no random key, ``step`` no function, or ``state`` no state (a bare
        position, for example).
      ValueError: if ``num_steps`` or ``thinning`` is below 1, ``burn_in`` is not in
        ``[0, num_steps]``, or ``state`` holds many chains and ``step`` moves one.

    Example:
      >>> import jax.numpy as jnp
      >>> from ebmjax.samplers import sgld
      >>> sampler = sgld(lambda x: -0.5 * (x**2).sum(), step_size=0.1)
      >>> state = sampler.init(jnp.zeros(2))
      >>> state, positions, infos = run_chain(
      ...     jax.random.key(0), state, sampler.step, 100, burn_in=20, thinning=4)
      >>> positions.shape
      (20, 2)
    """
    check_key("key", key, allow_legacy=True)
    _check_chain(state, step)
    check_at_least("num_steps", num_steps, 1)
    check_at_least("thinning", thinning, 1)
    check_at_least("burn_in", burn_in, 0)
    if burn_in > num_steps:
        raise ValueError(
            f"burn_in must be at most num_steps, which counts it; got burn_in={burn_in} and "
            f"num_steps={num_steps}."
        )
    num_draws = (num_steps - burn_in) // thinning
    last_draw = burn_in + num_draws * thinning
    keys = jax.random.split(key, num_steps)  # a legacy key's are rows of uint32

    def advance(state: Any, keys: Key) -> Any:
        if not len(keys):
            return state
        return jax.lax.scan(lambda s, k: (step(k, s)[0], None), state, keys, unroll=unroll)[0]

    def draw(state: Any, keys: Key) -> tuple[Any, tuple[PyTree, PyTree]]:
        state, info = step(keys[-1], advance(state, keys[:-1]))
        return state, (position_of(state), info)

    state = advance(state, keys[:burn_in])
    draw_keys = keys[burn_in:last_draw].reshape(num_draws, thinning, *keys.shape[1:])
    state, (positions, infos) = jax.lax.scan(draw, state, draw_keys, unroll=unroll)
    return advance(state, keys[last_draw:]), positions, infos
