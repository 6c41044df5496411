"""The thesis's sum for the log evidence with its printed sign, to reproduce its numbers."""

from typing import Any

import jax

from ebmjax.evidence import log_evidence


def literal_log_evidence(
    mean_log_likelihoods: jax.Array,
    powers: jax.Array,
    *,
    kl_forward: jax.Array,
    kl_backward: jax.Array,
    kl_weight: Any = 1.0,
) -> jax.Array:
    r"""Returns the thesis's Eq. 22 as printed, a plus between divergences: not a log evidence.

    .. math::
        \sum_{i=1}^{N_t} \left\{ \frac{(t_i - t_{i-1})(E_{i-1} + E_i)}{2}
            + \eta\, \frac{KL(p_{i-1} \| p_i) + KL(p_i \| p_{i-1})}{2} \right\}

    The two divergences of neighbours sum to :math:`(t_i - t_{i-1})(E_i - E_{i-1})`. So with exact
    divergences and :math:`\eta = 1` this is the right-hand Riemann sum :math:`\sum_i (t_i -
    t_{i-1}) E_i`. It is above the log evidence by :math:`\sum_i KL(p_i \| p_{i-1})`, and its error
    falls no faster than 1 / N_t. ``log_evidence`` is the identity.

    Args:
      mean_log_likelihoods, powers, kl_forward, kl_backward: as in ``log_evidence``.
      kl_weight: the thesis's :math:`\eta`.

    Example:
      >>> import jax.numpy as jnp
      >>> kl = jnp.array([0.5])
      >>> float(literal_log_evidence(
      ...     jnp.array([-3.0, -1.0]), jnp.array([0.0, 1.0]), kl_forward=kl, kl_backward=3 * kl))
      -1.0

    Source: thermodynamic-integration thesis, Eq. 22, and Eq. 19 for a weight of 1.
    """
    return log_evidence(
        mean_log_likelihoods,
        powers,
        kl_forward=kl_forward,
        kl_backward=-kl_backward,
        kl_weight=kl_weight,
    )
