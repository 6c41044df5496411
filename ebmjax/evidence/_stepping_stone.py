"""The log evidence as a product of ratios between neighbouring power posteriors."""

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from ebmjax.evidence._thermodynamic import check_chains
from ebmjax.evidence._weights import Estimate, mean_error


def stepping_stone_log_evidence(log_likelihoods: jax.Array, powers: jax.Array) -> Estimate:
    r"""Returns ``log p(x)`` by stepping stones: each rung weighs the next.

    .. math::
        \log p(x) = \sum_{i=1}^{N_t} \log E_{p_{i-1}}\!\left[ p(x \mid z)^{t_i - t_{i-1}} \right]

    There is no quadrature. With exact draws, the product of the means is unbiased for p(x) on any
    ladder; the sum of their logs is too low by about half its squared standard error.

    Args:
      log_likelihoods: of the chains at every power, in nats with the likelihood's constant, shape
        (num_powers, chains, ...); trailing axes, such as one per observation, are kept. Those at
        the last power, t = 1, are not used.
      powers: shape (num_powers,), increasing from 0 to 1.

    Returns:
      Shape (...). The standard error assumes independent chains, as in
      ``thermodynamic_log_evidence``.

    Example:
      >>> log_likelihoods = jnp.log(jnp.array([[1.0, 3.0], [7.0, 7.0]]))
      >>> estimate = stepping_stone_log_evidence(log_likelihoods, jnp.array([0.0, 1.0]))
      >>> round(float(jnp.exp(estimate.value)), 5)
      2.0

    Source: Xie, Lewis, Fan, Kuo & Chen 2011.
    """
    check_chains(log_likelihoods, powers)
    log_likelihoods = jnp.asarray(log_likelihoods)
    num_chains = log_likelihoods.shape[1]
    widths = jnp.diff(jnp.asarray(powers)).reshape(-1, *[1] * (log_likelihoods.ndim - 1))
    log_weights = widths * log_likelihoods[:-1]
    log_ratios = logsumexp(log_weights, axis=1) - jnp.log(num_chains)
    # Sums each chain's influences, so that chains may remember the powers below.
    influences = jnp.sum(jnp.exp(log_weights - log_ratios[:, None]), axis=0)
    return Estimate(jnp.sum(log_ratios, axis=0), mean_error(influences))
