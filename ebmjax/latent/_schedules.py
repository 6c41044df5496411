"""Powers of the thesis."""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._checks import check_at_least, check_positive


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
