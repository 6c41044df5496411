"""The learning gradient of an energy of images, its chains included, for the training loop."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax._axes import AxisName, check_mapped, gather_rows
from ebmjax._checks import check_at_least, check_labels
from ebmjax.data import ImageData
from ebmjax.learning._image_energy_chains import ImageNegatives, run_kinds
from ebmjax.learning._image_energy_shards import ImageEnergyShard
from ebmjax.learning._joint import View
from ebmjax.learning._live_chains import run_live_chains
from ebmjax.losses import nearest_neighbour_entropy
from ebmjax.samplers import ReplayBuffer, replay_buffer_draw
from ebmjax.training import GradientFn, with_data_check, write_slots
from ebmjax.types import Key, LogDensityFn, Metrics, PyTree

Energy = Callable[[jax.Array, jax.Array], jax.Array]
"""``energy(images, labels)``: (..., H, W, C) and (...,) to (...,); labels may be ignored."""

EnergyOf = Callable[[PyTree], Energy]
"""``energy_of(params) -> energy``: what all chains of a step share, such as a spectral norm, is
computed here, once."""

EnergyLoss = Callable[..., tuple[jax.Array, Metrics]]
"""``(positive energies, negative energies, beta) -> (loss, metrics)``; with live chains called with
their energies and their entropy, too."""


@dataclass(frozen=True, kw_only=True)
class LiveSteps:
    """The last steps of every chain, differentiated: see ``run_live_chains``.

    Attributes:
      step_size: step size of the Langevin steps, as the sampler's.
      noise_scale: noise of the Langevin steps, as the sampler's.
      num_steps: fewer than the chains have, of which they are the last (static).
      low: lower end of the box that every step ends in.
      high: upper end of that box.
      num_references: slots of a shard's buffer, none of them a start of the step's chains, among
        which the entropy's neighbours are sought.
    """

    step_size: float
    noise_scale: float
    num_steps: int = 1
    low: float = -jnp.inf
    high: float = jnp.inf
    num_references: int = 100

    def __post_init__(self) -> None:
        for name in ("num_steps", "num_references"):
            check_at_least(name, getattr(self, name), 1)


def class_densities(energy: Energy, beta: Any) -> Callable[[jax.Array], LogDensityFn]:
    """``label -> log_density_fn``: what chains of a class follow, ``-(1 - beta) E``.

    Args:
      energy: of images (H, W, C) and their labels.
      beta: of the robust objective, below 1: its weights carry the rest of the density. 0 without.
    """
    return lambda label: lambda x: -(1.0 - beta) * energy(x, label)


def make_image_energy_gradient_fn(
    energy_of: EnergyOf,
    loss_fn: EnergyLoss,
    *,
    view: View,
    negatives: ImageNegatives,
    beta_fn: Callable[[jax.Array], Any] = lambda step: 0.0,
    live: LiveSteps | None = None,
    batch_axis: AxisName = None,
) -> GradientFn:
    """Draws negatives by chains and differentiates the loss of an energy of images.

    Chains go on from the shard's replay buffer, or start anew where the shard has none. They follow
    ``class_densities``; under the robust objective the loss weighs in the rest.

    Args:
      energy_of: the model.
      loss_fn: see ``EnergyLoss``.
      view: uint8 images of the data to what the energy sees.
      negatives: samplers, lengths and initial law.
      beta_fn: beta at a step (scalar int32, steps not skipped so far), below 1.
      live: makes the last steps of the chains live, for
        ``ebmjax.losses.improved_contrastive_divergence_loss``; needs a replay buffer.
      batch_axis: mapped axis, or axes, whose shards make up one batch: ("data", "shard") under
        ``fit``. The loss then weighs the energies of the whole batch. Live chains keep away from
        the references of all shards. Step sizes adapt to the acceptance of all chains. So any
        number of shards has the gradient of one. With None each shard is a separate batch, and the
        gradients are averaged.

    Returns:
      A ``GradientFn`` whose batch is an ``ImageData`` and whose shard state an
      ``ImageEnergyShard``. Metrics: "loss", those of ``loss_fn``, "beta", and those of
      ``run_kinds`` prefixed "chain_".

    Raises:
      ValueError: if live steps are not fewer than those of every chain; while tracing, if they lack
        a buffer, or if an axis is not mapped.

    Source: sampling-approaches thesis, Alg. 7; Du et al. 2021.
    """
    for name, kind in negatives.kinds.items():
        if live is not None and live.num_steps >= kind.num_steps:
            raise ValueError(
                f"live.num_steps={live.num_steps} must be fewer than the {kind.num_steps} steps of "
                f"the chains of kind {name!r}, of which they are the last."
            )
    step = _Step(energy_of, loss_fn, view, negatives, beta_fn, live, batch_axis)
    return with_data_check(partial(step.learn), step.check_data)


class _Starts(NamedTuple):
    """Starts of chains, the slots they came from, and buffered images of other slots."""

    positions: jax.Array
    labels: jax.Array
    slots: jax.Array | None
    references: jax.Array | None


class _Step(NamedTuple):
    """The parts of one step, bound to what stays the same."""

    energy_of: EnergyOf
    loss_fn: EnergyLoss
    view: View
    negatives: ImageNegatives
    beta_fn: Callable[[jax.Array], Any]
    live: LiveSteps | None
    batch_axis: AxisName

    def check_data(self, params: PyTree, shard: PyTree, data: ImageData) -> None:
        """Raises unless all labels are classes of a conditional energy; others ignore them."""
        del params, shard
        if self.negatives.num_classes > 1:
            num_classes = self.negatives.num_classes
            check_labels("data.labels", data.labels, len(data.images), num_classes)

    def learn(
        self, key: Key, params: PyTree, shard: ImageEnergyShard, batch: ImageData
    ) -> tuple[PyTree, ImageEnergyShard, Metrics]:
        """The gradient of the loss, and the shard with its chains moved on."""
        check_mapped("batch_axis", self.batch_axis)
        view_key, start_key, chain_key, live_key = jax.random.split(key, 4)
        beta = self.beta_fn(shard.step)
        starts = self._starts(start_key, shard)
        moved, adaptation, chain_metrics = run_kinds(
            chain_key,
            class_densities(self.energy_of(params), beta),
            self.negatives,
            starts.positions,
            starts.labels,
            shard.adaptation,
            num_fewer=self.live.num_steps if self.live else 0,
            batch_axis=self.batch_axis,
        )
        moved = jax.lax.stop_gradient(moved)
        positives = self.view(view_key, jnp.asarray(batch.images))
        num_kinds = len(self.negatives.kinds)

        def loss_fn(params: PyTree) -> tuple[jax.Array, Any]:
            ends, live_terms = self._live_terms(live_key, params, beta, moved, starts)
            together = jnp.concatenate([positives, ends])
            labels = jnp.concatenate([batch.labels, starts.labels])
            energies = self.energy_of(params)(together, labels)
            positive, negative = energies[: len(positives)], energies[len(positives) :]
            positive, negative = self._whole(positive, 1), self._whole(negative, num_kinds)
            loss, metrics = self.loss_fn(positive, negative, beta, *live_terms)
            return loss, (metrics, ends)

        (loss, (metrics, ends)), gradients = jax.value_and_grad(loss_fn, has_aux=True)(params)
        buffer = shard.buffer
        if starts.slots is not None:
            buffer = ReplayBuffer(write_slots(starts.slots, ends))
        metrics = {**metrics, "loss": loss, "beta": jnp.float32(beta)}
        metrics |= {f"chain_{name}": value for name, value in chain_metrics.items()}
        return gradients, ImageEnergyShard(buffer, shard.step + 1, adaptation), metrics

    def _whole(self, energies: jax.Array, num_parts: int) -> jax.Array:
        """Energies (n,) of all shards, each of the equal parts of a shard joined with its like."""
        parts = energies.reshape(num_parts, -1)
        return gather_rows(parts.T, self.batch_axis).T.ravel()

    def _starts(self, key: Key, shard: ImageEnergyShard) -> _Starts:
        negatives, num = self.negatives, self.negatives.num_samples
        label_key, draw_key, augment_key = jax.random.split(key, 3)
        num_drawn = num + (self.live.num_references if self.live else 0)
        labels = jax.random.randint(label_key, (num_drawn,), 0, negatives.num_classes)
        if not jax.tree.leaves(shard.buffer):
            if self.live is not None:
                raise ValueError("live chains need a replay buffer, whose images they keep from.")
            positions = jax.vmap(negatives.law)(jax.random.split(draw_key, num), labels)
            return _Starts(positions, labels, None, None)
        draw = replay_buffer_draw(
            draw_key,
            shard.buffer,
            num_drawn,
            negatives.law,
            num_classes=negatives.num_classes,
            reinit_prob=negatives.reinit_prob,
            labels=labels,
        )
        positions = draw.positions[:num]
        if negatives.augment is not None:
            is_new = draw.is_new[:num].reshape((num,) + (1,) * (positions.ndim - 1))
            positions = jnp.where(is_new, positions, negatives.augment(augment_key, positions))
        references = None
        if self.live is not None:
            references = shard.buffer.positions[draw.slots[num:]]
            references = gather_rows(references, self.batch_axis)
        return _Starts(positions, labels[:num], draw.slots[:num], references)

    def _live_terms(
        self, key: Key, params: PyTree, beta: Any, moved: jax.Array, starts: _Starts
    ) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Ends as constants; energies, by constant parameters, and entropy of the live ones."""
        if self.live is None:
            return moved, ()
        ends = run_live_chains(
            key,
            class_densities(self.energy_of(params), beta),
            moved,
            starts.labels,
            step_size=self.live.step_size,
            noise_scale=self.live.noise_scale,
            num_steps=self.live.num_steps,
            low=self.live.low,
            high=self.live.high,
        )
        energies = self.energy_of(jax.lax.stop_gradient(params))(ends, starts.labels)
        entropy = nearest_neighbour_entropy(ends, starts.references)
        return jax.lax.stop_gradient(ends), (energies, entropy)
