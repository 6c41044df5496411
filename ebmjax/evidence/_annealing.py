"""Annealed importance sampling and SMC: normalising constants along a path of densities."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax._axes import place_carry
from ebmjax._checks import check_at_least, check_powers, check_scalar_density, leading_size
from ebmjax.densities import power_posterior
from ebmjax.evidence._weights import Estimate, log_mean_exp
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

    @property
    def estimate(self) -> Estimate:
        """Log of the mean weight, too low by about half the squared standard error."""
        return log_mean_exp(self.log_weights)


def annealed_importance_sampling(
    key: Key,
    start: PyTree,
    powers: jax.Array,
    log_base_fn: LogDensityFn,
    log_tilt_fn: LogDensityFn,
    *,
    sampler: SamplerFn,
    num_steps: int,
) -> AnnealedSamples:
    r"""Weighs chains on their way from ``exp(log_base)`` to ``exp(log_base + log_tilt)``.

    .. math::
        \log w = \sum_{i=1}^{N_t} (t_i - t_{i-1})\, \log \mathrm{tilt}(z_{i-1}), \qquad
        E[w] = Z_1 / Z_0

    where :math:`z_0` is the start and :math:`z_i` follows from :math:`z_{i-1}` by ``num_steps``
    steps at power :math:`t_i`. The weights are unbiased, however badly the chains mix, if every
    step leaves its density invariant: MALA does, ``sgld`` does not.

    Args:
      key: consumed.
      start: exact independent draws of ``exp(log_base)``, leading axis (chains,).
      powers: shape (num_powers,), increasing from 0 to 1.
      log_base_fn, log_tilt_fn: one position to a scalar.
      sampler: log density to sampler, such as ``functools.partial(mala, step_size=0.1)``.
      num_steps: steps at every power above 0 (static). Those at power 1 only serve the positions.

    Returns:
      Log weights, positions and infos, and ``estimate``, the log of the ratio. The cost is
      ``(num_powers - 1) * num_steps`` gradients a chain.

    Example:
      >>> from ebmjax.samplers import mala
      >>> start = jax.random.normal(jax.random.key(0), (1000,))
      >>> samples = annealed_importance_sampling(
      ...     jax.random.key(1), start, jnp.linspace(0.0, 1.0, 5), lambda z: -0.5 * z**2,
      ...     lambda z: -1.5 * z**2, sampler=partial(mala, step_size=0.3), num_steps=2)
      >>> estimate = samples.estimate  # log Z_1 / Z_0 = log sqrt(1 / 4)
      >>> bool(abs(estimate.value + jnp.log(2.0)) < 5 * estimate.standard_error)
      True

    Source: Neal 2001.
    """
    _check(start, powers, log_tilt_fn, num_steps)
    path = partial(power_posterior, log_base_fn, log_tilt_fn)
    return anneal(key, start, jnp.asarray(powers), path, log_tilt_fn, sampler, num_steps)


def anneal(
    key: Key,
    start: PyTree,
    powers: jax.Array,
    path: Callable[[jax.Array], LogDensityFn],
    log_tilt_fn: LogDensityFn,
    sampler: SamplerFn,
    num_steps: int,
    step_sizes: jax.Array | None = None,
    *,
    resamples: bool = False,
) -> AnnealedSamples:
    """Weighs chains from the first of the powers to the last, in either direction.

    ``path`` returns the density at a power. With ``resamples`` chains are chosen by their weights
    at every power before they move, and all of them have the mean weight.
    """

    def rung(positions: PyTree, inputs: tuple[Any, ...]) -> tuple[PyTree, Any]:
        key, power, width, given = inputs
        log_weights = width * jax.vmap(log_tilt_fn)(positions)
        if resamples:
            key, choice_key = jax.random.split(key)
            chosen = systematic(choice_key, log_weights)
            positions = jax.tree.map(lambda leaf: leaf[chosen], positions)
            mean = jax.nn.logsumexp(log_weights) - jnp.log(len(log_weights))
            log_weights = jnp.full_like(log_weights, mean)
        chain = sampler(path(power), **given)
        states, step = start_chains(key, chain, positions), batch_step(chain.step)
        states, _, infos = run_chain(key, states, step, num_steps, thinning=num_steps)
        return position_of(states), (log_weights, jax.tree.map(lambda leaf: leaf[:, 0], infos))

    keys = jax.random.split(key, powers.shape[0] - 1)
    given = {} if step_sizes is None else {"step_size": step_sizes}
    inputs = keys, powers[1:], jnp.diff(powers), given
    first = [jax.tree.map(lambda leaf: leaf[0], inputs)]
    start, _ = place_carry(lambda first, positions: rung(positions, first), first, start)
    positions, (log_weights, infos) = jax.lax.scan(rung, start, inputs)
    return AnnealedSamples(jnp.sum(log_weights, axis=0), positions, infos)


def smc_log_normalizer(
    key: Key,
    start: PyTree,
    powers: jax.Array,
    log_base_fn: LogDensityFn,
    log_tilt_fn: LogDensityFn,
    *,
    sampler: SamplerFn,
    num_steps: int,
) -> Estimate:
    """Returns ``log Z_1 / Z_0`` along ``exp(log_base + t * log_tilt)`` by sequential Monte Carlo.

    It is annealed importance sampling with systematic resampling by weights at every power before
    particles move. Each repeat's ratio is unbiased if the steps leave their densities invariant, so
    ratios are averaged, not their logs.

    Args:
      key, powers, log_base_fn, log_tilt_fn, sampler, num_steps: as in
        ``annealed_importance_sampling``.
      start: exact independent draws of ``exp(log_base)``, leading axes (repeats, particles).
        Particles interact, so the standard error comes from the repeats, at least 2.

    Source: Del Moral, Doucet & Jasra 2006.
    """
    num_repeats = leading_size("start", start)
    check_at_least("repeats (the first axis of start)", num_repeats, 2)
    _check(jax.tree.map(lambda leaf: leaf[0], start), powers, log_tilt_fn, num_steps)
    path = partial(power_posterior, log_base_fn, log_tilt_fn)

    def log_ratio(key: Key, particles: PyTree) -> jax.Array:
        given = jnp.asarray(powers), path, log_tilt_fn, sampler, num_steps
        return anneal(key, particles, *given, resamples=True).log_weights[0]

    keys = jax.random.split(key, num_repeats)
    return log_mean_exp(jax.vmap(log_ratio)(keys, start))


def systematic(key: Key, log_weights: jax.Array) -> jax.Array:
    """Returns the indices (n,) of systematic resampling by weights (n,)."""
    ends = jnp.cumsum(jax.nn.softmax(log_weights))
    places = (jnp.arange(len(ends)) + jax.random.uniform(key)) / len(ends)
    return jnp.minimum(jnp.searchsorted(ends, places), len(ends) - 1)


def _check(start: PyTree, powers: Any, log_tilt_fn: LogDensityFn, num_steps: int) -> None:
    check_powers(powers, is_whole=True)
    check_at_least("num_steps", num_steps, 1)
    leading_size("start", start)
    check_scalar_density(log_tilt_fn, jax.tree.map(lambda leaf: leaf[0], start))
