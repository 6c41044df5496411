"""Energy discrepancy: energies of the data against those of perturbed data, without scores."""

import math
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._checks import check_not_negative
from ebmjax._precision import as_floats, at_least_float32
from ebmjax.types import Metrics


def energy_discrepancy_loss(
    energy: Any, perturbed_energy: Any, *, stabiliser: Any = 1.0
) -> tuple[jax.Array, Metrics]:
    r"""Returns the loss of energy discrepancy at one amount of noise t.

    .. math::
        L = \overline{\log\Big(\frac{w}{M} + \frac1M \sum_{j=1}^{M} e^{E(x) - E(x_j)}\Big)},
        \qquad x_j = x + \sqrt t\, \xi + \sqrt t\, \xi'_j

    :math:`\xi` is one draw for an example, :math:`\xi'_j` one for each of its M perturbed copies.
    For small t, L / t tends to the loss of score matching; for large t, L tends to that of maximum
    likelihood, up to a constant. No gradient by x is needed.

    Args:
      energy: of the data, shape (N,), nats.
      perturbed_energy: of their perturbed copies, shape (N, M).
      stabiliser: w, at least 0. It keeps the logarithm finite where M is small, at a bias of order
        w / M; may be traced.

    Returns:
      The scalar loss, float32 or float64 as the energies are, and metrics: ``positive_energy``,
      ``perturbed_energy`` (means) and ``energy_gap``, the second minus the first.

    Source: Schroeder et al. 2023 (arXiv 2307.06431).

    Example:
      >>> loss, _ = energy_discrepancy_loss(jnp.zeros(1), jnp.zeros((1, 4)), stabiliser=0.0)
      >>> float(loss)
      0.0
    """
    check_not_negative("stabiliser", stabiliser, is_scalar=True)
    energy = as_floats("energy", energy)
    perturbed = at_least_float32(jnp.asarray(perturbed_energy))
    if perturbed.ndim != 2 or len(perturbed) != len(energy) or perturbed.size == 0:
        raise ValueError(
            f"perturbed_energy must have shape (N, M) with N={len(energy)} and M at least 1, got "
            f"shape {perturbed.shape}."
        )
    weight = jnp.broadcast_to(jnp.log(jnp.asarray(stabiliser, energy.dtype)), (len(energy), 1))
    terms = jnp.concatenate([weight, energy[:, None] - perturbed], axis=1)
    loss = jnp.mean(jax.nn.logsumexp(terms, axis=1)) - math.log(perturbed.shape[1])
    means = jnp.mean(energy), jnp.mean(perturbed)
    return loss, {
        "positive_energy": means[0],
        "perturbed_energy": means[1],
        "energy_gap": means[1] - means[0],
    }
