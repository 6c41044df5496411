"""Metropolis-Hastings moves of an autoregressive density that a network tilts."""

from typing import Annotated, Any, NamedTuple

import jax

from ebmjax._ranges import POSITIVE
from ebmjax.samplers._autoregressive import Autoregressive
from ebmjax.samplers._bound import bound
from ebmjax.samplers._langevin import LangevinInfo, accept, acceptance_probability
from ebmjax.samplers._states import check_state
from ebmjax.types import Key, LogDensityFn


class TiltedMetropolisState(NamedTuple):
    """A position, the network's log density there, and the component that it belongs to."""

    position: jax.Array
    log_density: jax.Array
    component: jax.Array


def tilted_metropolis_init(
    key: Key, position: jax.Array, log_density_fn: LogDensityFn, *, base: Autoregressive
) -> TiltedMetropolisState:
    """Draws the component that ``position`` came from."""
    component = jax.random.categorical(key, base.log_densities(position) + base.log_weights)
    return TiltedMetropolisState(position, log_density_fn(position), component)


def tilted_metropolis_step(
    key: Key,
    state: TiltedMetropolisState,
    log_density_fn: LogDensityFn,
    *,
    base: Autoregressive,
    temperature: Annotated[Any, POSITIVE] = 1.0,
) -> tuple[TiltedMetropolisState, LangevinInfo]:
    r"""Draws some pixels anew from ``base``, and takes the move back by Metropolis and Hastings.

    The law is :math:`q(x)\, e^{f(x) / T}`. It takes no gradient, so q may jump between grey levels.
    A move redraws all pixels, those after one of them, or a few in a row.

    Args:
      log_density_fn: f, from one image to a scalar.
      base: q.
      temperature: T, a positive scalar.

    Source: Hastings 1970; energies beside an autoregressive density: Deng et al. 2020.
    """
    check_state(state, *TiltedMetropolisState._fields)
    move_key, coin_key = jax.random.split(key)
    position, component, log_ratio = base.propose(move_key, state.position, state.component)
    proposed = TiltedMetropolisState(position, log_density_fn(position), component)
    log_ratio += (proposed.log_density - state.log_density) / temperature
    probability = acceptance_probability(log_ratio, proposed.log_density)
    return accept(coin_key, state, proposed, probability)


tilted_metropolis = bound(
    tilted_metropolis_init, tilted_metropolis_step, rejects=True, memory=("component",)
)
