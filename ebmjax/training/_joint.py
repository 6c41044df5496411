"""The learning gradient of a joint energy model, its chains included, for the training loop."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from ebmjax._checks import check_not_negative, check_positive
from ebmjax.losses import (
    adapt_smoothing,
    class_log_density,
    cross_entropy_loss,
    joint_log_density,
    nearest_neighbour_entropy,
)
from ebmjax.networks import Classifier, NormPolicy
from ebmjax.optim import sam_gradients
from ebmjax.samplers import (
    ReplayBuffer,
    replay_buffer_draw,
    replay_buffer_init,
    replay_buffer_write,
    select_particles,
)
from ebmjax.training._negatives import CHAIN_AXIS, Negatives, run_chains
from ebmjax.training._step import GradientFn
from ebmjax.types import Key, Metrics, PyTree

View = Callable[[Key, jax.Array], jax.Array]
"""``view(key, images) -> images``: uint8 (N, H, W, C) to what the network sees, float32."""

GenerativeLoss = Callable[[jax.Array, jax.Array, jax.Array], tuple[jax.Array, Metrics]]
"""``(positive log densities, negative log densities, smoothing) -> (loss, metrics)``."""


class JointShard(NamedTuple):
    """What a logical shard of a joint energy model carries from step to step.

    Attributes:
      buffer: its replay buffer; () for a plain classifier.
      statistics: running averages of batch normalisation; {} where there are none.
      smoothing: scalar alpha, which divides the log density in sampler and loss.
    """

    buffer: Any
    statistics: PyTree
    smoothing: jax.Array


@dataclass(frozen=True, eq=False)  # known by identity, as the functions that JAX caches are
class ChainDensity:
    """The log density of one chain; also in two parts, for samplers that use them (PYLD).

    Attributes:
      log_density: position to scalar.
      first_layer: position to hidden layer; None where the network has no such split.
      head: hidden layer to scalar; ``log_density`` is ``head`` after ``first_layer``.
    """

    log_density: Callable[[jax.Array], jax.Array]
    first_layer: Callable[[jax.Array], jax.Array] | None
    head: Callable[[jax.Array], jax.Array] | None

    def __call__(self, position: jax.Array) -> jax.Array:
        """The log density, a scalar."""
        return self.log_density(position)


@dataclass(frozen=True, kw_only=True)
class JointObjective:
    """The loss of a joint energy model: weighted cross-entropy and generative loss.

    Attributes:
      generative_loss: of log densities and smoothing, see ``GenerativeLoss``.
      classification_weight: of the cross-entropy.
      generative_weight: of the generative loss.
      is_conditional: whether the density is p(x, y), the logit of a label, instead of p(x), their
        logsumexp. Chains then belong to a class.
      rho: radius of SAM; None for the plain gradient.
      is_adaptive: ASAM instead of SAM.
      smoothing_ratio: the ratio of the norms of generative and classification gradients that the
        smoothing is steered to; None leaves the smoothing as it is. Costs one more gradient.
      smoothing_rate: how fast, see ``adapt_smoothing``.

    Raises:
      ValueError: for negative weights, or a ``rho`` or ratio that is not positive.

    Source: JEM (Grathwohl et al. 2020), Eq. 6; SADA-JEM, Eq. 9; SVGD-in-JEM thesis, Eq. 3.8.
    """

    generative_loss: GenerativeLoss
    classification_weight: float = 1.0
    generative_weight: float = 1.0
    is_conditional: bool = False
    rho: float | None = None
    is_adaptive: bool = False
    smoothing_ratio: float | None = None
    smoothing_rate: float = 0.1

    def __post_init__(self) -> None:
        for name in ("classification_weight", "generative_weight"):
            check_not_negative(name, getattr(self, name))
        for name in ("rho", "smoothing_ratio"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))


def init_joint_shards(
    key: Key,
    statistics: PyTree,
    negatives: Negatives | None,
    *,
    num_shards: int,
    buffer_size: int,
    smoothing: float = 1.0,
) -> JointShard:
    """The state of every logical shard before the first step, for ``init_state``.

    Args:
      key: split among the shards.
      statistics: from ``Classifier.init``, the same for all.
      negatives: as given to ``make_joint_gradient_fn``; None makes no buffer.
      num_shards: logical shards.
      buffer_size: slots of all shards together, a multiple of ``num_shards``.
      smoothing: positive.

    Raises:
      ValueError: if the shards cannot share the slots, a shard's buffer is smaller than its
        batch of negatives or not divisible among the classes.
    """
    check_positive("smoothing", smoothing)
    if negatives is None:
        one = JointShard((), statistics, jnp.float32(smoothing))
        return jax.tree.map(lambda leaf: jnp.stack([leaf] * num_shards), one)
    if buffer_size % num_shards:
        raise ValueError(
            f"buffer_size must be a multiple of num_shards={num_shards}, got {buffer_size}."
        )
    size = buffer_size // num_shards
    if size < negatives.num_samples:
        raise ValueError(
            f"buffer_size must hold the {negatives.num_samples} negatives of each of {num_shards} "
            f"shards, at least {negatives.num_samples * num_shards} slots; got {buffer_size}."
        )

    def one_shard(key: Key) -> JointShard:
        buffer = replay_buffer_init(key, size, negatives.law, num_classes=negatives.num_classes)
        return JointShard(buffer, statistics, jnp.float32(smoothing))

    shards = [one_shard(key) for key in jax.random.split(key, num_shards)]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *shards)


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
      "smoothing", and with interacting samples "negative_entropy" in nats.
    """
    step = _JointStep(
        classifier,
        objective,
        {"classified": classified_view, "positives": positive_view},
        negatives,
        norm_policy or NormPolicy(),
        chain_classifier or classifier,
    )
    return step.classify if negatives is None else partial(step.learn, negatives)


