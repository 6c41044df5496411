"""A trained density, with labels or without: its logits, its chains, what evaluators ask of it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from ebmjax import evaluate
from ebmjax._groups import map_groups
from ebmjax._phases import say_part
from ebmjax.data import to_signed_unit
from ebmjax.evaluate import Chains
from ebmjax.learning import (
    ANY_CLASS,
    ChainPlan,
    DualAveraging,
    EnergyNetwork,
    JointNetwork,
    NoiseLevels,
    run_chains,
)
from ebmjax.networks import NormPolicy
from ebmjax.optim import averaged_parameters
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.evaluators.density import grid_draws, grid_of, learned_on_grid
from ebmjax.recipes.models.build import DensitiesOf, ImageModel, images_of
from ebmjax.recipes.models.energy.checks import find_samplers
from ebmjax.recipes.parts.points_data import Truth
from ebmjax.recipes.parts.samplers import larger, temperature
from ebmjax.samplers import StartFn
from ebmjax.training import TrainState
from ebmjax.types import Key, PyTree

LONG, FAR_PIXELS = 10, 32**2
"""Default length of an evaluation's chain, in lengths of a training step's, for images of at most
so many pixels. Chains of larger images are longer in proportion."""


class Trained(NamedTuple):
    """Parts of a run's state that are used.

    Attributes:
      params: of the network, averaged over training where ``optimizer.average_decay`` says so.
      statistics: running averages of batch normalisation, the mean of the shards'.
      smoothing: scalar, the mean of the shards'; 1 without labels.
      adaptation: of the first shard, at the averaged step sizes.
      beta: scalar, the share of the log density that chains lack under the robust objective.
    """

    params: PyTree
    statistics: PyTree
    smoothing: Any
    adaptation: dict[str, DualAveraging]
    beta: Any = 0.0

    @property
    def scale(self) -> Any:
        """Returns the factor by which chains follow the network's log density."""
        return (1.0 - self.beta) / self.smoothing


def extract_trained(state: TrainState, *, is_averaged: bool = False, beta: Any = 0.0) -> Trained:
    """Returns the trained parts of ``state``, with the averaged parameters if they are kept.

    Counters and flags of a user's network are the first shard's: they are equal on all shards.
    """

    def average(leaf: Any) -> jax.Array:
        is_number = jnp.issubdtype(jnp.result_type(leaf), jnp.inexact)
        return jnp.mean(leaf, axis=0) if is_number else jnp.asarray(leaf)[0]

    return Trained(
        averaged_parameters(state.opt_state) if is_averaged else state.params,
        jax.tree.map(average, state.carry.statistics),
        jnp.mean(jnp.asarray(state.carry.smoothing)),
        average_step_sizes(state.carry.adaptation),
        jnp.float32(beta),
    )


def densities_of(network: EnergyNetwork | JointNetwork) -> DensitiesOf:
    """Returns the densities of chains: of their class, or log p(x) for ``ANY_CLASS``.

    Scaled as in training, which the step size was chosen for.
    """
    if isinstance(network, JointNetwork):
        network = network._replace(is_conditional=True)
    return lambda trained: network.densities(trained.params, trained.statistics, trained.scale)


def average_step_sizes(adaptation: Mapping[str, DualAveraging]) -> dict[str, DualAveraging]:
    """Returns the first shard's step sizes, averaged over training; takes those of all shards."""
    first = jax.tree.map(lambda leaf: leaf[0], dict(adaptation))
    return {name: s._replace(log_step_size=s.log_average) for name, s in first.items()}


def move(
    key: Key,
    plan: ChainPlan,
    densities_of: DensitiesOf,
    model: Any,
    starts: jax.Array,
    labels: jax.Array,
    num_steps: int,
) -> jax.Array:
    """Moves ``starts`` (N, H, W, C) of classes (N,) by ``num_steps`` of the plan's samplers."""
    num_kinds = len(plan.kinds)
    keys = key[None] if num_kinds == 1 else jax.random.split(key, num_kinds)
    single = plan.single(len(labels), num_steps)
    return run_chains(keys, densities_of(model), single, starts, labels, model.adaptation)[0]


