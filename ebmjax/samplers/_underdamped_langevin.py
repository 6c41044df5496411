"""Underdamped Langevin dynamics: chains with a velocity that friction slows and noise restores."""

from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from ebmjax._checks import check_positive, per_leaf
from ebmjax._ranges import POSITIVE
from ebmjax.samplers._bound import bound
from ebmjax.samplers._langevin import (
    LogDensityInfo,
    check_langevin,
    langevin_init,
)
from ebmjax.samplers._states import check_state
from ebmjax.types import Key, LogDensityFn, PyTree


class UnderdampedLangevinState(NamedTuple):
    """A ``LangevinState`` that moves with a velocity, shaped like ``position``, of unit mass."""

    position: PyTree
    velocity: PyTree
    log_density: jax.Array
    score: PyTree


def underdamped_langevin_init(
    key: Key,
    position: PyTree,
    log_density_fn: LogDensityFn,
    *,
    temperature: Annotated[Any, POSITIVE] = 1.0,
) -> UnderdampedLangevinState:
    """Scores ``position`` and draws its velocity from N(0, ``temperature``)."""
    check_positive("temperature", temperature, is_scalar=True)
    scored = langevin_init(position, log_density_fn)
    noise = optax.tree.random_like(key, scored.position)
    # Added to the score's zeros, so that under jax.shard_map it varies over the same axes.
    velocity = jax.tree.map(
        lambda n, s: (jnp.sqrt(temperature) * n + jnp.zeros_like(s)).astype(s.dtype),
        noise,
        scored.score,
    )
    return UnderdampedLangevinState(scored.position, velocity, scored.log_density, scored.score)


def underdamped_langevin_step(
    key: Key,
    state: UnderdampedLangevinState,
    log_density_fn: LogDensityFn,
    *,
    step_size: Annotated[Any, POSITIVE],
    friction: Annotated[Any, POSITIVE] = 1.0,
    temperature: Annotated[Any, POSITIVE] = 1.0,
) -> tuple[UnderdampedLangevinState, LogDensityInfo]:
    r"""Takes one step of Langevin dynamics with a velocity (BAOAB splitting), never rejected.

    .. math::
        v \leftarrow v + \tfrac h2 s(x), \quad x \leftarrow x + \tfrac h2 v, \quad
        v \leftarrow c v + \sqrt{(1 - c^2)\, T}\; \xi, \quad
        x \leftarrow x + \tfrac h2 v, \quad v \leftarrow v + \tfrac h2 s(x)

    with :math:`h = \sqrt{2 \epsilon}` and :math:`c = e^{-\gamma h}`. Positions have the law
    :math:`p^{1/T}` up to :math:`O(\epsilon)`, and on Gaussians exactly, while
    :math:`\epsilon` is below twice the smallest variance. Velocities are N(0, T) up to
    :math:`O(\epsilon)`. Each position is scored once.

    Args:
      step_size: :math:`\epsilon`, positive, in the units that it has in ``sgld_step`` and
        ``mala_step``: a chain whose velocity was just drawn, without friction, makes the move of
        MALA. An array or a PyTree as in ``sgld_step``.
      friction: scalar :math:`\gamma`, positive, in units of one over the position: a velocity is
        forgotten over :math:`1 / \gamma` of time h.
      temperature: T of the target, a positive scalar.

    Source: Leimkuhler & Matthews 2013, BAOAB, with unit mass and the time step :math:`h`.
    """
    check_state(state, *UnderdampedLangevinState._fields)
    check_langevin(step_size, None, temperature, state.position)
    check_positive("friction", friction, is_scalar=True)
    halves = jax.tree.map(lambda step: jnp.sqrt(0.5 * step), per_leaf(step_size, state.position))
    noise = optax.tree.random_like(key, state.position)

    def kick(velocity: PyTree, score: PyTree) -> PyTree:
        return jax.tree.map(lambda v, h, s: (v + h * s).astype(v.dtype), velocity, halves, score)

    def drift(position: PyTree, velocity: PyTree) -> PyTree:
        return jax.tree.map(lambda x, h, v: (x + h * v).astype(x.dtype), position, halves, velocity)

    def refresh(v: jax.Array, half: jax.Array, n: jax.Array) -> jax.Array:
        time = 2.0 * friction * half
        fresh = jnp.sqrt(-jnp.expm1(-2.0 * time) * temperature)
        return (jnp.exp(-time) * v + fresh * n).astype(v.dtype)

    velocity = kick(state.velocity, state.score)
    position = drift(state.position, velocity)
    velocity = jax.tree.map(refresh, velocity, halves, noise)
    scored = langevin_init(drift(position, velocity), log_density_fn)
    velocity = kick(velocity, scored.score)
    state = UnderdampedLangevinState(scored.position, velocity, scored.log_density, scored.score)
    return state, LogDensityInfo(scored.log_density)


underdamped_langevin = bound(
    underdamped_langevin_init, underdamped_langevin_step, memory=("velocity",)
)
