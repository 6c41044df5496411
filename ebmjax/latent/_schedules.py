"""Powers of the thesis, and powers placed where the power posteriors of a pilot run change."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax._checks import check_at_least, check_positive, check_powers, is_traced, trim


def power_schedule(num_intervals: int, exponent: Any) -> jax.Array:
    r"""Returns the powers :math:`t_i = (i / N_t)^p`, both ends included.

    Args:
      num_intervals: :math:`N_t`, at least 1.
      exponent: p, positive. Above 1, powers crowd near the prior; below 1, near the posterior.

    Source: thermodynamic-integration thesis, Eq. 21, with the node t = 0 its sums need.
    """
    check_at_least("num_intervals", num_intervals, 1)
    check_positive("exponent", exponent, is_scalar=True)
    return (jnp.arange(num_intervals + 1) / num_intervals) ** exponent


def adaptive_schedule(
    powers: jax.Array, mean_log_likelihoods: jax.Array, num_intervals: int
) -> jax.Array:
    r"""Returns powers that cut the way from prior to posterior into intervals of equal divergence.

    The divergences of two power posteriors sum, exactly and for every model, to

    .. math::
        J_i = KL(p_i \| p_{i+1}) + KL(p_{i+1} \| p_i) = (t_{i+1} - t_i)(E_{i+1} - E_i)

    so a pilot run's mean log likelihoods give it. Every new interval gets an equal share of the
    thermodynamic length :math:`\sum_i \sqrt{J_i}`; between the pilot's powers, t is linear in the
    length. E cannot fall with t. If noise makes it fall, the interval counts as length 0.

    Args:
      powers: the pilot run's, shape (num_powers,), increasing from 0 to 1. An exponent of 4 to 6
        works best; at 1 a sharp likelihood leaves J 20 to 120 times larger near the prior.
      mean_log_likelihoods: the pilot run's, shape (num_powers,), in nats; averaged over
        observations if they share a ladder.
      num_intervals: of the new ladder (static).

    Returns:
      Shape (num_intervals + 1,), strictly increasing from exactly 0 to exactly 1; NaN inside if
      traced energies increase nowhere.

    Source: Calderhead & Girolami 2009 for J and where the powers belong; Gelman & Meng 1998 for
    the length.
    """
    check_powers(powers, is_whole=True)
    check_at_least("num_intervals", num_intervals, 1)
    if jnp.shape(mean_log_likelihoods) != jnp.shape(powers):
        raise ValueError(
            f"mean_log_likelihoods must have one entry per power, shape {jnp.shape(powers)}, got "
            f"{jnp.shape(mean_log_likelihoods)}. Average over observations first."
        )
    if not is_traced(mean_log_likelihoods):
        values = np.asarray(mean_log_likelihoods)
        if not np.all(np.isfinite(values)) or not np.any(np.diff(values) > 0.0):
            raise ValueError(
                "mean_log_likelihoods must be finite and increase somewhere along the powers, got "
                f"{trim(values.tolist())}. Run the pilot with more chains or more steps."
            )
    powers, energies = jnp.asarray(powers), jnp.asarray(mean_log_likelihoods)
    divergences = jnp.diff(powers) * jnp.maximum(jnp.diff(energies), 0.0)
    lengths = jnp.pad(jnp.cumsum(jnp.sqrt(divergences)), (1, 0))
    shares = jnp.arange(1, num_intervals) / num_intervals
    inner = jnp.interp(shares * lengths[-1], lengths, powers)
    inner = jnp.where(lengths[-1] > 0.0, inner, jnp.nan)
    return jnp.concatenate([powers[:1], inner, powers[-1:]])
