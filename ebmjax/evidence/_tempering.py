"""The normalising constant from the draws of parallel tempering."""

from typing import Any

import jax.numpy as jnp
from jax.scipy.special import logsumexp

from ebmjax._checks import check_whole_ladder
from ebmjax.evidence._stepping_stone import stepping_stone_log_evidence
from ebmjax.evidence._weights import Estimate


def tempering_log_partition(log_ratios: Any, powers: Any) -> Estimate:
    r"""Returns log Z of a density from replicas at powers between its base density and it.

    .. math::
        \log Z = \sum_i \log E_{p_i}\!\left[ e^{(t_{i+1} - t_i)\, w} \right], \qquad
        w = f - \log q

    These are stepping stones over the draws of all chains. It is log Z / Z_0 if the base density is
    not normalised. A mode that the replicas never found is missing from it.

    Args:
      log_ratios: w of the replica at every power, shape (chains, draws, num_powers): those of
        ``adapt_ladder``, or of the infos of ``run_chain`` with ``batch_step``. At least two chains;
        blocks of draws of one long chain may stand for chains.
      powers: (num_powers,), increasing from 0 to 1.

    Returns:
      Scalars, in nats. The standard error is that of independent chains, however dependent the
      draws of a chain are.

    Raises:
      ValueError: if the shapes do not fit, or ``powers`` do not run from 0 to 1.

    Example:
      >>> log_ratios = jnp.log(jnp.array([[[1.0, 1.0]], [[3.0, 3.0]]]))
      >>> estimate = tempering_log_partition(log_ratios, jnp.array([0.0, 1.0]))
      >>> round(float(jnp.exp(estimate.value)), 5)
      2.0

    Source: Xie, Lewis, Fan, Kuo & Chen 2011; Syed et al. 2022.
    """
    check_whole_ladder(powers)
    powers, log_ratios = jnp.asarray(powers), jnp.asarray(log_ratios)
    if log_ratios.ndim != 3 or log_ratios.shape[0] < 2 or log_ratios.shape[2] != len(powers):
        raise ValueError(
            "log_ratios must have shape (chains, draws, num_powers) with at least two chains and "
            f"{len(powers)} powers, got {log_ratios.shape}. Cut the draws of one chain into blocks."
        )
    widths = jnp.diff(powers)[None]
    log_weights = logsumexp(widths[None] * log_ratios[..., :-1], axis=1) - jnp.log(
        log_ratios.shape[1]
    )
    # The mean weight of each chain, as the ratio of one draw would weigh; none at power 1.
    of_chains = jnp.pad((log_weights / widths).T, ((0, 1), (0, 0)))
    return stepping_stone_log_evidence(of_chains, powers)
