"""Maximum likelihood by samples: the data's energy down, the samples' energy up."""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._checks import check_not_negative, check_scalar
from ebmjax.losses._inputs import as_batch
from ebmjax.types import Metrics


def contrastive_divergence_loss(
    positive_energy: Any, negative_energy: Any, *, energy_l2: Any = 0.0
) -> tuple[jax.Array, Metrics]:
    r"""Contrastive divergence, persistent or not: that is up to where the samples come from.

    .. math::
        L = \overline{E(x^+)} - \overline{E(x^-)}
            + \alpha \big( \overline{E(x^+)^2} + \overline{E(x^-)^2} \big)

    The negatives' positions are constants (the sampler's, ``stop_gradient``); their energies are
    not: evaluate the network on them with the parameters being trained, so that the gradient
    flows through both arguments.

    Args:
      positive_energy: energies of the data, shape (N,), nats.
      negative_energy: energies of the samples, shape (M,); M need not be N.
      energy_l2: weight :math:`\alpha` of the squared energies, which keeps the free constant of
        the energy near zero; may be traced.

    Returns:
      The scalar float32 loss and metrics ``positive_energy`` and ``negative_energy`` (means),
      ``energy_gap`` (negative minus positive: above 0 where the model prefers the data) and
      ``energy_l2`` (the weighted penalty as it enters the loss).

    Raises:
      TypeError, ValueError: if an argument is not floating point, not of shape (count,) or empty,
        or a concrete ``energy_l2`` is negative.

    Source: sampling-approaches thesis, Alg. 1 and 7; Du & Mordatch 2019.

    Example:
      >>> loss, metrics = contrastive_divergence_loss(jnp.array([1.0, 3.0]), jnp.array([5.0]))
      >>> float(loss), float(metrics["energy_gap"])
      (-3.0, 3.0)
    """
    check_scalar("energy_l2", energy_l2)
    check_not_negative("energy_l2", energy_l2)
    positive_energy = as_batch("positive_energy", positive_energy)
    negative_energy = as_batch("negative_energy", negative_energy)
    positive, negative = jnp.mean(positive_energy), jnp.mean(negative_energy)
    squares = jnp.mean(jnp.square(positive_energy)) + jnp.mean(jnp.square(negative_energy))
    penalty = jnp.asarray(energy_l2, jnp.float32) * squares
    return positive - negative + penalty, {
        "positive_energy": positive,
        "negative_energy": negative,
        "energy_gap": negative - positive,
        "energy_l2": penalty,
    }
