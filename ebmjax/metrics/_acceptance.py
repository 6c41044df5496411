"""How many of a chain's proposals were, or would have been, accepted."""

from typing import Any

import jax
import jax.numpy as jnp

REPORTED_AS = ("acceptance_prob", "acceptance_rate")  # ours, BlackJAX's


def acceptance_rate(infos: Any) -> jax.Array:
    """The mean acceptance probability of each chain, over a leading axis of draws.

    The mean of probabilities, not of decisions: the same expectation, with less noise, and defined
    for samplers that never reject.

    Args:
      infos: from ``ebmjax.samplers.run_chain``: ``acceptance_prob`` (``acceptance_rate`` in
        BlackJAX's infos) of shape (draws, ...).

    Returns:
      Shape (...): a scalar for one chain, (chains,) for many.

    Raises:
      ValueError: if the infos report no acceptance, or there are no draws.

    Example:
      >>> from ebmjax.samplers import LangevinInfo
      >>> infos = LangevinInfo(jnp.array([1.0, 0.5]), jnp.array([True, False]), jnp.zeros(2))
      >>> float(acceptance_rate(infos))
      0.75
    """
    found = [getattr(infos, name) for name in REPORTED_AS if hasattr(infos, name)]
    if not found or jnp.ndim(found[0]) == 0 or len(found[0]) == 0:
        fields = getattr(infos, "_fields", type(infos).__name__)
        raise ValueError(
            "infos must report acceptance_prob (or BlackJAX's acceptance_rate) with a leading axis "
            f"of at least one draw, as run_chain returns them; got {fields}."
        )
    return jnp.mean(found[0], axis=0)
