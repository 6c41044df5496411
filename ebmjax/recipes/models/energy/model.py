"""A trained density, with labels or without: its logits, its chains, what evaluators ask of it."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from ebmjax import densities, evaluate, learning, samplers
from ebmjax._groups import map_groups
from ebmjax._phases import say_part
from ebmjax.data import dequantise, to_signed_unit
from ebmjax.evaluate import Chains
from ebmjax.learning import ANY_CLASS, ChainPlan, EnergyNetwork, JointNetwork
from ebmjax.networks import NormPolicy
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.evaluators.density import grid_of, learned_on_grid
from ebmjax.recipes.evaluators.inpainting import Given
from ebmjax.recipes.models.build import ImageModel
from ebmjax.recipes.models.energy.checks import find_samplers
from ebmjax.recipes.models.energy.parts import chain_plan, find_base
from ebmjax.recipes.parts.objectives import chains_beta
from ebmjax.recipes.parts.points_data import Truth
from ebmjax.recipes.parts.samplers import FIRST_LAYER, is_autoregressive, temperature
from ebmjax.recipes.parts.start_distributions import Base
from ebmjax.samplers import StartFn, position_of
from ebmjax.training import TrainState
from ebmjax.types import Key, LogDensityFn, PyTree

BATCH, NUM_JUDGED, NUM_STRENGTHS, WEAKEST = 128, 1024, 31, 1e-3
"""Images a call; images, and draws of a base, that choose a network's strength; strengths tried,
and the least of them."""
LONG, FAR_PIXELS = 10, 32**2
"""Default length of an evaluation's chain, in lengths of a training step's, for images of at most
so many pixels. Chains of larger images are longer in proportion."""


class Trained(NamedTuple):
    """Parts of a run's state that are used.

    Attributes:
      params: of the network, averaged over training where ``optimizer.average_decay`` says so.
      statistics: running averages of batch normalisation, the mean of the shards'.
      scale: the factor by which chains follow the network's log density: 1 - beta of the robust
        objective, over the mean smoothing of the shards; times ``strength``.
      adaptation: of the first shard, at the averaged step sizes.
      strength: factor of a network beside an autoregressive base, see ``find_strength``.
    """

    params: PyTree
    statistics: PyTree
    scale: Any
    adaptation: dict[str, learning.DualAveraging]
    strength: Any = 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class EnergyModel(ImageModel):
    """A density of images or points, that may be a classifier too.

    Attributes:
      plan: how training draws its negatives; None without chains.
      base: the mixture that a network tilts, or that chains start from; None for none.
      network: as training sees it.
      logits_fn: parameters, statistics and x (N, *shape) to log densities (N, classes).
      total_steps: of the run.
      truth: knowledge of the law of points; None for images.
      output_scale: factor of the robust objective on the log density of points; else 1.
    """

    plan: ChainPlan | None
    base: Base | None = None
    network: EnergyNetwork | JointNetwork
    logits_fn: Callable[[PyTree, PyTree, jax.Array], jax.Array]
    total_steps: int = 0
    truth: Truth | None = None
    output_scale: float = 1.0

    def extract_trained(self, params: PyTree, state: TrainState) -> Trained:
        """Returns the trained parts of ``state``.

        Counters and flags of a user's network are the first shard's: they are equal on all shards.
        """

        def average(leaf: Any) -> jax.Array:
            is_number = jnp.issubdtype(jnp.result_type(leaf), jnp.inexact)
            return jnp.mean(leaf, axis=0) if is_number else jnp.asarray(leaf)[0]

        carry = state.carry
        adaptation = jax.tree.map(lambda leaf: leaf[0], dict(carry.adaptation))
        beta = chains_beta({**self.config.loss, "step": carry.step[0]}, self.total_steps)
        trained = Trained(
            params,
            jax.tree.map(average, carry.statistics),
            (1.0 - jnp.float32(beta)) / jnp.mean(jnp.asarray(carry.smoothing)),
            {name: s._replace(log_step_size=s.log_average) for name, s in adaptation.items()},
        )
        if self.plan is None or self.plan.log_base is None or self.base is None:
            return trained
        strength = self.find_strength(trained) if is_autoregressive(self.base.density) else 1.0
        return trained._replace(scale=strength * trained.scale, strength=strength)

    def find_strength(self, trained: Trained) -> float:
        r"""Returns the factor s of the network that makes training images likeliest, at most 1.

        Draws of q say how much likelier the images become, :math:`E[s f] - \log E_q e^{s f}`. Two
        standard errors are taken off, so that a network that does not help is weak.
        """
        density: Any = self.base and self.base.density
        heat = temperature(next(iter(find_samplers(self.config).values()))) or 1.0

        @jax.jit
        def tilts(trained: Trained, images: jax.Array) -> tuple[jax.Array, jax.Array]:
            draws = jax.vmap(density.draw_any)(jax.random.split(jax.random.key(0), NUM_JUDGED))

            def tilt(x: jax.Array) -> jax.Array:
                logits = self.logits_fn(trained.params, trained.statistics, x[None])[0]
                return jax.nn.logsumexp(self.output_scale * logits) * trained.scale / heat

            of = partial(jax.lax.map, tilt, batch_size=BATCH)
            return of(images), of(draws)

        images = dequantise(jax.random.key(1), jnp.asarray(self.train.images[:NUM_JUDGED]))
        found = self.program("tilts", lambda: tilts)(trained, images)
        ours, theirs = (np.asarray(one, np.float64) for one in found)
        best = 0.0, WEAKEST
        for strength in np.geomspace(WEAKEST, 1.0, NUM_STRENGTHS):
            weights = np.exp(strength * (theirs - theirs.max()))
            gain = strength * (ours.mean() - theirs.max()) - np.log(weights.mean())
            variance = strength**2 * ours.var() / len(ours)
            variance += weights.var() / weights.mean() ** 2 / len(theirs)
            best = max(best, (gain - 2 * variance**0.5, strength))
        return float(best[1])

    @property
    def params(self) -> PyTree:
        """Parameters of the network."""
        return self.trained.params

    @property
    def num_chain_steps(self) -> int:
        """Number of steps of an evaluation's own chain."""
        pixels = math.prod(self.train.images.shape[1:-1])
        kinds = self.plan.kinds.values() if self.plan else [self.config.sampler]
        default = round(LONG * max(one.num_steps for one in kinds) * max(pixels / FAR_PIXELS, 1))
        return self.config.evals.get("num_chain_steps") or default

    @property
    def has_labels(self) -> bool:
        """Returns whether the density is a classifier."""
        return self.config.family == "joint"

    def logits_of(self, trained: Trained, x: jax.Array) -> jax.Array:
        """Returns log densities (N, classes) of x (N, *shape): the network's and its base's."""
        logits = self.output_scale * self.logits_fn(trained.params, trained.statistics, x)
        if self.plan is None or self.plan.log_base is None:
            return logits
        return logits + self.plan.log_base(x)[..., None] / trained.scale

    def log_density(self, trained: Trained, x: jax.Array) -> jax.Array:
        """Returns the log density of one image or point, up to a constant."""
        return jax.nn.logsumexp(self.logits_of(trained, x[None])[0])

    def tilted(self) -> tuple[Any, LogDensityFn, float] | None:
        """Returns q, f and T of a density q(x) exp(f(x)) on the whole space; None for another.

        T is the temperature at which ``log_density`` is that of the chains.
        """
        if self.plan is None or self.plan.log_base is None or self.base is None:
            return None
        trained, heat = self.trained, self.about()["temperature"] / float(self.trained.scale)

        def tilt(x: jax.Array) -> jax.Array:
            logits = self.logits_fn(trained.params, trained.statistics, x[None])[0]
            return jax.nn.logsumexp(self.output_scale * logits) / heat

        return self.base.density, tilt, heat

    @property
    def logits(self) -> Partial:
        """Function of images (N, H, W, C) in [-1, 1] to logits (N, classes)."""
        return Partial(self.logits_of, self.trained)

    def logits_at(self, images: Any) -> np.ndarray:
        """Returns logits (N, classes) of uint8 images, or of floats in [-1, 1], or of points."""

        @jax.jit
        def logits(trained: Trained, images: jax.Array) -> jax.Array:
            one = lambda x: self.logits_of(trained, x[None])[0]  # noqa: E731
            return map_groups(one, images, min(self.config.evals.batch_size, len(images)))

        images = jnp.asarray(images)
        images = to_signed_unit(images) if images.dtype == jnp.uint8 else images
        return np.asarray(self.program("logits", lambda: logits)(self.trained, images))

    def log_densities(self, points: Any) -> np.ndarray:
        """Returns the log densities (N,) of images or points, up to a constant."""
        return np.asarray(jax.nn.logsumexp(self.logits_at(points), axis=1))

    def energies(self, images: Any, labels: Any) -> np.ndarray:
        """Returns energies (N,) of images; those of their labels, if it is of E(x, y)."""
        logits = self.logits_at(images)
        own = np.asarray(labels) if logits.shape[1] > 1 else 0
        return -logits[np.arange(len(logits)), own] / self.output_scale

    def apply(self, params: PyTree, images: jax.Array) -> jax.Array:
        """Returns logits (N, classes) of images (N, H, W, C) in [-1, 1]; without labels energies.

        Those are (N,), or of E(x, y) those of all labels (N, classes).
        """
        logits = self.logits_of(self.trained._replace(params=params), images)
        if self.has_labels:
            return logits
        energies = -logits / self.output_scale
        return energies if logits.shape[1] > 1 else energies[:, 0]

    def score(self, images: np.ndarray) -> dict[str, np.ndarray]:
        """Returns "log_density" (N,), up to a constant, of images or points.

        With classes also "class_probability" (N, classes), and for a classifier scores that tell
        other data.
        """
        if self.has_labels:
            scores = evaluate.scores(self.logits, images, batch_size=self.config.evals.batch_size)
            logits = scores.pop("logits")
        else:
            logits = self.logits_at(images)
            scores = {"log_density": np.asarray(jax.nn.logsumexp(logits, axis=1))}
        if logits.shape[1] == 1:
            return scores
        return {"class_probability": np.asarray(jax.nn.softmax(logits, axis=1)), **scores}

    def sample(
        self, key: Key, num: int, num_steps: int | None = None, label: int | None = None
    ) -> dict[str, np.ndarray]:
        """Returns ``Chains.images`` of fresh chains; "labels" of a conditional energy; or "points".

        In the plane, points are independent draws of the learned density on the grid of
        ``evals.density``. With ``num_steps``, or in another space, they are the ends of chains.
        """
        steps = num_steps or self.num_chain_steps
        if self.truth is None:
            has_class = self.config.model.is_conditional and not self.has_labels
            labels = None if label is None else (label,)
            found = self.fresh_chains(key, num, steps, labels=labels).drop_diverged()
            return found.images() | ({"labels": found.labels} if has_class else {})
        if num_steps is None and self.train.images.shape[1] == 2:
            return {"points": grid_of(self.config).draw(key, learned_on_grid(self), num)}
        ends = self.fresh_chains(key, num, steps, scale=1.0).ends
        return {"points": ends[np.isfinite(ends).all(axis=1)]}

    def find_plan(self) -> ChainPlan:
        """Returns the plan of chains; ConfigError for a classifier alone."""
        if self.plan is None:
            raise ConfigError("config.loss.generative_weight=0: a classifier alone has no chains.")
        return self.plan

    def fresh_chains(
        self, key: Key, num: int, num_steps: int, *, labels: Any = None, scale: Any = None
    ) -> Chains:
        """Returns ``num`` chains of training's samplers, which start in the classes in turn.

        Args:
          key: of the starts and moves.
          num: of chains.
          num_steps: of each chain.
          labels: classes that chains start in and follow, in turn. None: they start in all, and a
            classifier's follow p(x).
          scale: see ``Trained``; None for training's.

        Raises:
          ConfigError: for a classifier alone.
        """
        plan, size = self.find_plan(), min(self.config.evals.batch_size, num)
        if plan.is_interacting:  # as many particles as in training
            size = self.config.sampler.num_samples
        num_groups, num_kinds = -(-num // size), len(plan.kinds)
        if num_kinds > 1:  # groups of equal size: cutting the last one drops no sampler's chains
            size = -(-num // (num_groups * num_kinds)) * num_kinds
        in_class = labels is not None and self.base is not None
        start_fn = Partial(Base.draw, self.base) if in_class else plan.start_fn
        classes = np.arange(plan.num_classes) if labels is None else labels
        turns = np.resize(np.asarray(classes, np.int32), (num_groups, size))
        labels = np.full_like(turns, ANY_CLASS) if self.has_labels and labels is None else turns
        trained = self.trained if scale is None else self.trained._replace(scale=jnp.float32(scale))
        model = self.keep_class() if in_class else self
        run = self.program(("fresh", num_steps, in_class), lambda: model._make_chains(num_steps))
        say_part(f"{num:,} chains of {num_steps:,} steps")
        found = *run(key, trained, start_fn, turns, labels), turns
        # Drops the last group's surplus: distances of different counts do not compare.
        starts, ends, classes = (np.concatenate(np.asarray(some))[:num] for some in found)
        return Chains(starts, ends, classes)

    def keep_class(self) -> "EnergyModel":
        """Returns the model whose chains stay in the component of their start, by any base."""
        density: Any = self.base and self.base.density
        if not is_autoregressive(density):
            return self
        move = lambda kind: partial(kind.sampler, base=density._replace(keeps=True))  # noqa: E731
        kinds = {n: replace(k, sampler=move(k)) for n, k in self.find_plan().kinds.items()}
        return replace(self, plan=replace(self.find_plan(), kinds=kinds))

    def conditional_chains(self, given: Given, num: int, num_steps: int | None, label: Any) -> Any:
        """Returns chains of the run's first sampler on free pixels, as ``Given.run`` takes them.

        Their law is that of its chains of whole images, given the other pixels or times the
        likelihood of an observation. A step that can adapt does so first, over as many steps.
        Chains of E(x, y) without a label follow the sum over labels.
        """
        plan, mask = self.find_plan().single(num, num_steps or self.num_chain_steps), given.mask
        (name, chosen), *_ = find_samplers(self.config).items()
        density: Any = self.base and self.base.density
        refused = {
            "move in a network's first layer": chosen.entry.needs == FIRST_LAYER,
            "stay in the Gaussian where they start": (
                plan.log_base and given.operator and not is_autoregressive(density)
            ),
        }
        if why := [why for why, is_so in refused.items() if is_so]:
            raise ConfigError(f"chains of {name} cannot use what is given: they {why[0]}.")
        kind, base, more = plan.kinds[name], None, None
        if self.base is not None and plan.log_base is not None:
            if is_autoregressive(density):
                images = jnp.asarray(given.images)
                places = np.arange(images[0].size).reshape(images[0].shape)[mask]
                keeps = {"places": jnp.asarray(places), "keeps": label is not None}
                density, more = density._replace(**keeps), {"given": images}
            else:
                density = samplers.condition_gaussian(density, given.images, mask)
                more = {"mean": density.mean, "log_weights": density.log_weights}
            base = self.base._replace(density=density)
        scale = (given.noise or 1.0) / (temperature(chosen) or 1.0) ** 0.5
        is_summed = self.config.model.is_conditional and not self.has_labels and label is None

        def one(shared: Any, row: Any) -> tuple[jax.Array, jax.Array]:
            (trained, start_fn, base), (key, image, observed, more) = shared, row
            start_key, warm_key, chain_key = jax.random.split(key, 3)
            labels = jnp.full(num, ANY_CLASS if label is None else label)
            turns = labels if label is not None else jnp.arange(num) % plan.num_classes
            draw, make = (lambda *of: start_fn(*of)[mask]), kind.sampler
            if base is not None:
                own = base._replace(density=base.density._replace(**more))
                draw, make, turns = own.draw, partial(make, base=own.density), labels
            starts = ends = jax.vmap(draw)(jax.random.split(start_key, num), turns)
            of_class, every = self.densities_of(trained), jnp.arange(plan.num_classes)
            f = of_class(labels[0])
            if is_summed:
                f = lambda x: jax.nn.logsumexp(jax.vmap(lambda y: of_class(y)(x))(every))  # noqa: E731
            if given.operator is not None:
                f = densities.observe(f, given.operator, observed, scale)
            f = densities.condition(f, image, mask)
            if chosen.entry.adapts and chosen.entry.rejects and not is_autoregressive(density):
                steps: Any = {"num_steps": kind.num_steps, "step_size": kind.step_size}
                find = lambda step_size, _: make(f, step_size=step_size)  # noqa: E731
                found = samplers.warm_up(warm_key, find, starts, adapts_metric=False, **steps)
                make, ends = partial(make, step_size=found.step_size), position_of(found.states)
            alone = replace(plan, kinds={name: replace(kind, sampler=make)})
            return starts, learning.run_chains(chain_key, lambda _: f, alone, ends, labels)[0]

        return one, (self.trained, plan.start_fn, base), more

    def _make_chains(self, num_steps: int) -> Callable[..., tuple[jax.Array, jax.Array]]:
        """Returns the program of fresh chains, of classes of starts and labels (groups, size).

        The groups run one after the other, and each sampler moves an equal part of each.
        """

        @jax.jit
        def run(key: Key, trained: Trained, start_fn: StartFn, turns: Any, labels: Any) -> Any:
            # The start distribution is an argument, so that its constants stay out of the program.
            def one_group(group: tuple[Key, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
                key, turns, labels = group
                start_key, chain_key = jax.random.split(key)
                starts = jax.vmap(start_fn)(jax.random.split(start_key, len(turns)), turns)
                return starts, self.move(chain_key, trained, starts, labels, num_steps)

            return map_groups(one_group, (jax.random.split(key, len(labels)), turns, labels))

        return run

    def densities_of(self, trained: Trained) -> learning.Densities:
        """Returns the densities of chains, scaled as in training; log p(x) for ``ANY_CLASS``."""
        network = self.network
        if isinstance(network, JointNetwork):
            network = network._replace(is_conditional=True)
        return network.densities(trained.params, trained.statistics, trained.scale)

    def move(self, key: Key, trained: Trained, starts: Any, labels: Any, num_steps: int) -> Any:
        """Moves ``starts`` (N, H, W, C) of classes (N,) by ``num_steps`` of training's samplers."""
        plan: Any = self.plan
        single, of_class = plan.single(len(labels), num_steps), self.densities_of(trained)
        if plan.is_interacting:  # of one class, or of none
            of_class = lambda _, of=of_class: of(labels[0])  # noqa: E731
        return learning.run_chains(key, of_class, single, starts, labels, trained.adaptation)[0]

    def refinement(self, num_steps: int) -> Callable[[Trained, Key, jax.Array], jax.Array]:
        """Returns the function that moves attacked images by chains, each image by itself.

        A classifier alone refines images by the chains that its configuration names.
        """

        def make() -> Any:
            given = self.config, self.train
            plan = self.plan or chain_plan(*given, find_base(*given, Path())[0])
            alone = self.network._replace(policy=NormPolicy(chains="running"))
            model = replace(self, network=alone, plan=plan)

            def refine(trained: Trained, key: Key, images: jax.Array) -> jax.Array:
                labels = jnp.full(len(images), ANY_CLASS)
                return model.move(key, trained, images, labels, num_steps)

            return refine

        return self.program(("refinement", num_steps), make)

    def about(self) -> dict[str, Any]:
        """Returns the length of long chains, and every sampler's step and temperature."""
        if self.plan is None:
            return {}
        found: dict[str, dict[str, Any]] = {}
        for name, one in find_samplers(self.config).items():
            step, adapted = one.options.get("step_size"), self.trained.adaptation.get(name)
            found[name] = {
                "step_size": step if adapted is None else float(np.exp(adapted.log_step_size)),
                "temperature": temperature(one),
            }
        return {
            "num_chain_steps": self.num_chain_steps,
            "strength": float(self.trained.strength),
            "samplers": found,
            "temperature": next(iter(found.values()))["temperature"],
        }
