"""Preconditioned Langevin dynamics as the sampling-approaches thesis prints them."""

from typing import Annotated, Any

import jax.numpy as jnp

from ebmjax import samplers
from ebmjax._ranges import FRACTION, NOT_NEGATIVE, POSITIVE, optional
from ebmjax.samplers import PSGLDInfo, PSGLDState
from ebmjax.types import Key, LogDensityFn, PyTree, Sampler


def literal_psgld(
    log_density_fn: LogDensityFn,
    *,
    step_size: Annotated[Any, POSITIVE] = 0.1,
    noise_scale: Annotated[Any, optional(NOT_NEGATIVE)] = None,
    temperature: Annotated[Any, optional(POSITIVE)] = 1.0,
    decay: Annotated[Any, FRACTION] = 0.99,
    damping: Annotated[Any, POSITIVE] = 1e-5,
) -> Sampler:
    r"""``ebmjax.samplers.psgld`` with the metric of the step before.

    .. math::
        G_k = \frac{1}{\lambda + \sqrt{V_{k-1}}}, \qquad
        V_k = a V_{k-1} + (1 - a)\, s(x_k)^2, \qquad V_0 = 0

    The first move has :math:`G = 1 / \lambda` whatever the score is, in drift and noise. At a step
    of 0.01 and the printed :math:`\lambda` of 1e-5, its noise has standard deviation 45.

    Args:
      log_density_fn: -E of one position.
      step_size: :math:`\epsilon`.
      noise_scale: as of ``psgld``.
      temperature: as of ``psgld``.
      decay: a.
      damping: :math:`\lambda`.

    Source: sampling-approaches thesis, Alg. 2. Alg. 6 differs in the sign in G, a product
    where Alg. 2 and the text divide.
    """

    def init(position: PyTree, key: Key | None = None) -> PSGLDState:
        del key
        return samplers.psgld_init(position, log_density_fn)

    def step(key: Key, state: PSGLDState) -> tuple[PSGLDState, PSGLDInfo]:
        # A decay of 1 leaves the moment as the state has it.
        moved, info = samplers.psgld_step(
            key,
            state,
            log_density_fn,
            step_size=step_size,
            noise_scale=noise_scale,
            temperature=temperature,
            decay=1.0,
            damping=damping,
        )
        moment = decay * state.second_moment + (1.0 - decay) * jnp.square(state.score)
        return moved._replace(second_moment=moment), info

    return Sampler(init, step)
