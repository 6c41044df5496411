"""Energies of a batch, which objectives with chains compare."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax.types import Metrics


class EnergyBatch(NamedTuple):
    """Energies of a batch, in nats.

    Attributes:
      positive: of the data, (N,).
      negative: of the samples, (M,).
      smoothing: scalar alpha; the density is proportional to exp(-E / alpha).
      beta: scalar, exponent of the robust objective at this step; None: the section's.
      live: of the ends of chains whose last steps are differentiated, (M,), by constant parameters.
      entropy: scalar, of these ends.
    """

    positive: jax.Array
    negative: jax.Array
    smoothing: Any = 1.0
    beta: Any = None
    live: Any = None
    entropy: Any = None


def energy_means(positive: jax.Array, negative: jax.Array) -> Metrics:
    """Returns the mean energies of data and samples, and their gap, in nats."""
    means = jnp.mean(positive), jnp.mean(negative)
    return {
        "positive_energy": means[0],
        "negative_energy": means[1],
        "energy_gap": means[1] - means[0],
    }
