"""The powers between prior and posterior, and the trapezium rule over them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ebmjax._checks import check_at_least, check_positive, check_scalar, trim


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
    check_scalar("exponent", exponent)
    check_positive("exponent", exponent)
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


def check_powers(powers: jax.Array, *, minimum: int) -> None:
    """Raises ValueError unless ``minimum`` or more ``powers`` increase within [0, 1]."""
    if jnp.ndim(powers) != 1 or jnp.shape(powers)[0] < minimum:
        raise ValueError(
            f"powers must have shape (num_powers,) with at least {minimum} of them, got shape "
            f"{jnp.shape(powers)}."
        )
    if isinstance(powers, Tracer):
        return
    values = np.asarray(powers)
    if not (np.all(np.diff(values) > 0) and values[0] >= 0 and values[-1] <= 1):
        raise ValueError(
            "powers must increase strictly within [0, 1], from the prior's end to the "
            f"posterior's, got {trim(values.tolist())}. power_schedule makes such a ladder."
        )


def check_whole_ladder(powers: jax.Array) -> None:
    """Raises ValueError unless ``powers`` increase from exactly 0 to exactly 1."""
    check_powers(powers, minimum=2)
    if isinstance(powers, Tracer):
        return
    first, last = np.asarray(powers)[[0, -1]]
    if first != 0.0 or last != 1.0:
        raise ValueError(
            "powers must run from 0 (the prior) to 1 (the posterior), or their sum is not the log "
            f"evidence; got ends {first} and {last}."
        )
