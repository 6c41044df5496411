"""Stepping stones: log Z as a product of ratios between neighbouring powers."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from ebmjax._checks import check_whole_ladder
from ebmjax.evidence._thermodynamic import check_chains
from ebmjax.evidence._weights import Estimate, mean_error


def stepping_stone_log_evidence(log_likelihoods: jax.Array, powers: jax.Array) -> Estimate:
    r"""Returns ``log p(x)`` by stepping stones: each rung weighs the next.

    .. math::
        \log p(x) = \sum_{i=1}^{N_t} \log E_{p_{i-1}}\!\left[ p(x \mid z)^{t_i - t_{i-1}} \right]

    There is no quadrature. With exact draws, the product of the means is unbiased for p(x) on any
    ladder; the sum of their logs is too low by about half its squared standard error.

    Args:
      log_likelihoods, powers: as in ``thermodynamic_log_evidence``. Those at the last power, t = 1,
        are not used.

    Returns:
      Shape (...). The standard error assumes independent chains, as there.

    Example:
      >>> log_likelihoods = jnp.log(jnp.array([[1.0, 3.0], [7.0, 7.0]]))
      >>> estimate = stepping_stone_log_evidence(log_likelihoods, jnp.array([0.0, 1.0]))
      >>> round(float(jnp.exp(estimate.value)), 5)
      2.0

    Source: Xie, Lewis, Fan, Kuo & Chen 2011.
    """
    check_chains(log_likelihoods, powers)
    log_likelihoods = jnp.asarray(log_likelihoods)
    widths = jnp.diff(jnp.asarray(powers)).reshape(-1, *[1] * (log_likelihoods.ndim - 1))
    return _weigh(widths * log_likelihoods[:-1])


def tempering_log_partition(log_ratios: Any, powers: Any) -> Estimate:
    r"""Returns log Z of a density from replicas at powers between its base density and it.

    .. math::
        \log Z = \sum_i \log E_{p_i}\!\left[ e^{(t_{i+1} - t_i)\, w} \right], \qquad
        w = f - \log q

    A mode that no replica found is missing. It is log Z / Z_0 if the base is not normalised.

    Args:
      log_ratios: w of the replica at every power, shape (chains, draws, num_powers): those of
        the infos of ``run_chain`` with ``batch_step``. At least two chains; blocks of draws of one
        long chain may stand for chains.
      powers: (num_powers,), increasing from 0 to 1.

    Returns:
      Scalars, in nats. The standard error is that of independent chains, however dependent the
      draws of a chain are.

    Example:
      >>> log_ratios = jnp.log(jnp.array([[[1.0, 1.0]], [[3.0, 3.0]]]))
      >>> estimate = tempering_log_partition(log_ratios, jnp.array([0.0, 1.0]))
      >>> round(float(jnp.exp(estimate.value)), 5)
      2.0

    Source: Syed et al. 2022.
    """
    check_whole_ladder(powers)
    powers, log_ratios = jnp.asarray(powers), jnp.asarray(log_ratios)
    if log_ratios.ndim != 3 or log_ratios.shape[0] < 2 or log_ratios.shape[2] != len(powers):
        raise ValueError(
            "log_ratios must have shape (chains, draws, num_powers) with at least two chains and "
            f"{len(powers)} powers, got {log_ratios.shape}. Cut the draws of one chain into blocks."
        )
    log_weights = logsumexp(jnp.diff(powers)[None, None] * log_ratios[..., :-1], axis=1)
    return _weigh((log_weights - jnp.log(log_ratios.shape[1])).T)


def _weigh(log_weights: jax.Array) -> Estimate:
    """Returns the estimate by the log weights (num_powers - 1, chains, ...) of each rung."""
    log_ratios = logsumexp(log_weights, axis=1) - jnp.log(log_weights.shape[1])
    # Sums each chain's influences, so that chains may remember the powers below.
    influences = jnp.sum(jnp.exp(log_weights - log_ratios[:, None]), axis=0)
    return Estimate(jnp.sum(log_ratios, axis=0), mean_error(influences))
