"""The learning gradient of a model, its chains included, for the training loop."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp

from ebmjax._axes import AxisName, gather_rows, num_members
from ebmjax._checks import (
    check_at_least,
    check_labels,
    check_not_negative,
    check_positive,
)
from ebmjax._dual_averaging import DualAveraging
from ebmjax._numbers import with_numbers
from ebmjax.data import ImageData
from ebmjax.learning._chains import Densities, run_chains, run_live_chains
from ebmjax.learning._models import EnergyNetwork, JointNetwork
from ebmjax.learning._plan import Carry, Chain, ChainPlan, Starts, draw_starts, positions_in
from ebmjax.losses import cross_entropy_loss, nearest_neighbour_entropy
from ebmjax.optim import sam_gradients
from ebmjax.samplers import ReplayBuffer, select_particles
from ebmjax.training import GradientFn, write_slots
from ebmjax.types import Key, Metrics, PyTree

ATTACK = 2**31 - 2
"""Folded into the key of a step for the attack: its other keys are split off."""

TAKEN = ("objective", "plan")
"""Names of ``numbers`` that a gradient takes."""

View = Callable[[Key, jax.Array], jax.Array]
"""``view(key, images) -> images``: uint8 (N, H, W, C) to what the network sees, float32."""

Loss = Callable[..., tuple[jax.Array, Metrics]]
"""``loss(key, model, batch, negatives, numbers) -> (scalar, metrics)``, in log densities.

