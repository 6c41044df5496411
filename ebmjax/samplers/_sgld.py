"""Stochastic gradient Langevin dynamics, also called the unadjusted Langevin algorithm."""

from typing import Any

import jax.numpy as jnp

from ebmjax.samplers._bind import bind
from ebmjax.samplers._langevin import (
    LangevinInfo,
    LangevinState,
    langevin_init,
    propose_isotropic,
)
from ebmjax.types import Key, LogDensityFn, PyTree, Sampler


def sgld_init(position: PyTree, log_density_fn: LogDensityFn) -> LangevinState:
    """Scores ``position`` (any PyTree of floating-point arrays, one chain).

    Raises:
      TypeError: if a leaf of ``position`` is not floating point.
      ValueError: if ``log_density_fn`` does not return a scalar.
    """
    return langevin_init(position, log_density_fn)


def sgld_step(
    key: Key,
    state: LangevinState,
    log_density_fn: LogDensityFn,
    *,
    step_size: Any,
    noise_scale: Any = None,
    temperature: Any = 1.0,
) -> tuple[LangevinState, LangevinInfo]:
    r"""One step of Langevin dynamics, never rejected.

    .. math::
        x' = x + \epsilon\, s(x) + \sigma\, \xi, \qquad \xi \sim \mathcal N(0, I)

    with score :math:`s = \nabla \log p`. The exact Langevin noise is
    :math:`\sigma = \sqrt{2 \epsilon T}`; its stationary law tends to :math:`p^{1/T}` as
    :math:`\epsilon \to 0`. On N(0, v) it is N(0, v T / (1 - epsilon / 2v)) exactly.

    Where the density changes from step to step (minibatches, a model in training), the move uses
    the score that was taken when the position was reached, each position under one density.

    Args:
      key: consumed by the noise.
      state: from ``sgld_init`` or an earlier step.
      log_density_fn: position to scalar.
      step_size: drift coefficient :math:`\epsilon` (positive), in squared units of the position
        per unit of log density. Papers that write a drift of half the squared noise mean twice
        this step.
      noise_scale: standard deviation of the injected noise in units of the position; None for
        the exact Langevin value.
      temperature: T of the target, also where it only enters the reported acceptance.

    Returns:
      The new state and a ``LangevinInfo`` whose ``acceptance_prob`` is what MALA would have
      accepted this move with.

    Raises:
      ValueError: if a concrete hyperparameter lies outside its range, ``temperature`` is not a
        scalar, or ``step_size`` or ``noise_scale`` does not broadcast to the position.

    Source: Welling & Teh 2011; sampling-approaches thesis, Alg. 4; SADA-JEM, Alg. 1, for a
    ``noise_scale`` of its own (its Eq. 3 prints a drift of alpha / 2 and a noise of alpha).
    """
    proposed, acceptance_prob = propose_isotropic(
        key,
        state,
        log_density_fn,
        step_size=step_size,
        noise_scale=noise_scale,
        temperature=temperature,
    )
    return proposed, LangevinInfo(acceptance_prob, jnp.array(True), proposed.log_density)


def sgld(
    log_density_fn: LogDensityFn,
    *,
    step_size: Any,
    noise_scale: Any = None,
    temperature: Any = 1.0,
) -> Sampler:
    """Binds ``sgld_init`` and ``sgld_step`` to a density and hyperparameters.

    Example:
      >>> import jax
      >>> sampler = sgld(lambda x: -0.5 * (x**2).sum(), step_size=0.1)
      >>> state = sampler.init(jax.numpy.zeros(2))
      >>> state, info = sampler.step(jax.random.key(0), state)
      >>> state.position.shape
      (2,)
    """
    return bind(
        sgld_init,
        sgld_step,
        log_density_fn,
        step_size=step_size,
        noise_scale=noise_scale,
        temperature=temperature,
    )
