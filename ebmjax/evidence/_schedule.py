"""The powers between prior and posterior, and the trapezium rule over them."""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._checks import check_at_least, check_positive, check_powers


def power_schedule(num_intervals: int, exponent: Any) -> jax.Array:
    r"""Returns the powers :math:`t_i = (i / N_t)^p`, both ends included.

    Args:
      num_intervals: :math:`N_t`, at least 1.
      exponent: p, positive. Above 1, powers crowd near the prior; below 1, near the posterior.

    Returns:
      Shape (num_intervals + 1,), from exactly 0 to exactly 1.

    Example:
      >>> power_schedule(2, 3.0).tolist()
      [0.0, 0.125, 1.0]

    Source: thermodynamic-integration thesis, Eq. 21, with the node t = 0 its sums need.
    """
    check_at_least("num_intervals", num_intervals, 1)
    check_positive("exponent", exponent, is_scalar=True)
    return (jnp.arange(num_intervals + 1) / num_intervals) ** exponent


def trapezium_weights(powers: jax.Array) -> jax.Array:
    """Returns weights w such that ``sum_i w_i f(t_i)`` is the trapezium rule for the integral of f.

    Args:
      powers: strictly increasing, shape (num_powers,) with at least two.

    Returns:
      Shape (num_powers,); they sum to ``powers[-1] - powers[0]``.

    Example:
      >>> trapezium_weights(power_schedule(2, 1.0)).tolist()
      [0.25, 0.5, 0.25]
    """
    check_powers(powers, minimum=2)
    half_widths = jnp.diff(jnp.asarray(powers)) / 2.0
    return jnp.pad(half_widths, (0, 1)) + jnp.pad(half_widths, (1, 0))
