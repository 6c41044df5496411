"""Objective of a joint energy model, and its gradient."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax

from ebmjax._axes import AxisName, mean_over_members
from ebmjax._checks import check_fraction, check_not_negative, check_positive
from ebmjax._precision import at_least_float32
from ebmjax.learning._chainless import ChainlessLoss, LossWithMemory
from ebmjax.losses import adapt_smoothing
from ebmjax.types import Metrics, PyTree

GenerativeLoss = Callable[[jax.Array, jax.Array, jax.Array], tuple[jax.Array, Metrics]]
"""``(positive log densities, negative log densities, smoothing) -> (loss, metrics)``."""


@dataclass(frozen=True, kw_only=True)
class JointObjective:
    """The loss of a joint energy model: weighted cross-entropy and generative loss.

    Attributes:
      generative_loss: of log densities and smoothing, see ``GenerativeLoss``; None for a classifier
        alone, or with ``chainless_loss``.
      chainless_loss: in its place: of the energy -f(x) / smoothing, without chains, see
        ``ChainlessLoss`` and ``LossWithMemory``. The density is p(x); images are normalised by
        running statistics.
      classification_weight: of the cross-entropy.
      generative_weight: of the generative loss.
      density_scale: what multiplies the log density for the sampler alone, such as 1 - beta under
        the beta objective; may be traced.
      is_conditional: whether the density is p(x, y), the logit of a label, instead of p(x), their
        logsumexp. Chains then belong to a class.
      rho: radius of SAM; None for the plain gradient.
      is_adaptive: ASAM instead of SAM.
      smoothing_ratio: the ratio of the norms of generative and classification gradients, weights
        included, that the smoothing is steered to; None leaves the smoothing as it is. Costs a
        forward pass and two backward ones.
      smoothing_rate: how fast, in (0, 1], see ``adapt_smoothing``.
      axis_name: mapped axis, or axes, over which the two gradients are averaged before their norms
        are taken, so that the shards share one smoothing. It is ("data", "shard") under ``fit``,
        "shard" where ``make_train_step`` has no mesh axis. With None each shard has a separate
        smoothing, unless ``batch_axis`` joins them.
      batch_axis: mapped axis, or axes, whose shards make up one batch: ("data", "shard") under
        ``fit``. Batch statistics, SAM's displacement, the log densities that ``generative_loss``
        sees and the smoothing are then those of the whole batch. So any number of shards has the
        gradient of one. With None each shard is a separate batch, and the gradients are averaged.

    Source: JEM (Grathwohl et al. 2020), Eq. 6; SADA-JEM, Eq. 9; SVGD-in-JEM thesis, Eq. 3.8.
    """

    generative_loss: GenerativeLoss | None = None
    chainless_loss: ChainlessLoss | LossWithMemory | None = None
    classification_weight: float = 1.0
    generative_weight: float = 1.0
    density_scale: Any = 1.0
    is_conditional: bool = False
    rho: float | None = None
    is_adaptive: bool = False
    smoothing_ratio: float | None = None
    smoothing_rate: float = 0.1
    axis_name: AxisName = None
    batch_axis: AxisName = None

    def __post_init__(self) -> None:
        for name in ("classification_weight", "generative_weight", "density_scale"):
            check_not_negative(name, getattr(self, name))
        for name in ("rho", "smoothing_ratio"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        if self.chainless_loss is not None and self.is_conditional:
            raise ValueError(
                "is_conditional must be False with a chainless_loss, which is of p(x); got True."
            )
        check_positive("smoothing_rate", self.smoothing_rate)
        check_fraction("smoothing_rate", self.smoothing_rate)

    def weigh(self, cross_entropy: jax.Array, generative: jax.Array) -> jax.Array:
        """The two terms of the loss, (2,), times their weights."""
        weights = (self.classification_weight, self.generative_weight)
        return jnp.stack([cross_entropy, generative]) * jnp.array(weights)

    def adapt_smoothing(
        self, smoothing: jax.Array, terms: Callable[[PyTree], jax.Array], params: PyTree
    ) -> jax.Array:
        """The next smoothing, from the norms of the gradients of the loss's two terms.

        The gradients are those of all shards: one smoothing divides the density of one network.

        Args:
          smoothing: of this step.
          terms: parameters to the two weighted terms, (2,).
          params: of the network.
        """
        if self.smoothing_ratio is None:
            return smoothing
        _, pull_back = jax.vjp(terms, params)
        gradients = [pull_back(chosen)[0] for chosen in jnp.eye(2)]
        gradients = mean_over_members(gradients, self.axis_name or self.batch_axis)
        # Squares of half-precision gradients may leave half precision's range.
        classification_norm, generative_norm = map(
            optax.tree.norm, map(at_least_float32, gradients)
        )
        return adapt_smoothing(
            smoothing,
            generative_norm,
            classification_norm,
            target_ratio=self.smoothing_ratio,
            rate=self.smoothing_rate,
        )
