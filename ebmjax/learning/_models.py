"""Models as training sees them: an energy, and a classifier that is one."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax._axes import AxisName, spread_axes
from ebmjax.learning._chains import CHAIN_AXIS, Densities
from ebmjax.losses import class_log_density, joint_log_density
from ebmjax.networks import Network, NormPolicy
from ebmjax.types import PyTree

Energy = Callable[..., jax.Array]
"""``energy(x, labels)``: ``(..., *shape)`` and ``(...,)`` to ``(...,)``; labels may be
ignored."""


class Seen(NamedTuple):
    """Outputs of a model in one step.

    Attributes:
      log_density: f by role, "positives" and "negatives", each (N,).
      logits: of the labelled images; None without.
      statistics: running ones, after the step.
    """

    log_density: dict[str, jax.Array]
    logits: jax.Array | None
    statistics: PyTree


class EnergyNetwork(NamedTuple):
    """A model without labels, or E(x, y) of images with labels: its log density f is -E.

    Attributes:
      energy_of: ``energy_of(params) -> energy``. It computes once what all chains of a step share,
        such as a spectral norm.
      num_classes: of E(x, y); 1 for E(x).
    """

    energy_of: Callable[[PyTree], Energy]
    num_classes: int = 1

    @property
    def is_conditional(self) -> bool:
        """Returns whether chains belong to a class."""
        return self.num_classes > 1

    def log_density_of(self, params: PyTree, statistics: PyTree) -> Callable[..., jax.Array]:
        """Returns ``(x, labels) -> f``."""
        del statistics
        energy = self.energy_of(params)
        return lambda x, labels: -energy(x, labels)

    def densities(
        self, params: PyTree, statistics: PyTree, scale: Any, batch_axis: AxisName = None
    ) -> Densities:
        """Returns label to the log density, times ``scale``, that chains of this class follow."""
        del batch_axis
        f = self.log_density_of(params, statistics)
        return lambda label: lambda x: scale * f(x, label)

    def evaluate(
        self,
        params: PyTree,
        statistics: PyTree,
        images: dict[str, jax.Array],
        labels: dict[str, jax.Array],
        **_: Any,
    ) -> Seen:
        """Returns f of every role."""
        if not images:
            return Seen({}, None, statistics)
        f, arrays = self.log_density_of(params, statistics), (images, labels)
        found = f(*(jnp.concatenate(list(of_role.values())) for of_role in arrays))
        borders = np.cumsum([len(part) for part in images.values()])[:-1]
        return Seen(dict(zip(images, jnp.split(found, borders), strict=True)), None, statistics)


class JointNetwork(NamedTuple):
    """A classifier read as a density, and whose statistics its passes normalise with.

    Attributes:
      classifier: of the passes that train.
      chain_classifier: of the chains where it differs, in precision for example; it must take the
        same parameters.
      policy: of batch normalisation.
      is_conditional: whether the density is p(x, y) instead of p(x). It is p(x) all the same for
        the label ``ANY_CLASS``.
    """

    classifier: Network
    chain_classifier: Network | None = None
    policy: NormPolicy = NormPolicy()
    is_conditional: bool = False

    def log_density(self, logits: jax.Array, labels: jax.Array) -> jax.Array:
        """Returns f(x), or f(x, y) of the labels, from logits."""
        if not self.is_conditional:
            return joint_log_density(logits)
        of_class = class_log_density(logits, jnp.maximum(labels, 0))
        return jnp.where(labels < 0, joint_log_density(logits), of_class)

    def log_density_of(self, params: PyTree, statistics: PyTree) -> Callable[..., jax.Array]:
        """Returns ``(x, labels) -> f``, of each image by itself."""

        def f(x: jax.Array, labels: jax.Array) -> jax.Array:
            logits, _ = self.classifier.apply(params, statistics, x)
            return self.log_density(logits, labels)

        return f

    def densities(
        self, params: PyTree, statistics: PyTree, scale: Any, batch_axis: AxisName = None
    ) -> Densities:
        """Returns label to the log density, times ``scale``, that chains of this class follow.

        Its attributes are ``first_layer``, from a position to a hidden layer, and ``head``, from
        there to the log density, where the network has both: for samplers that use them (PYLD).
        """
        network, use = self.chain_classifier or self.classifier, self.policy.chains
        axes = (CHAIN_AXIS, *spread_axes(batch_axis))
        options: Any = {"use": use, "batch_axis": axes if use == "batch" else None}

        def of_label(label: jax.Array) -> Callable[..., jax.Array]:
            def finish(logits: jax.Array) -> jax.Array:
                return scale * self.log_density(logits, label)

            def log_density(x: jax.Array) -> jax.Array:
                return finish(network.apply(params, statistics, x, **options)[0])

            first_layer, head = network.first_layer, network.head
            if first_layer is not None and head is not None:
                parts = vars(log_density)
                parts["first_layer"] = partial(first_layer, params)
                parts["head"] = lambda hidden: finish(
                    head(params, statistics, hidden, **options)[0]
                )
            return log_density

        return of_label

    def evaluate(
        self,
        params: PyTree,
        statistics: PyTree,
        images: dict[str, jax.Array],
        labels: dict[str, jax.Array],
        *,
        second_pass: bool = False,
        batch_axis: AxisName = None,
    ) -> Seen:
        """Returns f of "positives" and "negatives", and the logits of "classified".

        Args:
          params: of the network.
          statistics: running ones.
          images: by role.
          labels: by role, of those whose f is asked for.
          second_pass: whether it is SAM's second.
          batch_axis: mapped axes whose shards are normalised as one batch.
        """
        logits, updated = {}, statistics
        if images and not jax.tree.leaves(statistics):  # nothing couples images: one pass for all
            together = jnp.concatenate(list(images.values()))
            found, _ = self.classifier.apply(params, statistics, together)
            borders = np.cumsum([len(part) for part in images.values()])[:-1]
            logits |= zip(images, jnp.split(found, borders), strict=True)
            images = {}
        # The chains' own batch is that of their ends; see NormPolicy for the order.
        for role in ("positives", "chains", "negatives", "classified"):
            shown = images.get("negatives" if role == "chains" else role)
            updates = role in self.policy.updated_by and not second_pass
            if shown is None or (role == "chains" and not updates):
                continue
            use = getattr(self.policy, role)
            # Running averages are those the chains ran under, in both passes of SAM alike.
            base = updated if use == "batch" else statistics
            axes = (spread_axes(batch_axis) if use == "batch" else ()) or None
            logits[role], new = self.classifier.apply(params, base, shown, use=use, batch_axis=axes)
            if updates:
                updated = jax.lax.stop_gradient(new)
        found = {role: self.log_density(logits[role], labels[role]) for role in labels}
        return Seen(found, logits.get("classified"), updated)
