"""Annealed importance sampling: normalising constants along a path from a known density."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax._axes import place_carry
from ebmjax._checks import check_at_least, check_scalar_density, check_whole_ladder, leading_size
from ebmjax._programs import run_program
from ebmjax.densities import power_posterior
from ebmjax.samplers import batch_step, position_of, run_chain, start_chains
from ebmjax.types import Key, LogDensityFn, PyTree, SamplerFn


class AnnealedSamples(NamedTuple):
    """The chains of annealed importance sampling, and their weights.

    Attributes:
      log_weights: shape (chains,); ``exp`` of each is an unbiased estimate of the ratio of
        normalising constants.
      positions: ends of the chains, leading axis (chains,); with the weights, they represent the
        last density.
      infos: the sampler's, from the last step at every power above 0; leading axes (num_powers - 1,
        chains).
    """

    log_weights: jax.Array
    positions: PyTree
    infos: Any


class AnnealingPath(NamedTuple):
    """The densities ``exp(log_base_fn + t * log_tilt_fn)`` for t from 0 to 1.

    Attributes:
      log_base_fn: position to scalar, where the path starts. If it is normalised, the ratio is the
        last density's normalising constant.
      log_tilt_fn: position to scalar.
    """

    log_base_fn: LogDensityFn
    log_tilt_fn: LogDensityFn


def annealed_importance_sampling(
    key: Key,
    start: PyTree,
    powers: jax.Array,
    log_base_fn: LogDensityFn,
    log_tilt_fn: LogDensityFn,
    *,
    sampler: SamplerFn,
    num_steps: int,
    step_sizes: jax.Array | None = None,
) -> AnnealedSamples:
    r"""Weighs chains on their way from ``exp(log_base)`` to ``exp(log_base + log_tilt)``.

    .. math::
        \log w = \sum_{i=1}^{N_t} (t_i - t_{i-1})\, \log \mathrm{tilt}(z_{i-1}), \qquad
        E[w] = Z_1 / Z_0

    where :math:`z_0` is the start and :math:`z_i` follows from :math:`z_{i-1}` by ``num_steps``
    steps at power :math:`t_i`. The weights are unbiased, however badly the chains mix, if every
    step leaves its density invariant. MALA and BlackJAX's adjusted samplers do; unadjusted Langevin
    dynamics (``sgld``) does not, so its weights are biased. Slow mixing and wide intervals cost
    variance. ``log_mean_exp`` of the weights is the estimate.

    Args:
      key: consumed.
      start: exact independent draws of ``exp(log_base)``, leading axis (chains,).
      powers: shape (num_powers,), increasing from 0 to 1.
      log_base_fn, log_tilt_fn: one position to a scalar.
      sampler: log density to sampler, such as ``functools.partial(mala, step_size=0.1)``.
      num_steps: steps at every power above 0 (static). Those at power 1 only serve the positions.
      step_sizes: shape (num_powers - 1,), the ``step_size`` of ``sampler`` at every power above 0;
        None where it has one.

    Returns:
      ``AnnealedSamples``. The cost is ``(num_powers - 1) * num_steps`` gradients a chain.

    Example:
      >>> import functools
      >>> from ebmjax.evidence import log_mean_exp
      >>> from ebmjax.samplers import mala
      >>> start = jax.random.normal(jax.random.key(0), (1000,))
      >>> samples = annealed_importance_sampling(
      ...     jax.random.key(1), start, jnp.linspace(0.0, 1.0, 5), lambda z: -0.5 * z**2,
      ...     lambda z: -1.5 * z**2, sampler=functools.partial(mala, step_size=0.3), num_steps=2)
      >>> estimate = log_mean_exp(samples.log_weights)  # log Z_1 / Z_0 = log sqrt(1 / 4)
      >>> bool(abs(estimate.value + jnp.log(2.0)) < 5 * estimate.standard_error)
      True

    Source: Neal 2001.
    """
    check_whole_ladder(powers)
    check_at_least("num_steps", num_steps, 1)
    leading_size("start", start)
    check_scalar_density(log_tilt_fn, jax.tree.map(lambda leaf: leaf[0], start))
    path = partial(power_posterior, log_base_fn, log_tilt_fn)
    return anneal(
        key, start, jnp.asarray(powers), path, log_tilt_fn, sampler, num_steps, step_sizes
    )


def anneal(
    key: Key,
    start: PyTree,
    powers: jax.Array,
    path: Callable[[jax.Array], LogDensityFn],
    log_tilt_fn: LogDensityFn,
    sampler: SamplerFn,
    num_steps: int,
    step_sizes: jax.Array | None,
) -> AnnealedSamples:
    """Weighs chains from the first of the powers to the last, in either direction.

    ``path`` returns the density at a power.
    """

    def rung(positions: PyTree, inputs: tuple[Any, ...]) -> tuple[PyTree, Any]:
        key, power, width, given = inputs
        log_weights = width * jax.vmap(log_tilt_fn)(positions)
        chain = sampler(path(power), **given)
        states, step = start_chains(key, chain, positions), batch_step(chain.step)
        states, _, infos = run_chain(key, states, step, num_steps, thinning=num_steps)
        return position_of(states), (log_weights, jax.tree.map(lambda leaf: leaf[:, 0], infos))

    keys = jax.random.split(key, powers.shape[0] - 1)
    given = {} if step_sizes is None else {"step_size": step_sizes}
    inputs = keys, powers[1:], jnp.diff(powers), given
    first = [jax.tree.map(lambda leaf: leaf[0], inputs)]
    start, _ = place_carry(lambda first, positions: rung(positions, first), first, start)
    positions, (log_weights, infos) = run_program(partial(jax.lax.scan, rung), start, inputs)
    return AnnealedSamples(jnp.sum(log_weights, axis=0), positions, infos)
