"""Maximum likelihood by samples: the data's energy down, the samples' energy up."""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._precision import as_floats, energy_penalty
from ebmjax.types import Metrics


def contrastive_divergence_loss(
    positive_energy: Any, negative_energy: Any, *, energy_l2: Any = 0.0
) -> tuple[jax.Array, Metrics]:
    r"""Returns the loss of contrastive divergence, persistent or not as the samples are.

    .. math::
        L = \overline{E(x^+)} - \overline{E(x^-)}
            + \alpha \big( \overline{E(x^+)^2} + \overline{E(x^-)^2} \big)

    The negatives' positions are constants (``stop_gradient``); their energies are not. Evaluate the
    network on them with the parameters being trained, so that the gradient flows through both
    arguments.

    Args:
      positive_energy: energies of the data, shape (N,), nats.
      negative_energy: energies of the samples, shape (M,); M need not be N.
      energy_l2: weight :math:`\alpha` of the squared energies, which keeps the energy's free
        constant near zero; may be traced.

    Returns:
      The scalar loss, float32 or float64 as the energies are, and metrics. ``positive_energy`` and
      ``negative_energy`` are means; ``energy_gap`` is negative minus positive, above 0 if the model
      prefers the data; ``energy_l2`` is the weighted penalty.

    Source: sampling-approaches thesis, Alg. 1 and 7; Du & Mordatch 2019.
    """
    positive_energy = as_floats("positive_energy", positive_energy)
    negative_energy = as_floats("negative_energy", negative_energy)
    positive, negative = jnp.mean(positive_energy), jnp.mean(negative_energy)
    penalty = energy_penalty(energy_l2, positive_energy, negative_energy)
    return positive - negative + penalty, {
        "positive_energy": positive,
        "negative_energy": negative,
        "energy_gap": negative - positive,
        "energy_l2": penalty,
    }
