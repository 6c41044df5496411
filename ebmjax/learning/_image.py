"""The learning gradient of an energy of images, its chains included, for the training loop."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax._axes import AxisName, check_mapped, gather_rows
from ebmjax._checks import check_at_least, check_labels
from ebmjax._numbers import as_arguments
from ebmjax.data import ImageData
from ebmjax.learning._chains import run_chains
from ebmjax.learning._contrastive import Carry, Starts, View, draw_starts, put_back
from ebmjax.learning._live_chains import run_live_chains
from ebmjax.learning._memory import positions_in, with_positions
from ebmjax.learning._plan import ChainPlan
from ebmjax.losses import nearest_neighbour_entropy
from ebmjax.training import GradientFn, with_data_check
from ebmjax.types import Key, LogDensityFn, Metrics, PyTree

Energy = Callable[..., jax.Array]
"""``energy(images, labels)``: (..., H, W, C) and (...,) to (...,); labels may be ignored. An
energy of many noise levels also takes noise scales (...,)."""

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
      step_size: of the Langevin steps, as the sampler's.
      noise_scale: standard deviation of their noise, as the sampler's.
      num_steps: fewer than the chains have, of which they are the last (static).
      low: lower end of the box that every step ends in.
      high: its upper end.
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

    An energy of many noise levels gives densities that take the noise, too.
    """
    return lambda label: lambda x, *noise: -(1.0 - beta) * energy(x, label, *noise)


def make_image_gradient_fn(
    energy_of: EnergyOf,
    loss_fn: EnergyLoss,
    *,
    view: View,
    plan: ChainPlan,
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
      plan: samplers, lengths and start distribution.
      beta_fn: beta at a step (scalar int32, steps not skipped so far), below 1.
      live: makes the last steps of the chains live, for
        ``ebmjax.losses.improved_contrastive_divergence_loss``; needs a replay buffer.
      batch_axis: mapped axis, or axes, whose shards make up one batch: ("data", "shard") under
        ``fit``. The loss then weighs the energies of the whole batch. Live chains keep away from
        the references of all shards. Step sizes adapt to the acceptance of all chains. So any
        number of shards has the gradient of one. With None each shard is a separate batch, and the
        gradients are averaged.

    Returns:
      A ``GradientFn`` whose batch is an ``ImageData`` and whose carry is a ``Carry`` that
      counts steps. Metrics: "loss", those of ``loss_fn``, "beta", and those of ``run_chains``
      prefixed "chain_". An energy is conditional where ``plan.num_classes`` is above 1.

    Raises:
      ValueError: if live steps are not fewer than those of every chain, or particles that move
        together are to belong to classes. While tracing, if live steps lack a buffer, a
        conditional plan reorders samples, or an axis is not mapped.

    Source: sampling-approaches thesis, Alg. 7; Du et al. 2021.
    """
    for name, kind in plan.kinds.items():
        if live is not None and live.num_steps >= kind.num_steps:
            raise ValueError(
                f"live.num_steps={live.num_steps} must be fewer than the {kind.num_steps} steps of "
                f"the chains of kind {name!r}, of which they are the last."
            )
    if plan.is_interacting and plan.num_classes > 1:
        raise ValueError(
            f"plan.num_classes must be 1 where chains interact, got {plan.num_classes}: particles "
            "that move together follow one density, not one for each class."
        )
    step = _Step(energy_of, loss_fn, view, plan, beta_fn, live, batch_axis)
    numbers = as_arguments({"plan": plan, "live": live})

    def gradient_fn(
        key: Key, params: PyTree, carry: Carry, batch: ImageData
    ) -> tuple[PyTree, Carry, Metrics]:
        return step._replace(**numbers()).learn(key, params, carry, batch)

    return with_data_check(gradient_fn, step.check_data)


class _Step(NamedTuple):
    """The parts of one step, bound to what stays the same."""

    energy_of: EnergyOf
    loss_fn: EnergyLoss
    view: View
    plan: ChainPlan
    beta_fn: Callable[[jax.Array], Any]
    live: LiveSteps | None
    batch_axis: AxisName

    def check_data(self, params: PyTree, carry: PyTree, data: ImageData) -> None:
        """Raises unless all labels are classes of a conditional energy; others ignore them."""
        del params, carry
        if self.plan.num_classes > 1:
            num_classes = self.plan.num_classes
            check_labels("data.labels", data.labels, (len(data.images),), num_classes)

    def learn(
        self, key: Key, params: PyTree, carry: Carry, batch: ImageData
    ) -> tuple[PyTree, Carry, Metrics]:
        """The gradient of the loss, and the carry with its chains moved on."""
        check_mapped("batch_axis", self.batch_axis)
        num_kinds = len(self.plan.kinds)
        view_key, start_key, chain_key, live_key, keep_key = jax.random.split(key, 5)
        beta = self.beta_fn(carry.step)
        label_key, draw_key, augment_key = jax.random.split(start_key, 3)
        positives = self.view(view_key, jnp.asarray(batch.images))
        starts = draw_starts(
            label_key,
            draw_key,
            augment_key,
            self.plan,
            carry.buffer,
            is_conditional=self.plan.num_classes > 1,
            num_others=self.live.num_references if self.live else 0,
            shapes=positives.shape[1:],
        )
        moved, adaptation, chain_metrics = run_chains(
            jax.random.split(chain_key, num_kinds),
            class_densities(self.energy_of(params), beta),
            self.plan,
            starts.positions,
            starts.labels,
            carry.adaptation,
            num_fewer=self.live.num_steps if self.live else 0,
            batch_axis=self.batch_axis,
        )
        chains = jax.lax.stop_gradient(moved)
        moved = positions_in(chains)

        def loss_fn(params: PyTree) -> tuple[jax.Array, Any]:
            ends, live_terms = self._live_terms(live_key, params, beta, moved, starts)
            together = jnp.concatenate([positives, ends])
            labels = jnp.concatenate([batch.labels, starts.labels])
            energies = self.energy_of(params)(together, labels)
            positive, negative = energies[: len(positives)], energies[len(positives) :]
            loss, metrics = self.loss_fn(
                self._whole(positive, 1), self._whole(negative, num_kinds), beta, *live_terms
            )
            return loss, (metrics, ends, negative)

        (loss, aux), gradients = jax.value_and_grad(loss_fn, has_aux=True)(params)
        metrics, ends, negative = aux
        kept = with_positions(chains, ends)
        carry = put_back(keep_key, self.plan, carry, starts, kept, -negative, adaptation)
        metrics = {**metrics, "loss": loss, "beta": jnp.float32(beta)}
        metrics |= {f"chain_{name}": value for name, value in chain_metrics.items()}
        return gradients, carry, metrics

    def _whole(self, energies: jax.Array, num_parts: int) -> jax.Array:
        """Energies (n,) of all shards, each of the equal parts of a shard joined with its like."""
        parts = energies.reshape(num_parts, -1)
        return gather_rows(parts.T, self.batch_axis).T.ravel()

    def _live_terms(
        self, key: Key, params: PyTree, beta: Any, moved: jax.Array, starts: Starts
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
        entropy = nearest_neighbour_entropy(ends, gather_rows(starts.others, self.batch_axis))
        return jax.lax.stop_gradient(ends), (energies, entropy)