class _JointStep(NamedTuple):
    """The parts of one step, bound to what stays the same."""

    classifier: Classifier
    objective: JointObjective
    views: dict[str, View]
    negatives: Negatives | None
    policy: NormPolicy
    chain_classifier: Classifier

    def classify(
        self, key: Key, params: PyTree, shard: JointShard, batch: PyTree
    ) -> tuple[PyTree, JointShard, Metrics]:
        """The gradient of the cross-entropy alone."""
        labelled, _ = batch
        images = {"classified": self.views["classified"](key, labelled.images)}

        def loss_fn(params: PyTree, *, second_pass: bool = False) -> tuple[jax.Array, Any]:
            logits, statistics = self._logits(params, shard.statistics, images, second_pass)
            loss, metrics = cross_entropy_loss(logits["classified"], labelled.labels)
            return loss, (metrics, statistics)

        (loss, (metrics, statistics)), gradients = self._differentiate(loss_fn, params)
        return gradients, shard._replace(statistics=statistics), {"loss": loss, **metrics}

    def learn(
        self, negatives: Negatives, key: Key, params: PyTree, shard: JointShard, batch: PyTree
    ) -> tuple[PyTree, JointShard, Metrics]:
        """The gradient of the joint loss, and the shard with its chains moved on."""
        objective = self.objective
        labelled, unlabelled = batch
        classified_key, positive_key, negative_key, keep_key = jax.random.split(key, 4)
        draw, ends, chain_metrics = self._draw(negatives, negative_key, params, shard)
        ends = jax.lax.stop_gradient(ends)
        images = {
            "classified": self.views["classified"](classified_key, labelled.images),
            "positives": self.views["positives"](positive_key, unlabelled.images),
            "negatives": ends,
        }

        def terms(params: PyTree, second_pass: bool) -> tuple[tuple[jax.Array, jax.Array], Any]:
            logits, statistics = self._logits(params, shard.statistics, images, second_pass)
            cross_entropy, metrics = cross_entropy_loss(logits["classified"], labelled.labels)
            negative_log_density = self._density(logits["negatives"], draw.labels)
            generative, generative_metrics = objective.generative_loss(
                self._density(logits["positives"], unlabelled.labels),
                negative_log_density,
                shard.smoothing,
            )
            metrics = {**metrics, **generative_metrics}
            return (cross_entropy, generative), (metrics, statistics, negative_log_density)

        def loss_fn(params: PyTree, *, second_pass: bool = False) -> tuple[jax.Array, Any]:
            (cross_entropy, generative), aux = terms(params, second_pass)
            loss = objective.classification_weight * cross_entropy
            return loss + objective.generative_weight * generative, aux

        (loss, aux), gradients = self._differentiate(loss_fn, params)
        metrics, statistics, negative_log_density = aux
        if objective.smoothing_ratio is None:
            smoothing = shard.smoothing
        else:
            smoothing = self._adapted(shard.smoothing, lambda p: terms(p, False)[0], params)
        buffer = _put_back(
            keep_key, negatives, shard.buffer, draw.slots, ends, negative_log_density
        )
        metrics = {"loss": loss, **metrics, "smoothing": shard.smoothing}
        metrics |= {f"chain_{name}": value for name, value in chain_metrics.items()}
        if negatives.is_interacting:
            metrics["negative_entropy"] = nearest_neighbour_entropy(ends)
        return gradients, JointShard(buffer, statistics, smoothing), metrics

    def _draw(
        self, negatives: Negatives, key: Key, params: PyTree, shard: JointShard
    ) -> tuple[Any, PyTree, Metrics]:
        """Slots of the buffer, where their chains end, and what the chains report."""
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
        density = partial(self._chain_density, negatives, params, shard)
        ends, metrics = run_chains(chain_key, density, negatives, draw.positions, draw.labels)
        return draw, ends, metrics

    def _chain_density(
        self, negatives: Negatives, params: PyTree, shard: JointShard, label: jax.Array
    ) -> ChainDensity:
        """The log density that chains of class ``label`` follow."""
        network, statistics = self.chain_classifier, shard.statistics
        use: Any = self.policy.use("chains")
        if use == "batch" and negatives.is_interacting and jax.tree.leaves(statistics):
            raise ValueError(
                "chains='batch' of the norm policy needs independent chains; a sampler of "
                "interacting particles takes chains='running'."
            )
        options = {"use": use, "batch_axis": CHAIN_AXIS if use == "batch" else None}
        scale = negatives.density_scale / shard.smoothing

        def finish(logits: jax.Array) -> jax.Array:
            return scale * self._density(logits, label)

        def log_density(x: jax.Array) -> jax.Array:
            return finish(network.logits(params, statistics, x, **options)[0])

        if network.first_layer is None or network.head is None:
            return ChainDensity(log_density, None, None)
        head = network.head
        return ChainDensity(
            log_density,
            partial(network.first_layer, params),
            lambda hidden: finish(head(params, statistics, hidden, **options)[0]),
        )

    def _density(self, logits: jax.Array, labels: jax.Array) -> jax.Array:
        if self.objective.is_conditional:
            return class_log_density(logits, labels)
        return joint_log_density(logits)

    def _logits(
        self, params: PyTree, statistics: PyTree, images: dict[str, Any], second_pass: bool
    ) -> tuple[dict[str, jax.Array], PyTree]:
        """Logits of every role, and the running statistics after them."""
        if not jax.tree.leaves(statistics):  # nothing couples the images: one pass serves all
            sizes = [len(role) for role in images.values()]
            together = jnp.concatenate(list(images.values()))
            logits, _ = self.classifier.logits(params, statistics, together)
            borders = [sum(sizes[: i + 1]) for i in range(len(sizes) - 1)]
            return dict(zip(images, jnp.split(logits, borders), strict=True)), statistics
        logits = {}
        # The chains' own batch is that of their ends; see NormPolicy for the order.
        for role in ("positives", "chains", "negatives", "classified"):
            shown = images.get("negatives" if role == "chains" else role)
            if shown is None or (role == "chains" and not self.policy.updates("chains")):
                continue
            use = self.policy.use(role, second_pass=second_pass)
            logits[role], new = self.classifier.logits(params, statistics, shown, use=use)
            if self.policy.updates(role, second_pass=second_pass):
                statistics = jax.lax.stop_gradient(new)
        return logits, statistics

    def _differentiate(self, loss_fn: Callable[..., Any], params: PyTree) -> Any:
        if self.objective.rho is None:
            return jax.value_and_grad(loss_fn, has_aux=True)(params)
        return sam_gradients(
            loss_fn,
            params,
            rho=self.objective.rho,
            adaptive=self.objective.is_adaptive,
            second_loss_fn=partial(loss_fn, second_pass=True),
        )

    def _adapted(
        self, smoothing: jax.Array, terms: Callable[[PyTree], Any], params: PyTree
    ) -> jax.Array:
        """The next smoothing, from the norms of the two terms' own gradients."""
        both, pull_back = jax.vjp(terms, params)
        one, zero = jnp.ones_like(both[0]), jnp.zeros_like(both[0])
        classification_norm, generative_norm = (
            optax.tree.norm(pull_back(weights)[0]) for weights in ((one, zero), (zero, one))
        )
        return adapt_smoothing(
            smoothing,
            generative_norm,
            classification_norm,
            target_ratio=self.objective.smoothing_ratio,
            rate=self.objective.smoothing_rate,
        )


def _put_back(
    key: Key,
    negatives: Negatives,
    buffer: ReplayBuffer,
    slots: jax.Array,
    ends: PyTree,
    log_densities: jax.Array,
) -> ReplayBuffer:
    """The buffer with the chosen samples in the slots they were drawn from."""
    num_kept = negatives.num_kept or negatives.num_samples
    kept = select_particles(key, ends, log_densities, num_kept, policy=negatives.replacement)
    return replay_buffer_write(buffer, slots[:num_kept], kept)
