"""The learning gradient of a joint energy model, its chains included, for the training loop."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from ebmjax._axes import check_mapped, gather_rows, mean_over_members
from ebmjax._checks import check_labels
from ebmjax._precision import at_least_float32
from ebmjax.data import ImageData
from ebmjax.learning._joint_network import JointNetwork
from ebmjax.learning._joint_objective import JointObjective
from ebmjax.learning._joint_shards import JointShard
from ebmjax.learning._negatives import Negatives, run_chains
from ebmjax.losses import adapt_smoothing, cross_entropy_loss, nearest_neighbour_entropy
from ebmjax.networks import Classifier, NormPolicy
from ebmjax.optim import sam_gradients
from ebmjax.samplers import (
    Draw,
    ReplayBuffer,
    replay_buffer_draw,
    select_particles,
)
from ebmjax.training import GradientFn, with_data_check, write_slots
from ebmjax.types import Key, Metrics, PyTree

View = Callable[[Key, jax.Array], jax.Array]
"""``view(key, images) -> images``: uint8 (N, H, W, C) to what the network sees, float32."""


def make_joint_gradient_fn(
    classifier: Classifier,
    objective: JointObjective,
    *,
    classified_view: View,
    positive_view: View,
    negatives: Negatives | None,
    norm_policy: NormPolicy | None = None,
    chain_classifier: Classifier | None = None,
) -> GradientFn:
    """Draws negatives by chains from the replay buffer and differentiates the joint loss.

    A batch is a pair of ``ImageData``: labelled images for p(y | x), and images for p(x), from
    streams of their own (``Plan.batch_size`` of two entries). The negatives are drawn once and
    serve both passes of SAM.

    Args:
      classifier: the network.
      objective: the loss.
      classified_view: of the labelled images, with augmentation.
      positive_view: of the images whose density is raised; SADA-JEM's is without augmentation.
      negatives: sampler, length and initial law; None trains a plain classifier.
      norm_policy: whose statistics batch normalisation uses; default ``NormPolicy()``.
      chain_classifier: the network of the chains where it differs, in precision for example; it
        must take the same parameters.

    Returns:
      A ``GradientFn`` whose shard state is a ``JointShard``. Metrics: "loss", those of
      ``cross_entropy_loss``, of the generative loss, and of ``run_chains`` (prefixed "chain_"),
      "smoothing", and with interacting samples "negative_entropy" in nats, that of the whole
      system where shards share it (``Negatives.axis_name``). A plain classifier's loss is
      its cross-entropy, without the weights of ``objective``. ``fit`` refuses data with a label
      that is no class of the network.

    Raises:
      ValueError: for a conditional objective with interacting samples, because particles that
        move together cannot follow densities of different classes. These errors come while tracing:
        the batch is not a pair; the buffer of a conditional objective is not partitioned into the
        network's classes; a class has fewer slots than there are negatives; the axis is not mapped;
        chains interact twice, by their sampler and by ``chains="batch"`` of the norm policy.
    """
    if negatives is not None and objective.is_conditional and negatives.is_interacting:
        raise ValueError(
            "negatives.is_interacting must be False where objective.is_conditional is True: "
            "particles that move together follow one density, not one for each class."
        )
    policy = norm_policy or NormPolicy()
    step = _JointStep(
        JointNetwork(
            classifier,
            chain_classifier or classifier,
            policy,
            objective.is_conditional,
            objective.batch_axis,
        ),
        objective,
        {"classified": classified_view, "positives": positive_view},
    )
    gradient_fn = partial(step.classify) if negatives is None else partial(step.learn, negatives)
    return with_data_check(gradient_fn, step.check_data)


class _JointStep(NamedTuple):
    """The parts of one step, bound to what stays the same."""

    network: JointNetwork
    objective: JointObjective
    views: dict[str, View]

    def check_data(self, params: PyTree, shard: JointShard, data: PyTree) -> None:
        """Raises unless all labels are classes of the network."""

        def logits(key: Key, params: PyTree, statistics: PyTree, images: Any) -> jax.Array:
            seen = self.views["classified"](key, images)
            return self.network.classifier.logits(params, statistics, seen)[0]

        first = jax.tree.map(lambda leaf: leaf[:1], data)
        shape = jax.eval_shape(logits, jax.random.key(0), params, shard.statistics, first.images)
        check_labels("data.labels", data.labels, len(data.images), shape.shape[-1])

    def classify(
        self, key: Key, params: PyTree, shard: JointShard, batch: PyTree
    ) -> tuple[PyTree, JointShard, Metrics]:
        """The gradient of the cross-entropy alone."""
        check_mapped("objective.batch_axis", self.objective.batch_axis)
        labelled, _ = _pair(batch)
        images = {"classified": self.views["classified"](key, labelled.images)}

        def loss_fn(params: PyTree, *, second_pass: bool = False) -> tuple[jax.Array, Any]:
            logits, statistics = self.network.logits(
                params, shard.statistics, images, second_pass=second_pass
            )
            loss, metrics = cross_entropy_loss(logits["classified"], labelled.labels)
            return loss, (metrics, statistics)

        (loss, (metrics, statistics)), gradients = self._differentiate(loss_fn, params)
        return gradients, shard._replace(statistics=statistics), {"loss": loss, **metrics}

    def learn(
        self, negatives: Negatives, key: Key, params: PyTree, shard: JointShard, batch: PyTree
    ) -> tuple[PyTree, JointShard, Metrics]:
        """The gradient of the joint loss, and the shard with its chains moved on."""
        objective, log_density = self.objective, self.network.log_density
        check_mapped("objective.batch_axis", objective.batch_axis)
        labelled, unlabelled = _pair(batch)
        classified_key, positive_key, negative_key, keep_key = jax.random.split(key, 4)
        draw, ends, chain_metrics = self._draw(negatives, negative_key, params, shard)
        images = {
            "classified": self.views["classified"](classified_key, labelled.images),
            "positives": self.views["positives"](positive_key, unlabelled.images),
            "negatives": ends,
        }

        def terms(params: PyTree, second_pass: bool = False) -> tuple[jax.Array, Any]:
            logits, statistics = self.network.logits(
                params, shard.statistics, images, second_pass=second_pass
            )
            self._check_classes(negatives, logits["negatives"])
            cross_entropy, metrics = cross_entropy_loss(logits["classified"], labelled.labels)
            positive = log_density(logits["positives"], unlabelled.labels)
            negative = log_density(logits["negatives"], draw.labels)
            generative, more = objective.generative_loss(
                gather_rows(positive, objective.batch_axis),
                gather_rows(negative, objective.batch_axis),
                shard.smoothing,
            )
            weights = (objective.classification_weight, objective.generative_weight)
            weighted = jnp.stack([cross_entropy, generative]) * jnp.array(weights)
            return weighted, ({**metrics, **more}, statistics, negative)

        def loss_fn(params: PyTree, *, second_pass: bool = False) -> tuple[jax.Array, Any]:
            weighted, aux = terms(params, second_pass)
            return jnp.sum(weighted), aux

        (loss, aux), gradients = self._differentiate(loss_fn, params)
        metrics, statistics, negative_log_density = aux
        smoothing = self._adapted(shard.smoothing, lambda p: terms(p)[0], params)
        buffer = _put_back(keep_key, negatives, draw.slots, ends, negative_log_density)
        metrics = {**metrics, "loss": loss, "smoothing": shard.smoothing}
        metrics |= {f"chain_{name}": value for name, value in chain_metrics.items()}
        if negatives.is_interacting:
            metrics["negative_entropy"] = nearest_neighbour_entropy(
                gather_rows(ends, negatives.axis_name)
            )
        return gradients, JointShard(buffer, statistics, smoothing), metrics

    def _draw(
        self, negatives: Negatives, key: Key, params: PyTree, shard: JointShard
    ) -> tuple[Draw, PyTree, Metrics]:
        """Slots of the buffer, where their chains end (constants), and what the chains report."""
        label_key, draw_key, chain_key = jax.random.split(key, 3)
        labels = None
        if self.objective.is_conditional:
            shape = (negatives.num_samples,)
            labels = jax.random.randint(label_key, shape, 0, negatives.num_classes)
        draw = replay_buffer_draw(
            draw_key,
            shard.buffer,
            negatives.num_samples,
            negatives.law,
            num_classes=negatives.num_classes,
            reinit_prob=negatives.reinit_prob,
            labels=labels,
        )
        density = partial(
            self.network.chain_density,
            params,
            shard.statistics,
            negatives.density_scale / shard.smoothing,
            negatives.is_interacting,
        )
        ends, metrics = run_chains(chain_key, density, negatives, draw.positions, draw.labels)
        return draw, jax.lax.stop_gradient(ends), metrics

    def _check_classes(self, negatives: Negatives, logits: jax.Array) -> None:
        if not self.objective.is_conditional:
            return
        if negatives.replacement != "in_place":
            raise ValueError(
                f"replacement={negatives.replacement!r} reorders samples, which would carry them "
                "into the slots of other classes; with objective.is_conditional the buffer is "
                "partitioned by class and takes 'in_place'."
            )
        if negatives.num_classes != logits.shape[-1]:
            raise ValueError(
                f"negatives.num_classes must be the network's {logits.shape[-1]} classes where "
                f"objective.is_conditional is True, got {negatives.num_classes}."
            )

    def _differentiate(self, loss_fn: Callable[..., Any], params: PyTree) -> Any:
        if self.objective.rho is None:
            return jax.value_and_grad(loss_fn, has_aux=True)(params)
        return sam_gradients(
            loss_fn,
            params,
            rho=self.objective.rho,
            adaptive=self.objective.is_adaptive,
            second_loss_fn=partial(loss_fn, second_pass=True),
            axis_name=self.objective.batch_axis,
        )

    def _adapted(
        self, smoothing: jax.Array, terms: Callable[[PyTree], Any], params: PyTree
    ) -> jax.Array:
        """The next smoothing, from the norms of the gradients of the loss's two terms.

        The gradients are those of all shards: one smoothing divides the density of one network.
        """
        if self.objective.smoothing_ratio is None:
            return smoothing
        _, pull_back = jax.vjp(terms, params)
        gradients = [pull_back(chosen)[0] for chosen in jnp.eye(2)]
        axis_name = self.objective.axis_name or self.objective.batch_axis
        gradients = mean_over_members(gradients, axis_name)
        # Squares of half-precision gradients may leave half precision's range.
        classification_norm, generative_norm = map(
            optax.tree.norm, map(at_least_float32, gradients)
        )
        return adapt_smoothing(
            smoothing,
            generative_norm,
            classification_norm,
            target_ratio=self.objective.smoothing_ratio,
            rate=self.objective.smoothing_rate,
        )


def _pair(batch: PyTree) -> tuple[PyTree, PyTree]:
    """The two streams of a batch: ``ImageData`` alone is a tuple of two as well."""
    if isinstance(batch, ImageData) or len(batch) != 2:
        raise ValueError(
            "a batch of a joint energy model must be a pair of ImageData, (labelled images, images "
            f"for p(x)), got {type(batch).__name__}: give Plan.batch_size the two numbers of "
            "images, (64, 64) for example."
        )
    return batch


def _put_back(
    key: Key,
    negatives: Negatives,
    slots: jax.Array,
    ends: PyTree,
    log_densities: jax.Array,
) -> ReplayBuffer:
    """Changes of the buffer: the chosen samples, in the slots they were drawn from."""
    num_kept = negatives.num_kept or negatives.num_samples
    kept = select_particles(key, ends, log_densities, num_kept, policy=negatives.replacement)
    return ReplayBuffer(write_slots(slots[:num_kept], kept))
