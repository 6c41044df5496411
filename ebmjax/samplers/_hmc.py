"""Hamiltonian Monte Carlo of fixed length."""

from typing import Annotated, Any

import jax
import jax.numpy as jnp
import optax

from ebmjax._axes import place_carry
from ebmjax._checks import check_at_least, per_leaf
from ebmjax._ranges import COUNT, POSITIVE
from ebmjax.samplers._bound import bound
from ebmjax.samplers._langevin import (
    LangevinInfo,
    LangevinState,
    accept,
    acceptance_probability,
    check_langevin,
    langevin_init,
)
from ebmjax.samplers._states import check_state
from ebmjax.types import Key, LogDensityFn, PyTree

hmc_init = langevin_init


def hmc_step(
    key: Key,
    state: LangevinState,
    log_density_fn: LogDensityFn,
    *,
    step_size: Annotated[Any, POSITIVE],
    num_integration_steps: Annotated[int, COUNT] = 10,
    temperature: Annotated[Any, POSITIVE] = 1.0,
) -> tuple[LangevinState, LangevinInfo]:
    r"""Draws a velocity, follows it by leapfrog moves, and accepts their end by Metropolis.

    .. math::
        v \leftarrow v + \tfrac{h}{2T} s(x), \quad x \leftarrow x + h v, \quad
        v \leftarrow v + \tfrac{h}{2T} s(x), \qquad h = \sqrt{2 \epsilon T}

    With one leapfrog move it is MALA of the same ``step_size``. On narrow densities a chain covers
    a length in about the square root of the gradients that MALA takes. A step costs
    ``num_integration_steps`` gradients. An end whose log density is +inf or whose ratio is NaN is
    rejected.

    Args:
      step_size: :math:`\epsilon`, positive, in the forms of ``sgld_step``. Leapfrog moves have
        length :math:`h`.
      num_integration_steps: moves of a trajectory (static).
      temperature: T of the target :math:`p^{1/T}`, a scalar.

    Returns:
      The new state (the old one where rejected) and a ``LangevinInfo``.

    Source: Duane et al. 1987; Neal 2011.
    """
    check_state(state, *LangevinState._fields)
    check_langevin(step_size, None, temperature, state.position)
    check_at_least("num_integration_steps", num_integration_steps, 1)
    velocity_key, coin_key = jax.random.split(key)
    lengths = jax.tree.map(
        lambda step: jnp.sqrt(2.0 * step * temperature), per_leaf(step_size, state.position)
    )

    def kick(velocity: PyTree, score: PyTree) -> PyTree:
        return jax.tree.map(
            lambda v, s, h: (v + 0.5 * h / temperature * s).astype(v.dtype),
            velocity,
            score,
            lengths,
        )

    def leapfrog(carry: tuple[LangevinState, PyTree], _: None) -> tuple[Any, None]:
        scored, velocity = carry
        velocity = kick(velocity, scored.score)
        position = jax.tree.map(
            lambda x, h, v: (x + h * v).astype(x.dtype), scored.position, lengths, velocity
        )
        scored = langevin_init(position, log_density_fn)
        return (scored, kick(velocity, scored.score)), None

    first = optax.tree.random_like(velocity_key, state.position)
    carry = LangevinState(*state), first
    carry, _ = place_carry(lambda _, carry: leapfrog(carry, None), [None], carry)
    (end, last), _ = jax.lax.scan(leapfrog, carry, length=num_integration_steps)
    before, after = (optax.tree.norm(velocity, squared=True) for velocity in (first, last))
    log_ratio = (end.log_density - state.log_density) / temperature + 0.5 * (before - after)
    return accept(coin_key, state, end, acceptance_probability(log_ratio, end.log_density))


hmc = bound(hmc_init, hmc_step, rejects=True, adapts=True)
