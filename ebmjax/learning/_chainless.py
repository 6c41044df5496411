"""The learning gradient of an energy by an objective without chains and buffer."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax.data import ImageData
from ebmjax.learning._contrastive import Carry, View
from ebmjax.learning._image import EnergyOf
from ebmjax.training import GradientFn
from ebmjax.types import Key, Metrics, PyTree

ChainlessLoss = Callable[[Key, Callable[..., jax.Array], jax.Array], tuple[Any, Metrics]]
"""``(key, energy, x) -> (loss, metrics)``: ``energy`` takes arrays (N, ...) to energies (N,), and
``x`` are the data, (N, ...). An energy of many noise levels also takes noise scales (N,)."""


def make_chainless_gradient_fn(
    energy_of: EnergyOf, loss_fn: ChainlessLoss, *, view: View
) -> GradientFn:
    """Differentiates a loss of an energy at the data, without samples.

    Args:
      energy_of: the model.
      loss_fn: see ``ChainlessLoss``, for example of ``losses.denoising_score_matching_loss``.
      view: the data to what the energy sees.

    Returns:
      A ``GradientFn`` whose batch is an ``ImageData`` and whose carry is a ``Carry`` that counts
      steps. Metrics: "loss", those of ``loss_fn``, and "positive_energy", the mean energy of the
      data.
    """

    def gradient_fn(
        key: Key, params: PyTree, carry: Carry, batch: ImageData
    ) -> tuple[PyTree, Carry, Metrics]:
        view_key, loss_key = jax.random.split(key)
        x, labels = view(view_key, jnp.asarray(batch.images)), jnp.asarray(batch.labels)

        def loss(params: PyTree) -> tuple[Any, Metrics]:
            energy = energy_of(params)
            return loss_fn(
                loss_key, lambda x, *noise: energy(x, jnp.resize(labels, (len(x),)), *noise), x
            )

        (value, metrics), gradients = jax.value_and_grad(loss, has_aux=True)(params)
        metrics = {"positive_energy": jnp.mean(energy_of(params)(x, labels)), **metrics}
        return gradients, carry._replace(step=carry.step + 1), {**metrics, "loss": value}

    return gradient_fn