``model`` is a ``Density``; ``batch`` and ``negatives`` are ``Samples``, the second None without a
plan. ``numbers`` are ``Objective.numbers``, and "smoothing" and "step" (int32, steps that were not
skipped so far) of the step.
"""


class Density(NamedTuple):
    """The density that is trained, as losses see it: x (N, ...) to log densities (N,).

    Attributes:
      log_density: by the parameters that are differentiated.
      constant: the same by constant parameters, for chains of a loss.
    """

    log_density: Callable[..., jax.Array]
    constant: Callable[..., jax.Array]

    def __call__(self, x: jax.Array) -> jax.Array:
        """Returns log densities (N,), up to one constant."""
        return self.log_density(x)


class Samples(NamedTuple):
    """The data of a step, or its negatives.

    Attributes:
      x: (N, ...), of this shard, constants.
      log_density: (M,), of the density that is trained; of all shards under ``batch_axis``. None
        without a plan.
      f: the network's, ``smoothing`` times ``log_density``.
      live: (M,), log densities of the ends of live chains, by constant parameters.
      entropy: scalar, of these ends.
      attacked: (K,), as ``log_density``, of the labelled images; None without ``Objective.attack``.
    """

    x: jax.Array
    log_density: Any = None
    f: Any = None
    live: Any = None
    entropy: Any = None
    attacked: Any = None


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


@dataclass(frozen=True, kw_only=True)
class Objective:
    """The loss of a model: a weighted loss of its density and, with labels, cross-entropy.

    Attributes:
      loss: see ``Loss``; None for a classifier alone.
      numbers: of the loss, by name.
      classification_weight: of the cross-entropy.
      generative_weight: of ``loss``.
      density_scale: the loss's numbers to what multiplies the log density for the sampler alone,
        such as 1 - beta under the beta objective.
      attack: moves the labelled images of a step, once for both passes of SAM: a function of (key,
        logits_fn, images, labels, low=, high=) like ``functools.partial(metrics.pgd_attack,
        epsilon=0.1, norm="linf", num_steps=10)``. It attacks the network with its running averages.
        The images are constants, within [-1, 1] or no farther out than they were; cross-entropy and
        accuracy are then theirs. None for none.
      live: makes the last steps of the chains live, for
        ``ebmjax.losses.improved_contrastive_divergence_loss``; needs a replay buffer.
      rho: radius of SAM; None for the plain gradient.
      is_adaptive: ASAM instead of SAM.
      batch_axis: mapped axis, or axes, whose shards make up one batch: ("data", "shard") under
        ``fit``. Batch statistics, SAM's displacement, the log densities that ``loss`` sees, live
        chains' references and step sizes are then those of the whole batch. So any
        number of shards has the gradient of one. With None each shard is a separate batch, and the
        gradients are averaged.

    Source: JEM (Grathwohl et al. 2020), Eq. 6; SADA-JEM, Eq. 9; SVGD-in-JEM thesis, Eq. 3.8;
    sampling-approaches thesis, Alg. 7.
    """

    loss: Loss | None = None
    numbers: Mapping[str, Any] = field(default_factory=dict)
    classification_weight: float = 1.0
    generative_weight: float = 1.0
    density_scale: Callable[[Mapping[str, Any]], Any] = lambda numbers: 1.0
    attack: Callable[..., Any] | None = None
    live: LiveSteps | None = None
    rho: float | None = None
    is_adaptive: bool = False
    batch_axis: AxisName = None

    def __post_init__(self) -> None:
        for name in ("classification_weight", "generative_weight"):
            check_not_negative(name, getattr(self, name))
        if self.rho is not None:
            check_positive("rho", self.rho)


def make_gradient_fn(
    model: EnergyNetwork | JointNetwork,
    objective: Objective,
    *,
    view: View,
    classified_view: View | None = None,
    plan: ChainPlan | None = None,
) -> GradientFn:
    """Draws negatives by chains and differentiates the loss.

    Chains go on from the shard's replay buffer, or start anew where the shard has none. The
    negatives are drawn once and serve both passes of SAM.

    Args:
      model: an energy, or a classifier.
      objective: the loss.
      view: of the data whose density is raised: uint8 images to what the network sees.
      classified_view: of the labelled images of a ``JointNetwork``, with augmentation. A batch is
        then a pair of ``ImageData`` from separate streams (``Plan.batch_size`` of two entries):
        labelled images, and images for p(x). Without it a batch is one ``ImageData``.
      plan: samplers, lengths and start distribution; None for a loss that needs no negatives.

    Returns:
      A ``GradientFn`` whose carry is a ``Carry``. Metrics: "loss", those of the loss and of
      ``run_chains`` (prefixed "chain_"), and with labels "smoothing" and those of
      ``cross_entropy_loss``.
      Interacting samples add "negative_entropy" in nats, of the whole system where shards share it
      (``ChainKind.axis_name``). ``fit`` refuses data with a label that is no class.
      Its ``numbers`` are those of ``numbers_of({"objective": objective, "plan": plan})``, or some.
    """
    if plan is not None and model.is_conditional and plan.is_interacting:
        raise ValueError(
            "plan.is_interacting must be False for a conditional model: particles that move "
            "together follow one density, not one for each class."
        )
    num_live = objective.live.num_steps if objective.live else 0
    for name, kind in plan.kinds.items() if plan else ():
        if num_live >= kind.num_steps:
            raise ValueError(
                f"live.num_steps={num_live} must be fewer than the {kind.num_steps} steps of "
                f"chains of kind {name!r}, of which they are the last."
            )
    step = _Step(model, objective, view, classified_view, plan)

    def gradient_fn(
        key: Key, params: PyTree, carry: Carry, batch: PyTree, numbers: PyTree = None
    ) -> tuple[PyTree, Carry, Metrics]:
        given = {name: value for name, value in (numbers or {}).items() if name in TAKEN}
        return with_numbers(step, given).learn(key, params, carry, batch)

    gradient_fn.check_data = step.check_data  # pyright: ignore[reportFunctionMemberAccess]
    return gradient_fn


class _Step(NamedTuple):
    """The parts of one step, bound to what stays the same."""

    model: EnergyNetwork | JointNetwork
    objective: Objective
    view: View
    classified_view: View | None
    plan: ChainPlan | None

    def check_data(self, params: PyTree, carry: Carry, data: ImageData) -> None:
        """Raises unless all labels are classes of the model, and the plan has as many."""
        view = self.classified_view or self.view
        if isinstance(self.model, JointNetwork):
            shown = jax.eval_shape(view, jax.random.key(0), data.images[:1])
            apply = self.model.classifier.apply
            logits, _ = jax.eval_shape(apply, params, carry.statistics, shown)
            num_classes = logits.shape[-1]
        else:
            num_classes = self.model.num_classes
        if num_classes > 1:
            check_labels("data.labels", data.labels, (len(data.images),), num_classes)
        if self.plan and self.model.is_conditional and self.plan.num_classes != num_classes:
            raise ValueError(
                f"plan.num_classes must be the network's {num_classes} classes for a conditional "
                f"model, got {self.plan.num_classes}."
            )

    def learn(
        self, key: Key, params: PyTree, carry: Carry, batch: PyTree
    ) -> tuple[PyTree, Carry, Metrics]:
        """Returns the gradient of the loss, and the carry with its chains moved on."""
        objective, axis = self.objective, self.objective.batch_axis
        num_members(axis, "objective.batch_axis")
        classified_key, view_key, draw_key, keep_key, loss_key = jax.random.split(key, 5)
        labelled, data, images, labels = None, batch, {}, {}
        classifier = cast(JointNetwork, self.model)  # of labelled images
        if self.classified_view is not None:
            if isinstance(batch, ImageData) or len(batch) != 2:  # ``ImageData`` is a pair as well
                raise ValueError(
                    "a batch of a joint energy model must be a pair of ImageData, (labelled "
                    f"images, images for p(x)), got {type(batch).__name__}: give Plan.batch_size "
                    "the two numbers of images, (64, 64) for example."
                )
            labelled, data = batch
            shown = jnp.asarray(labelled.images)
            images["classified"] = self.classified_view(classified_key, shown)
            if objective.attack is not None:
                clean, carried = images["classified"], (params, carry.statistics)
                images["classified"] = objective.attack(
                    jax.random.fold_in(key, ATTACK),
                    lambda _, x: classifier.classifier.apply(*carried, x)[0],
                    clean,
                    labelled.labels,
                    low=jnp.minimum(clean, -1.0),
                    high=jnp.maximum(clean, 1.0),
                ).adversarial
        numbers = {"smoothing": carry.smoothing, "step": carry.step, **objective.numbers}
        densities = partial(
            self.model.densities,
            statistics=carry.statistics,
            scale=objective.density_scale(numbers) / carry.smoothing,
            batch_axis=axis,
        )
        x, starts, chains, report = cast(jax.Array, None), None, None, {}  # x if there is a loss
        if objective.loss is not None:
            x = self.view(view_key, jnp.asarray(data.images))
        if self.plan is not None:
            starts, chains, adaptation, report = self._draw(
                draw_key, self.plan, densities(params), carry, x.shape[1:]
            )
            carry = carry._replace(adaptation=adaptation)
            images["positives"], labels["positives"] = x, data.labels
            labels["negatives"] = starts.labels

        def bind(params: PyTree) -> Callable[..., jax.Array]:
            f = self.model.log_density_of(params, carry.statistics)
            of = lambda x: jnp.resize(jnp.asarray(data.labels), (len(x),))  # noqa: E731
            return lambda x: f(x, of(x)) / carry.smoothing

        def loss_fn(params_now: PyTree, *, second_pass: bool = False) -> tuple[jax.Array, Any]:
            batch, negatives, shown, live = Samples(x), None, dict(images), ()
            if starts is not None:
                shown["negatives"] = positions_in(chains)
                if objective.live is not None:
                    shown["negatives"], live = self._move_live(
                        loss_key, params_now, densities, carry.statistics, starts, chains
                    )
            seen = self.model.evaluate(
                params_now,
                carry.statistics,
                shown,
                labels,
                second_pass=second_pass,
                batch_axis=axis,
            )
            if starts is not None:
                f = {role: gather_rows(one, axis) for role, one in seen.log_density.items()}
                at = {role: values / carry.smoothing for role, values in f.items()}
                batch = Samples(x, at["positives"], f["positives"])
                negatives = Samples(shown["negatives"], at["negatives"], f["negatives"], *live)
            values, metrics = [], {}
            if labelled is not None:
                cross_entropy, metrics = cross_entropy_loss(seen.logits, labelled.labels)
                values.append(objective.classification_weight * cross_entropy)
                if objective.attack is not None:
                    logits = cast(jax.Array, seen.logits)
                    attacked = classifier.log_density(logits, labelled.labels)
                    batch = batch._replace(attacked=gather_rows(attacked, axis) / carry.smoothing)
            if objective.loss is not None:
                density = Density(bind(params_now), bind(params))
                loss, more = objective.loss(loss_key, density, batch, negatives, numbers)
                values.append(objective.generative_weight * loss)
                metrics = {**metrics, **more}
            f, ends = seen.log_density.get("negatives"), shown.get("negatives")
            return jnp.sum(jnp.stack(values)), (metrics, seen.statistics, f, ends)

        differentiate = jax.value_and_grad(loss_fn, has_aux=True)
        if objective.rho is not None:
            differentiate = partial(self._differentiate_nearby, loss_fn)
        (loss, (metrics, statistics, f, ends)), gradients = differentiate(params)
        metrics |= {"loss": loss, **{f"chain_{name}": value for name, value in report.items()}}
        if labelled is not None:
            metrics["smoothing"] = carry.smoothing
        carry = carry._replace(statistics=statistics, step=carry.step + 1)
        if starts is None or self.plan is None:
            return gradients, carry, metrics
        axes = [kind.axis_name for kind in self.plan.kinds.values() if kind.is_interacting]
        if axes:
            metrics["negative_entropy"] = nearest_neighbour_entropy(gather_rows(ends, axes[0]))
        if starts.slots is not None:
            num = self.plan.num_kept or self.plan.num_samples
            rows = chains._replace(position=ends) if isinstance(chains, Chain) else ends
            kept = select_particles(keep_key, rows, f, num, policy=self.plan.replacement)
            buffer = ReplayBuffer(write_slots(starts.slots[:num], kept))
            carry = carry._replace(buffer=buffer)
        return gradients, carry, metrics

    def _draw(
        self, key: Key, plan: ChainPlan, densities: Densities, carry: Carry, shapes: PyTree
    ) -> tuple[Starts, PyTree, dict[str, DualAveraging], Metrics]:
        """Returns starts, ends of chains as constants, and what else ``run_chains`` returns."""
        live = self.objective.live
        label_key, draw_key, chain_key, augment_key = jax.random.split(key, 4)
        starts = draw_starts(
            (label_key, draw_key, augment_key),
            plan,
            carry.buffer,
            is_conditional=self.model.is_conditional,
            num_others=live.num_references if live else 0,
            shapes=shapes,
        )
        ends, adaptation, metrics = run_chains(
            chain_key,
            densities,
            plan,
            starts.positions,
            starts.labels,
            carry.adaptation,
            num_fewer=live.num_steps if live else 0,
            batch_axis=self.objective.batch_axis,
        )
        return starts, jax.lax.stop_gradient(ends), adaptation, metrics

    def _move_live(
        self,
        key: Key,
        params: PyTree,
        densities: Callable[[PyTree], Densities],
        statistics: PyTree,
        starts: Starts,
        chains: PyTree,
    ) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Returns ends of live chains as constants, and their log densities and entropy."""
        live, labels = self.objective.live, starts.labels
        assert live is not None
        ends = run_live_chains(
            key,
            densities(params),
            positions_in(chains),
            labels,
            step_size=live.step_size,
            noise_scale=live.noise_scale,
            num_steps=live.num_steps,
            low=live.low,
            high=live.high,
        )
        f = self.model.log_density_of(jax.lax.stop_gradient(params), statistics)
        references = gather_rows(starts.others, self.objective.batch_axis)
        found = f(ends, labels), nearest_neighbour_entropy(ends, references)
        return jax.lax.stop_gradient(ends), found

    def _differentiate_nearby(self, loss_fn: Callable[..., Any], params: PyTree) -> Any:
        """Returns what ``loss_fn`` returns, and the gradient of SAM."""
        policy = getattr(self.model, "policy", None)
        is_like_first = policy is None or "chains" not in policy.updated_by
        assert self.objective.rho is not None
        return sam_gradients(
            loss_fn,
            params,
            rho=self.objective.rho,
            adaptive=self.objective.is_adaptive,
            second_loss_fn=None if is_like_first else partial(loss_fn, second_pass=True),
            axis_name=self.objective.batch_axis,
        )
