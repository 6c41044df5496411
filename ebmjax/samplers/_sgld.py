"""Stochastic gradient Langevin dynamics, also called the unadjusted Langevin algorithm."""

from typing import Annotated, Any

import jax.numpy as jnp

from ebmjax._ranges import NOT_NEGATIVE, POSITIVE, optional
from ebmjax.samplers._bound import bound
from ebmjax.samplers._langevin import (
    LangevinInfo,
    LangevinState,
    find_temperature,
    langevin_init,
    propose,
)
from ebmjax.samplers._states import check_state
from ebmjax.types import Key, LogDensityFn

sgld_init = langevin_init


def sgld_step(
    key: Key,
    state: LangevinState,
    log_density_fn: LogDensityFn,
    *,
    step_size: Annotated[Any, POSITIVE],
    noise_scale: Annotated[Any, optional(NOT_NEGATIVE)] = None,
    temperature: Annotated[Any, optional(POSITIVE)] = None,
) -> tuple[LangevinState, LangevinInfo]:
    r"""Takes one step of Langevin dynamics, never rejected.

    .. math::
        x' = x + \epsilon\, s(x) + \sigma\, \xi, \qquad \xi \sim \mathcal N(0, I)

    with score :math:`s = \nabla \log p`. The exact Langevin noise is
    :math:`\sigma = \sqrt{2 \epsilon T}`; its stationary law tends to :math:`p^{1/T}` as
    :math:`\epsilon \to 0`. On N(0, v) it is N(0, v T / (1 - epsilon / 2v)) exactly.

    If the density changes from step to step (minibatches, a model in training), the move uses the
    score from when the position was reached. Each position is scored once.

    Args:
      step_size: drift coefficient :math:`\epsilon` (positive), in squared units of the position
        per unit of log density. Papers that write a drift of half the squared noise mean twice
        this step. A scalar, an array that broadcasts to the position, or a PyTree with the
        structure of the position, one entry a leaf.
      noise_scale: standard deviation :math:`\sigma` of the injected noise in units of the position,
        shaped as ``step_size`` may be; None for the exact Langevin value. It sets the temperature,
        :math:`\sigma^2 / 2 \epsilon`.
      temperature: T of the target, a scalar; None is 1.0 if there is no ``noise_scale``. It makes
        the noise, so giving both is refused, also for T = 1.

    Returns:
      The new state and a ``LangevinInfo``. Its ``acceptance_prob`` is MALA's for this move, at T or
      at the temperature that ``noise_scale`` sets (the mean, if coordinates have several).

    Source: Welling & Teh 2011; sampling-approaches thesis, Alg. 4; SADA-JEM, Alg. 1, for a separate
    ``noise_scale`` (its Eq. 3 prints a drift of alpha / 2 and a noise of alpha).
    """
    check_state(state, *LangevinState._fields)
    proposed, acceptance_prob = propose(
        key,
        state,
        log_density_fn,
        step_size=step_size,
        noise_scale=noise_scale,
        temperature=find_temperature(step_size, noise_scale, temperature, state.position),
    )
    return proposed, LangevinInfo(acceptance_prob, jnp.array(True), proposed.log_density)


sgld = bound(sgld_init, sgld_step)
