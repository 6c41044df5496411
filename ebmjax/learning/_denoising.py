"""The learning gradient of an energy by denoising score matching: no chains, no buffer."""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax.data import ImageData
from ebmjax.learning._contrastive import Carry, View
from ebmjax.learning._image import EnergyOf
from ebmjax.losses import denoising_score_matching_loss
from ebmjax.training import GradientFn
from ebmjax.types import Key, Metrics, PyTree


def make_denoising_gradient_fn(energy_of: EnergyOf, *, view: View, noise_scale: Any) -> GradientFn:
    r"""Differentiates ``denoising_score_matching_loss`` of an energy of images.

    Args:
      energy_of: the model. It is differentiated twice, so a piecewise linear network learns little.
      view: uint8 images of the data to what the energy sees.
      noise_scale: standard deviation of the noise at which scores are matched, positive.

    Returns:
      A ``GradientFn`` whose batch is an ``ImageData`` and whose carry is a ``Carry`` that
      counts steps. Metrics: "loss", "score_norm" and "positive_energy", the mean energy of the
      images without noise.

    Source: Vincent 2011.
    """

    def gradient_fn(
        key: Key, params: PyTree, carry: Carry, batch: ImageData
    ) -> tuple[PyTree, Carry, Metrics]:
        view_key, noise_key = jax.random.split(key)
        images, labels = view(view_key, jnp.asarray(batch.images)), jnp.asarray(batch.labels)
        noise = jax.random.normal(noise_key, images.shape, images.dtype)

        def loss_fn(params: PyTree) -> tuple[jax.Array, Metrics]:
            energy = energy_of(params)
            noisy = images + noise_scale * noise
            # Energies of images are independent, so the gradient of their sum has every score.
            score = jax.grad(lambda x: -jnp.sum(energy(x, labels)))(noisy)
            return denoising_score_matching_loss(score, noise, noise_scale=noise_scale)

        (loss, metrics), gradients = jax.value_and_grad(loss_fn, has_aux=True)(params)
        metrics |= {"loss": loss, "positive_energy": jnp.mean(energy_of(params)(images, labels))}
        return gradients, carry._replace(step=carry.step + 1), metrics

    return gradient_fn
