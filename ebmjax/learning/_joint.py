"""The learning gradient of a joint energy model, its chains included, for the training loop."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax._axes import check_mapped, gather_rows
from ebmjax._checks import check_labels
from ebmjax._dual_averaging import DualAveraging
from ebmjax._numbers import as_arguments
from ebmjax.data import ImageData
from ebmjax.learning._chainless import draw_for_loss
from ebmjax.learning._chains import run_chains
from ebmjax.learning._contrastive import Carry, Starts, View, draw_starts, put_back
from ebmjax.learning._joint_network import JointNetwork
from ebmjax.learning._joint_objective import JointObjective
from ebmjax.learning._memory import positions_in
from ebmjax.learning._plan import ChainPlan
from ebmjax.losses import cross_entropy_loss, joint_log_density, nearest_neighbour_entropy
from ebmjax.networks import Network, NormPolicy
from ebmjax.optim import sam_gradients
from ebmjax.training import GradientFn, with_data_check
from ebmjax.types import Key, Metrics, PyTree


def make_joint_gradient_fn(
    classifier: Network,
    objective: JointObjective,
    *,
    classified_view: View,
    positive_view: View,
    plan: ChainPlan | None,
    norm_policy: NormPolicy | None = None,
    chain_classifier: Network | None = None,
) -> GradientFn:
    """Draws negatives by chains from the replay buffer and differentiates the joint loss.

    A batch is a pair of ``ImageData``: labelled images for p(y | x), and images for p(x), from
    separate streams (``Plan.batch_size`` of two entries). The negatives are drawn once and
    serve both passes of SAM.

    Args:
      classifier: the network. Its dropout (``Network.drop``) is on in the cross-entropy alone.
      objective: the loss.
      classified_view: of the labelled images, with augmentation.
      positive_view: of the images whose density is raised; SADA-JEM's is without augmentation.
      plan: samplers, lengths and start distribution; None trains a plain classifier, and an
        ``objective.chainless_loss`` needs none.
      norm_policy: whose statistics batch normalisation uses; default ``NormPolicy()``.
      chain_classifier: the network of the chains where it differs, in precision for example; it
        must take the same parameters.

    Returns:
      A ``GradientFn`` whose carry is a ``Carry`` with statistics and smoothing. Metrics:
      "loss", "smoothing", those of ``cross_entropy_loss``, of the generative loss, and of
      ``run_chains`` (prefixed "chain_"). Interacting samples add "negative_entropy" in nats, of the
      whole system where shards share it (``ChainKind.axis_name``). A plain classifier's
      loss is its cross-entropy, without the weights of ``objective``. ``fit`` refuses data with a
      label that is no class of the network.

    Raises:
      ValueError: for a conditional objective with interacting samples, because particles that
        move together cannot follow densities of different classes. While tracing, if the batch is
        not a pair, or the axis is not mapped. Also if a conditional objective's buffer is not
        partitioned into the network's classes, or a class has fewer slots than there are
        negatives. Also if chains interact twice, by their sampler and by ``chains="batch"`` of the
        norm policy.
    """
    if plan is not None and objective.is_conditional and plan.is_interacting:
        raise ValueError(
            "plan.is_interacting must be False where objective.is_conditional is True: "
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
    numbers = as_arguments({"objective": objective, "plan": plan})

    def gradient_fn(
        key: Key, params: PyTree, carry: Carry, batch: PyTree
    ) -> tuple[PyTree, Carry, Metrics]:
        values = numbers()
        traced = step._replace(objective=values["objective"])
        if traced.objective.chainless_loss is not None:
            return traced.learn_without_chains(key, params, carry, batch)
        if plan is None:
            return traced.classify(key, params, carry, batch)
        return traced.learn(values["plan"], key, params, carry, batch)

    return with_data_check(gradient_fn, step.check_data)


class _JointStep(NamedTuple):
    """The parts of one step, bound to what stays the same."""

    network: JointNetwork
    objective: JointObjective
    views: dict[str, View]

    def check_data(self, params: PyTree, carry: Carry, data: PyTree) -> None:
        """Raises unless all labels are classes of the network."""

        def logits(key: Key, params: PyTree, statistics: PyTree, images: Any) -> jax.Array:
            seen = self.views["classified"](key, images)
            return self.network.classifier.apply(params, statistics, seen)[0]

        first = jax.tree.map(lambda leaf: leaf[:1], data)
        shape = jax.eval_shape(logits, jax.random.key(0), params, carry.statistics, first.images)
        check_labels("data.labels", data.labels, (len(data.images),), shape.shape[-1])

    def classify(
        self, key: Key, params: PyTree, carry: Carry, batch: PyTree
    ) -> tuple[PyTree, Carry, Metrics]:
        """The gradient of the cross-entropy alone."""
        check_mapped("objective.batch_axis", self.objective.batch_axis)
        labelled, _ = _pair(batch)
        images = {"classified": self.views["classified"](key, labelled.images)}

        def loss_fn(params: PyTree, *, second_pass: bool = False) -> tuple[jax.Array, Any]:
            logits, statistics = self.network.logits(
                key, params, carry.statistics, images, second_pass=second_pass
            )
            loss, metrics = cross_entropy_loss(logits["classified"], labelled.labels)
            return loss, (metrics, statistics)

        (loss, (metrics, statistics)), gradients = self._differentiate(loss_fn, params)
        return gradients, carry._replace(statistics=statistics), {"loss": loss, **metrics}

    def learn(
        self, plan: ChainPlan, key: Key, params: PyTree, carry: Carry, batch: PyTree
    ) -> tuple[PyTree, Carry, Metrics]:
        """The gradient of the joint loss, and the carry with its chains moved on."""
        objective, log_density = self.objective, self.network.log_density
        generative_loss = objective.generative_loss
        if generative_loss is None:
            raise ValueError("objective.generative_loss must be a loss with a plan, got None.")
        check_mapped("objective.batch_axis", objective.batch_axis)
        labelled, unlabelled = _pair(batch)
        classified_key, positive_key, negative_key, keep_key = jax.random.split(key, 4)
        images = {
            "classified": self.views["classified"](classified_key, labelled.images),
            "positives": self.views["positives"](positive_key, unlabelled.images),
        }
        starts, chains, adaptation, chain_metrics = self._draw(
            plan, negative_key, params, carry, images["positives"].shape[1:]
        )
        ends = images["negatives"] = positions_in(chains)

        def terms(params: PyTree, second_pass: bool = False) -> tuple[jax.Array, Any]:
            logits, statistics = self.network.logits(
                key, params, carry.statistics, images, second_pass=second_pass
            )
            self._check_classes(plan, logits["negatives"])
            cross_entropy, metrics = cross_entropy_loss(logits["classified"], labelled.labels)
            positive = log_density(logits["positives"], unlabelled.labels)
            negative = log_density(logits["negatives"], starts.labels)
            generative, more = generative_loss(
                gather_rows(positive, objective.batch_axis),
                gather_rows(negative, objective.batch_axis),
                carry.smoothing,
            )
            return objective.weigh(cross_entropy, generative), (
                {**metrics, **more},
                statistics,
                negative,
            )

        (loss, aux), gradients = self._differentiate(terms, params)
        metrics, statistics, negative = aux
        metrics = {**metrics, "loss": loss, "smoothing": carry.smoothing}
        metrics |= {f"chain_{name}": value for name, value in chain_metrics.items()}
        axes = [kind.axis_name for kind in plan.kinds.values() if kind.is_interacting]
        if axes:
            metrics["negative_entropy"] = nearest_neighbour_entropy(gather_rows(ends, axes[0]))
        smoothing = objective.adapt_smoothing(carry.smoothing, lambda p: terms(p)[0], params)
        carry = carry._replace(statistics=statistics, smoothing=smoothing)
        carry = put_back(keep_key, plan, carry, starts, chains, negative, adaptation)
        return gradients, carry, metrics

    def learn_without_chains(
        self, key: Key, params: PyTree, carry: Carry, batch: PyTree
    ) -> tuple[PyTree, Carry, Metrics]:
        """The gradient of the joint loss by an objective without chains."""
        objective, network = self.objective, self.network
        assert objective.chainless_loss is not None
        check_mapped("objective.batch_axis", objective.batch_axis)
        labelled, unlabelled = _pair(batch)
        classified_key, positive_key, loss_key = jax.random.split(key, 3)
        images = {"classified": self.views["classified"](classified_key, labelled.images)}
        x = self.views["positives"](positive_key, unlabelled.images)

        def energy(params: PyTree, x: jax.Array, *noise_scale: jax.Array) -> jax.Array:
            # Running statistics: a score is that of one image, whatever stands beside it.
            logits, _ = network.classifier.apply(params, carry.statistics, x, *noise_scale)
            return -joint_log_density(logits) / carry.smoothing

        loss, memory, drawn = draw_for_loss(
            objective.chainless_loss, loss_key, partial(energy, params), x, carry.memory
        )

        def terms(params: PyTree, second_pass: bool = False) -> tuple[jax.Array, Any]:
            logits, statistics = network.logits(
                key, params, carry.statistics, images, second_pass=second_pass
            )
            cross_entropy, metrics = cross_entropy_loss(logits["classified"], labelled.labels)
            generative, more = loss(partial(energy, params), x)
            return objective.weigh(cross_entropy, generative), ({**metrics, **more}, statistics)

        (value, (metrics, statistics)), gradients = self._differentiate(terms, params)
        smoothing = objective.adapt_smoothing(carry.smoothing, lambda p: terms(p)[0], params)
        metrics = {**drawn, **metrics, "loss": value, "smoothing": carry.smoothing}
        carry = carry._replace(statistics=statistics, smoothing=smoothing, memory=memory)
        return gradients, carry, metrics

    def _draw(
        self, plan: ChainPlan, key: Key, params: PyTree, carry: Carry, shapes: PyTree
    ) -> tuple[Starts, PyTree, dict[str, DualAveraging], Metrics]:
        """Starts, where their chains end (constants), step sizes, and what the chains report."""
        is_coupled = self.network.policy.use("chains") == "batch"
        if plan.is_interacting and is_coupled and jax.tree.leaves(carry.statistics):
            raise ValueError(
                "chains='batch' of the norm policy needs independent chains; for a sampler of "
                "interacting particles take a network without batch normalisation, or "
                "NormPolicy(positives='running', negatives='running', chains='running', "
                "updated_by=('classified',))."
            )
        label_key, draw_key, chain_key, augment_key = jax.random.split(key, 4)
        starts = draw_starts(
            label_key,
            draw_key,
            augment_key,
            plan,
            carry.buffer,
            is_conditional=self.objective.is_conditional,
            shapes=shapes,
        )
        densities = self.network.densities(
            params, carry.statistics, self.objective.density_scale / carry.smoothing
        )
        num_kinds = len(plan.kinds)
        ends, adaptation, metrics = run_chains(
            chain_key[None] if num_kinds == 1 else jax.random.split(chain_key, num_kinds),
            densities,
            plan,
            starts.positions,
            starts.labels,
            carry.adaptation,
            batch_axis=self.objective.batch_axis,
        )
        return starts, jax.lax.stop_gradient(ends), adaptation, metrics

    def _check_classes(self, plan: ChainPlan, logits: jax.Array) -> None:
        if self.objective.is_conditional and plan.num_classes != logits.shape[-1]:
            raise ValueError(
                f"plan.num_classes must be the network's {logits.shape[-1]} classes where "
                f"objective.is_conditional is True, got {plan.num_classes}."
            )

    def _differentiate(self, terms: Callable[..., Any], params: PyTree) -> Any:
        """Value, what ``terms`` returns besides, and gradient of the sum of the loss's terms."""

        def loss_fn(params: PyTree, *, second_pass: bool = False) -> tuple[jax.Array, Any]:
            values, aux = terms(params, second_pass=second_pass)
            return jnp.sum(values), aux

        if self.objective.rho is None:
            return jax.value_and_grad(loss_fn, has_aux=True)(params)
        policy = self.network.policy
        is_like_first = policy.second_pass == "batch" and not policy.updates("chains")
        return sam_gradients(
            loss_fn,
            params,
            rho=self.objective.rho,
            adaptive=self.objective.is_adaptive,
            second_loss_fn=None if is_like_first else partial(loss_fn, second_pass=True),
            axis_name=self.objective.batch_axis,
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
