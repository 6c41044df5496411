"""The Metropolis-adjusted Langevin algorithm."""

from typing import Annotated, Any

import jax

from ebmjax._ranges import NOT_NEGATIVE, POSITIVE, optional
from ebmjax.samplers._bound import bound
from ebmjax.samplers._langevin import (
    LangevinInfo,
    LangevinState,
    accept,
    check_langevin,
    langevin_init,
    propose,
)
from ebmjax.samplers._states import check_state
from ebmjax.types import Key, LogDensityFn

mala_init = langevin_init


def mala_step(
    key: Key,
    state: LangevinState,
    log_density_fn: LogDensityFn,
    *,
    step_size: Annotated[Any, POSITIVE],
    noise_scale: Annotated[Any, optional(NOT_NEGATIVE)] = None,
    temperature: Annotated[Any, POSITIVE] = 1.0,
) -> tuple[LangevinState, LangevinInfo]:
    r"""Proposes a Langevin move and accepts it so that :math:`p^{1/T}` is kept exactly.

    .. math::
        y = x + \epsilon\, s(x) + \sigma\, \xi, \qquad
        \alpha = \min\Big(1,\; \frac{p(y)^{1/T}}{p(x)^{1/T}} \frac{q(x \mid y)}{q(y \mid x)}\Big),
        \qquad q(\cdot \mid x) = \mathcal N(x + \epsilon\, s(x),\, \sigma^2 I)

    A step costs one gradient, because the state carries the chain's log density and score. A
    proposal whose log density is +inf or whose ratio is NaN is rejected.

    Args:
      step_size: drift coefficient :math:`\epsilon`, positive, in the forms of ``sgld_step``.
      noise_scale: standard deviation :math:`\sigma` of the proposal; None for ``sqrt(2 step_size
        temperature)``. Shaped as ``step_size`` may be. Any positive value keeps the target exact,
        because the ratio uses the actual proposal; at 0 everything is rejected.
      temperature: T of the target, a scalar. It may come with ``noise_scale``: T makes the target,
        the noise the proposal.

    Returns:
      The new state (the old one where rejected) and a ``LangevinInfo``.

    Source: Roberts & Tweedie 1996; sampling-approaches thesis, Alg. 5. The thesis prints a ratio of
    energies, not of their exponentials, and a proposal variance of ``2 step_size`` whatever the
    noise. Both are corrected here.

    Example:
      >>> import jax
      >>> sampler = mala(lambda x: -0.5 * (x**2).sum(), step_size=0.5)
      >>> state, info = sampler.step(jax.random.key(0), sampler.init(jax.numpy.ones(2)))
      >>> bool(0 <= info.acceptance_prob <= 1)
      True
    """
    check_state(state, *LangevinState._fields)
    check_langevin(step_size, noise_scale, temperature, state.position)
    noise_key, coin_key = jax.random.split(key)
    proposed, acceptance_prob = propose(
        noise_key,
        state,
        log_density_fn,
        step_size=step_size,
        noise_scale=noise_scale,
        temperature=temperature,
    )
    return accept(coin_key, state, proposed, acceptance_prob)


mala = bound(mala_init, mala_step, rejects=True, adapts=True)
