"""The learning gradient of an energy by an objective without chains and buffer."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

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


class LossWithMemory(NamedTuple):
    """A loss in place of a ``ChainlessLoss`` that keeps something between steps, such as a count.

    Attributes:
      init: ``key -> memory``, arrays that one shard keeps before the first step.
      draw: ``(key, energy, x, memory) -> (samples, memory, metrics)``, outside of what is
        differentiated.
      loss: ``(energy, x, samples) -> (loss, metrics)``, by constant ``samples``.
    """

    init: Callable[[Key], PyTree]
    draw: Callable[..., tuple[PyTree, PyTree, Metrics]]
    loss: Callable[[Callable[[jax.Array], jax.Array], jax.Array, Any], tuple[Any, Metrics]]


def draw_for_loss(
    loss_fn: "ChainlessLoss | LossWithMemory",
    key: Key,
    energy: Callable[[jax.Array], jax.Array],
    x: jax.Array,
    memory: PyTree,
) -> tuple[Callable[..., tuple[Any, Metrics]], PyTree, Metrics]:
    """Returns ``(energy, x) -> (loss, metrics)`` of this step, the memory after it, and metrics.

    Args:
      loss_fn: with a memory or without.
      key: consumed, once.
      energy: by the parameters of this step, as constants.
      x: the data.
      memory: what the shard keeps; () without.
    """
    if not isinstance(loss_fn, LossWithMemory):
        return partial(loss_fn, key), memory, {}
    drawn, memory, metrics = loss_fn.draw(key, energy, x, memory)
    return lambda energy, x: loss_fn.loss(energy, x, jax.lax.stop_gradient(drawn)), memory, metrics


def make_chainless_gradient_fn(
    energy_of: EnergyOf, loss_fn: ChainlessLoss | LossWithMemory, *, view: View
) -> GradientFn:
    """Differentiates a loss of an energy at the data, without samples.

    Args:
      energy_of: the model.
      loss_fn: see ``ChainlessLoss``, for example of ``losses.denoising_score_matching_loss``; or
        a ``LossWithMemory``, whose memory starts in ``init_carry``.
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

        def bind(params: PyTree) -> Callable[[jax.Array], jax.Array]:
            energy = energy_of(params)
            return lambda x, *noise: energy(x, jnp.resize(labels, (len(x),)), *noise)

        loss, memory, drawn = draw_for_loss(loss_fn, loss_key, bind(params), x, carry.memory)
        (value, metrics), gradients = jax.value_and_grad(
            lambda params: loss(bind(params), x), has_aux=True
        )(params)
        metrics = {"positive_energy": jnp.mean(energy_of(params)(x, labels)), **drawn, **metrics}
        carry = carry._replace(step=carry.step + 1, memory=memory)
        return gradients, carry, {**metrics, "loss": value}

    return gradient_fn
