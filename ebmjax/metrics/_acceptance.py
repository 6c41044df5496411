"""The fraction of a chain's proposals that were, or would have been, accepted."""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax.metrics._chains import check_more_draws
from ebmjax.types import acceptance_of


def acceptance_rate(infos: Any, *, allow_few_draws: bool = False) -> jax.Array:
    """Returns the mean acceptance probability of each chain, over its draws.

    A mean of probabilities has the expectation of a mean of decisions, with less noise, and exists
    for samplers that never reject.

    Args:
      infos: from ``ebmjax.samplers.run_chain``: ``acceptance_prob`` (``acceptance_rate`` in
        BlackJAX's infos) of shape (draws,) or (chains, draws).
      allow_few_draws: whether there may be fewer draws than chains (static). False raises, because
        such infos usually have their draws first.

    Returns:
      A scalar for one chain, (chains,) for many.

    Example:
      >>> from ebmjax.samplers import LangevinInfo
      >>> infos = LangevinInfo(jnp.array([1.0, 0.5]), jnp.array([True, False]), jnp.zeros(2))
      >>> float(acceptance_rate(infos))
      0.75
    """
    found = acceptance_of(infos)
    if found is None or jnp.ndim(found) == 0 or jnp.shape(found)[-1] == 0:
        fields = getattr(infos, "_fields", type(infos).__name__)
        shape = "" if found is None else f" of shape {jnp.shape(found)}"
        raise ValueError(
            "infos must report acceptance_prob (or BlackJAX's acceptance_rate) of shape (draws,) "
            f"or (chains, draws) with at least one draw, as run_chain returns them; got {fields}"
            f"{shape}."
        )
    if jnp.ndim(found) > 1:
        check_more_draws("infos", jnp.shape(found)[-2:], allow_few_draws)
    return jnp.mean(found, axis=-1)
