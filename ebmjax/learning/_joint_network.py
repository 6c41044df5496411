"""The network of a joint energy model in its two uses: what chains follow, what the loss sees."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax._axes import AxisName, join_axes, spread_axis
from ebmjax.learning._chains import CHAIN_AXIS, Densities
from ebmjax.losses import class_log_density, joint_log_density
from ebmjax.networks import Network, NormPolicy
from ebmjax.types import Key, PyTree

DROPOUT = 2**31 - 1
"""Folded into the key of a step for the masks of dropout: its other keys are split off."""


@dataclass(frozen=True, eq=False)  # known by identity, as the functions that JAX caches are
class ChainDensity:
    """The log density of one chain; also in two parts, for samplers that use them (PYLD).

    Attributes:
      log_density: position to scalar; it also takes a noise level where the classifier does.
      first_layer: position to hidden layer; None where the network has no such split.
      head: hidden layer to scalar; ``log_density`` is ``head`` after ``first_layer``.
    """

    log_density: Callable[..., jax.Array]
    first_layer: Callable[[jax.Array], jax.Array] | None
    head: Callable[[jax.Array], jax.Array] | None

    def __call__(self, position: jax.Array, *noise_scale: jax.Array) -> jax.Array:
        """The log density, a scalar."""
        return self.log_density(position, *noise_scale)


class JointNetwork(NamedTuple):
    """A classifier read as a density, and whose statistics its passes normalise with.

    Attributes:
      classifier: of the passes that train.
      chain_classifier: of the chains.
      policy: of batch normalisation.
      is_conditional: whether the density is p(x, y) instead of p(x). It is p(x) all the same for
        the label ``ANY_CLASS``.
      batch_axis: mapped axes whose shards are normalised as one batch; None for each by itself.
    """

    classifier: Network
    chain_classifier: Network
    policy: NormPolicy
    is_conditional: bool
    batch_axis: AxisName = None

    def log_density(self, logits: jax.Array, labels: jax.Array) -> jax.Array:
        """f(x), or f(x, y) of the labels, from logits."""
        if not self.is_conditional:
            return joint_log_density(logits)
        of_class = class_log_density(logits, jnp.maximum(labels, 0))
        return jnp.where(labels < 0, joint_log_density(logits), of_class)

    def densities(self, params: PyTree, statistics: PyTree, scale: Any) -> Densities:
        """Label to the log density, times ``scale``, that chains of this class follow."""
        network, use = self.chain_classifier, self.policy.use("chains")
        axes = join_axes(CHAIN_AXIS, spread_axis(self.batch_axis))
        options: Any = {"use": use, "batch_axis": axes if use == "batch" else None}

        def of_label(label: jax.Array) -> ChainDensity:
            def finish(logits: jax.Array) -> jax.Array:
                return scale * self.log_density(logits, label)

            def log_density(x: jax.Array, *noise_scale: jax.Array) -> jax.Array:
                return finish(network.apply(params, statistics, x, *noise_scale, **options)[0])

            first_layer, head = network.first_layer, network.head
            if first_layer is None or head is None:
                return ChainDensity(log_density, None, None)
            return ChainDensity(
                log_density,
                partial(first_layer, params),
                lambda hidden: finish(head(params, statistics, hidden, **options)[0]),
            )

        return of_label

    def logits(
        self,
        key: Key,
        params: PyTree,
        statistics: PyTree,
        images: dict[str, Any],
        *,
        second_pass: bool,
    ) -> tuple[dict[str, jax.Array], PyTree]:
        """Logits of every role in ``images``, and the running statistics after them.

        Dropout is on for the role "classified" alone; its masks are those of ``key``.
        """
        drop = self.classifier.drop
        drop = drop and partial(drop, key=jax.random.fold_in(key, DROPOUT))
        if not jax.tree.leaves(statistics):  # nothing couples the images: one pass serves all
            found, images = {}, dict(images)
            if drop:
                shown = images.pop("classified")
                found["classified"], _ = drop(params, statistics, shown, use="batch")
            if images:
                sizes = [len(role) for role in images.values()]
                together = jnp.concatenate(list(images.values()))
                logits, _ = self.classifier.apply(params, statistics, together)
                borders = [sum(sizes[: i + 1]) for i in range(len(sizes) - 1)]
                found |= zip(images, jnp.split(logits, borders), strict=True)
            return found, statistics
        logits, updated = {}, statistics
        # The chains' own batch is that of their ends; see NormPolicy for the order.
        for role in ("positives", "chains", "negatives", "classified"):
            shown = images.get("negatives" if role == "chains" else role)
            updates = self.policy.updates(role, second_pass=second_pass)
            if shown is None or (role == "chains" and not updates):
                continue
            use = self.policy.use(role, second_pass=second_pass)
            # Running averages are those the chains ran under, in both passes of SAM alike.
            base = updated if use == "batch" else statistics
            axes = spread_axis(self.batch_axis) if use == "batch" else None
            apply = drop if drop and role == "classified" else self.classifier.apply
            logits[role], new = apply(params, base, shown, use=use, batch_axis=axes)
            if updates:
                updated = jax.lax.stop_gradient(new)
        return logits, updated