def make_fresh_chains(
    plan: ChainPlan,
    densities_of: DensitiesOf,
    num_steps: int,
    levels: NoiseLevels | None = None,
) -> Callable[[Key, Any, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Returns a function that runs training's samplers from their start distribution.

    Args:
      plan: how training draws its negatives. Its start distribution must be a PyTree, as those of
        ``ebmjax.samplers`` are.
      densities_of: what chains follow.
      num_steps: of each chain.
      levels: noise levels; then chains of no sampler are annealed through them, from noise.

    Returns:
      ``(key, model, labels) -> (starts, ends)``, each (chains, H, W, C). Labels are (groups, size)
      int32; the groups run one after the other, and each sampler moves an equal part of each.
      ``ANY_CLASS`` starts as a class does, the classes in turn from the first label on.
    """

    @jax.jit
    def run(key: Key, model: Any, start_fn: StartFn, labels: jax.Array) -> Any:
        # An argument, so that its large constants stay out of the program.
        def one_group(group: tuple[Key, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            key, labels, turns = group
            start_key, chain_key = jax.random.split(key)
            keys = jax.random.split(start_key, len(labels))
            starts = jax.vmap(start_fn)(keys, jnp.where(labels == ANY_CLASS, turns, labels))
            if levels is not None:
                starts, density = levels.draw_like(start_key, starts), densities_of(model)
                anneal = levels.anneal
                keys = jax.random.split(chain_key, len(labels))
                return starts, jax.vmap(
                    lambda key, start, label: anneal(key, start, density(label), num_steps)
                )(keys, starts, labels)
            return starts, move(chain_key, plan, densities_of, model, starts, labels, num_steps)

        turns = jnp.arange(labels.size, dtype=jnp.int32).reshape(labels.shape) % plan.num_classes
        return map_groups(one_group, (jax.random.split(key, len(labels)), labels, turns))

    def fresh_chains(key: Key, model: Any, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        starts, ends = run(key, model, plan.start_fn, jnp.asarray(labels))
        flat = [np.asarray(x).reshape(-1, *x.shape[2:]) for x in (starts, ends)]
        return flat[0], flat[1]

    return fresh_chains


@dataclass(frozen=True, kw_only=True, eq=False)
class EnergyModel(ImageModel):
    """A density of images or points, that may be a classifier too.

    Attributes:
      network: as training sees it.
      logits_fn: parameters, statistics and x (N, *shape) to log densities (N, classes).
      beta_of: function of a state, see ``Trained.beta``.
      step_factor: chains' steps, in steps of training's.
      levels: of a density of (x, noise), through which fresh chains are annealed; else None.
      refining: plan whose sampler refines attacked images; None if none does.
      truth: knowledge of the law of points; None for images.
      output_scale: factor of the robust objective on the log density of points; else 1.
    """

    network: EnergyNetwork | JointNetwork
    logits_fn: Callable[[PyTree, PyTree, jax.Array], jax.Array]
    beta_of: Callable[[TrainState], Any] = lambda state: 0.0
    step_factor: float = 1.0
    levels: NoiseLevels | None = None
    refining: ChainPlan | None = None
    truth: Truth | None = None
    output_scale: float = 1.0

    def extract_trained(self, state: TrainState) -> Trained:
        """Returns the trained parts, and ``step_factor`` times the steps that adapted."""
        is_averaged = self.config.optimizer.average_decay > 0
        trained = extract_trained(state, is_averaged=is_averaged, beta=self.beta_of(state))
        longer, steps = math.log(self.step_factor), trained.adaptation.items()
        adaptation = {k: s._replace(log_step_size=s.log_step_size + longer) for k, s in steps}
        return trained._replace(adaptation=adaptation)

    @property
    def num_chain_steps(self) -> int:
        """Number of steps of an evaluation's own chain."""
        pixels = math.prod(self.train.images.shape[1:-1])
        default = round(LONG * self.config.sampler.num_steps * max(pixels / FAR_PIXELS, 1))
        return self.config.evals.get("num_chain_steps") or default

    @property
    def has_labels(self) -> bool:
        """Returns whether the density is a classifier."""
        return self.config.family == "joint"

    @property
    def is_conditional(self) -> bool:
        """Returns whether training's chains belong to a class."""
        return self.config.model.is_conditional

    def logits_of(self, trained: Trained, x: jax.Array) -> jax.Array:
        """Returns log densities (N, classes) of x (N, *shape), up to a constant.

        They are of the density that chains follow: the network's and its base's.
        """
        logits = self.logits_fn(trained.params, trained.statistics, x)
        if self.output_scale != 1.0:
            logits = self.output_scale * logits
        if self.plan is None or self.plan.log_base is None:
            return logits
        return logits + self.plan.log_base(x)[..., None] / trained.scale

    @property
    def logits(self) -> Partial:
        """Function of images (N, H, W, C) in [-1, 1] to logits (N, classes)."""
        return Partial(self.logits_of, self.trained)

    def apply(self, params: PyTree, images: jax.Array, labels: Any = None) -> jax.Array:
        """Returns logits (N, classes) of images (N, H, W, C) in [-1, 1]; energies without labels.

        Args:
          params: like ``self.params``.
          images: float32; or points (N, d).
          labels: (N,), of a conditional energy.
        """
        logits = self.logits_of(self.trained._replace(params=params), images)
        if self.has_labels:
            return logits
        if labels is None and logits.shape[1] > 1:
            raise ValueError("labels must be given to a conditional energy, got None.")
        labels = jnp.zeros(len(images), jnp.int32) if labels is None else labels
        return -_pick(logits, labels) / self.output_scale

    def class_log_densities(self, trained: Trained, x: jax.Array) -> jax.Array:
        """Returns the log density (classes,) of one image or point, by its class."""
        return self.logits_of(trained, x[None])[0]

    def logits_at(self, images: Any) -> np.ndarray:
        """Returns logits (N, classes) of uint8 images, or of floats in [-1, 1], or of points."""

        def make() -> Any:
            size = self.config.evals.batch_size

            @jax.jit
            def logits(trained: Trained, images: jax.Array) -> jax.Array:
                one = partial(self.class_log_densities, trained)
                return map_groups(one, images, min(size, len(images)))

            return logits

        images = jnp.asarray(images)
        images = to_signed_unit(images) if images.dtype == jnp.uint8 else images
        return np.asarray(self.program("logits", make)(self.trained, images))

    def log_densities(self, points: Any) -> np.ndarray:
        """Returns the log densities (N,) of images or points, up to a constant."""
        return np.asarray(jax.nn.logsumexp(self.logits_at(points), axis=1))

    def energies(self, images: Any, labels: Any) -> np.ndarray:
        """Returns energies (N,) of images; those of their labels, if it is of E(x, y)."""
        return np.asarray(-_pick(self.logits_at(images), jnp.asarray(labels)) / self.output_scale)

    def scores(self, images: Any) -> dict[str, np.ndarray]:
        """Returns logits and the three scores of images, see ``evaluate.scores``."""
        return evaluate.scores(self.logits, images, batch_size=self.config.evals.batch_size)

    def score(self, images: np.ndarray) -> dict[str, np.ndarray]:
        """Returns "log_density" (N,), up to a constant, of images or points.

        With labels also "class_probability" (N, classes), and scores that tell other data.
        """
        if self.has_labels:
            scores = self.scores(images)
            probabilities = np.asarray(jax.nn.softmax(scores.pop("logits")))
            return {"class_probability": probabilities, **scores}
        logits = self.logits_at(images)
        scores = {"log_density": np.asarray(jax.nn.logsumexp(logits, axis=1))}
        if logits.shape[1] > 1:
            scores["class_probability"] = np.asarray(jax.nn.softmax(logits, axis=1))
        return scores

    def sample(self, key: Key, num: int, num_steps: int | None = None) -> dict[str, np.ndarray]:
        """Returns ``images_of`` of fresh chains; "labels" of a conditional energy; or "points".

        In the plane, points are independent draws of the learned density on the grid of
        ``evals.density``. With ``num_steps``, or in another space, they are the ends of chains.
        """
        if self.truth is not None and num_steps is None and self.train.images.shape[1] == 2:
            grid = grid_of(self.config)
            return {"points": grid_draws(key, learned_on_grid(self), grid, num)}
        if self.truth is not None:
            ends = self.follow(key, num, num_steps or self.num_chain_steps)
            return {"points": ends[np.isfinite(ends).all(axis=1)]}
        found = self.fresh_chains(key, num, num_steps or self.num_chain_steps)
        if self.has_labels or not self.is_conditional:
            return images_of(found)
        is_finite = np.isfinite(found.ends).all(axis=(1, 2, 3))
        return {**images_of(found), "labels": np.asarray(found.labels)[is_finite]}

    def follow(self, key: Key, num: int, num_steps: int, *, beta: Any = 0.0) -> np.ndarray:
        """Returns ends (num, *shape) of fresh chains that follow ``1 - beta`` of the density."""
        followed = replace(self, trained=self.trained._replace(beta=jnp.float32(beta)))
        return followed.fresh_chains(key, num, num_steps).ends

    def fresh_chains(self, key: Key, num: int, num_steps: int, *, of_class: bool = False) -> Chains:
        """Returns ``num`` chains from the start distribution, which start in the classes in turn.

        Args:
          key: of the starts and moves.
          num: of chains.
          num_steps: of each chain.
          of_class: whether a classifier's chains follow the class that they start in, and not p(x).
            Those of an energy E(x, y) do.

        Raises:
          ConfigError: for a classifier alone.
        """
        plan, size = self.plan, min(self.config.evals.batch_size, num)
        if plan is None:
            raise ConfigError(
                "config.loss.generative_weight=0 trains a classifier alone, which has no chains "
                "to sample with."
            )
        if plan.is_interacting:  # as many particles as in training
            size = self.config.sampler.num_samples
        num_groups, num_kinds = -(-num // size), len(plan.kinds)
        if num_kinds > 1:  # groups of equal size: cutting the last one drops no sampler's chains
            size = -(-num // (num_groups * num_kinds)) * num_kinds
        make = partial(make_fresh_chains, plan, self.densities_of, num_steps, self.levels)
        run = self.program(("fresh", num_steps), make)
        num_classes = self.config.data.num_classes if of_class else plan.num_classes
        turns = np.arange(num_groups * size, dtype=np.int32) % num_classes
        is_any = self.has_labels and not of_class
        labels = np.full_like(turns, ANY_CLASS) if is_any else turns
        say_part(f"{num:,} chains of {num_steps:,} steps")
        starts, ends = run(key, self.trained, labels.reshape(num_groups, size))
        # Drops the last group's surplus: distances of different counts do not compare.
        return Chains(starts[:num], ends[:num], turns[:num])

    def refinement(self, num_steps: int) -> Callable[[Trained, Key, jax.Array], jax.Array]:
        """Returns the function that moves attacked images by chains.

        Each image is refined by itself, whatever normalises training's chains.
        """

        def make() -> Any:
            plan = self.refining
            assert plan is not None
            alone = self.network._replace(policy=NormPolicy(chains="running"))
            densities = densities_of(alone)

            def refine(model: Trained, key: Key, images: jax.Array) -> jax.Array:
                labels = jnp.full(len(images), ANY_CLASS)
                return move(key, plan, densities, model, images, labels, num_steps)

            return refine

        return self.program(("refinement", num_steps), make)

    def about(self) -> dict[str, Any]:
        """Returns the length of long chains, and every sampler's step and temperature."""
        if self.plan is None:
            return {}
        found = {}
        for name, one in find_samplers(self.config).items():
            sampler = larger(one, self.step_factor)
            adapted = self.trained.adaptation.get(name)
            found[name] = {
                "temperature": temperature(sampler),
                "step_size": sampler.options.get("step_size")
                if adapted is None
                else float(np.exp(adapted.log_step_size)),
            }
        first = found[next(iter(found))]
        levels = {} if self.levels is None else {"noise_levels": self.levels._asdict()}
        return {
            **levels,
            "num_chain_steps": self.num_chain_steps,
            "step_factor": self.step_factor,
            "samplers": found,
            "temperature": first["temperature"],
        }


def _pick(logits: Any, labels: Any) -> Any:
    """Returns the column of each row's label; the only one of a single column."""
    if logits.shape[1] == 1:
        return logits[:, 0]
    return jnp.take_along_axis(jnp.asarray(logits), jnp.asarray(labels)[:, None], axis=1)[:, 0]
