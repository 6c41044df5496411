"""MALA with the accept ratio that the sampling-approaches thesis prints."""

from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp

from ebmjax import samplers
from ebmjax._ranges import FLAG, NOT_NEGATIVE, POSITIVE, optional
from ebmjax.samplers import LangevinInfo, LangevinState
from ebmjax.types import Key, LogDensityFn, PyTree, Sampler


def literal_mala(
    log_density_fn: LogDensityFn,
    *,
    step_size: Annotated[Any, POSITIVE] = 1.0,
    noise_scale: Annotated[Any, optional(NOT_NEGATIVE)] = 0.01,
    temperature: Annotated[Any, optional(POSITIVE)] = None,
    rejects: Annotated[bool, FLAG] = True,
) -> Sampler:
    r"""``ebmjax.samplers.mala`` with another number that decides.

    .. math::
        \alpha = \min\Big(1, \frac{E(y)\, q(x \mid y)}{E(x)\, q(y \mid x)}\Big), \qquad
        q(\cdot \mid x) \propto \exp\Big(-\frac{\lVert \cdot - x + \epsilon \nabla E(x)
            \rVert^2}{4 \epsilon}\Big)

    for the move :math:`y = x - \epsilon \nabla E(x) + \sigma \xi`. Wrong twice: energies stand
    where their exponentials belong, and the density q is that of noise of variance
    :math:`2 \epsilon` whatever :math:`\sigma` is. A ratio below zero, of energies of two signs, is
    taken as zero, and so is that of a move out of a box, to where the density is 0. The thesis
    prints :math:`+\nabla \log E` as the mean of q; here it is the mean of the move.

    ``temperature`` is that of the noise where ``noise_scale`` is None. Where ``rejects`` is False,
    the chain is SGLD's and only reports the number.

    Source: sampling-approaches thesis, section 3.3.4 and Alg. 10.
    """
    sigma = noise_scale
    if sigma is None:
        sigma = jnp.sqrt(2.0 * jnp.asarray(step_size) * temperature)

    def init(position: PyTree, key: Key | None = None) -> LangevinState:
        return samplers.mala_init(position, log_density_fn)

    def step(key: Key, state: LangevinState) -> tuple[LangevinState, LangevinInfo]:
        noise_key, coin_key = jax.random.split(key)
        noise = sigma * jax.random.normal(noise_key, jnp.shape(state.position))
        proposed = init(state.position + step_size * state.score + noise)
        # Times the exponential of what may be far above 88: in logarithms.
        quotient = jnp.maximum(proposed.log_density / state.log_density, 0.0)
        log_proposals = log_proposal_ratio(step_size, noise, state, proposed, 2.0 * step_size)
        log_ratio = jnp.log(quotient) + log_proposals
        # An infinite energy would have the largest ratio of energies.
        is_lost = jnp.isnan(log_ratio) | jnp.isneginf(proposed.log_density)
        probability = jnp.where(is_lost, 0.0, jnp.exp(jnp.minimum(log_ratio, 0.0)))
        is_accepted = (jax.random.uniform(coin_key) < probability) | (not rejects)
        state = jax.tree.map(partial(jnp.where, is_accepted), proposed, state)
        return state, LangevinInfo(probability, is_accepted, state.log_density)

    return Sampler(init, step)


literal_mala.rejects = True


def log_proposal_ratio(
    step_size: Any, noise: jax.Array, state: Any, proposed: Any, variance: Any
) -> jax.Array:
    """``log q(x | y) - log q(y | x)`` of Gaussians of ``variance`` about the drifted positions."""
    back = noise + step_size * (state.score + proposed.score)
    return -jnp.sum(jnp.square(back) - jnp.square(noise)) / (2.0 * variance)
