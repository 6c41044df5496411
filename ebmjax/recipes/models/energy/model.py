"""A trained density, with labels or without: its logits, its chains, what evaluators ask of it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
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
    Densities,
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
from ebmjax.recipes.models.build import ImageModel
from ebmjax.recipes.models.energy.checks import find_samplers
from ebmjax.recipes.models.energy.parts import chain_plan
from ebmjax.recipes.parts.points_data import Truth
from ebmjax.recipes.parts.samplers import temperature
from ebmjax.samplers import StartFn
from ebmjax.training import TrainState
from ebmjax.types import Key, PyTree

LONG, FAR_PIXELS = 10, 32**2
"""Default length of an evaluation's chain, in lengths of a training step's, for images of at most
so many pixels. Chains of larger images are longer in proportion."""

DensitiesOf = Callable[[Any], Densities]
"""``densities_of(trained)``: what the chains of a trained model follow."""


class Trained(NamedTuple):
    """Parts of a run's state that are used.

    Attributes:
      params: of the network, averaged over training where ``optimizer.average_decay`` says so.
      statistics: running averages of batch normalisation, the mean of the shards'.
      smoothing: the mean of the shards'; 1 without labels.
      adaptation: of the first shard, at the averaged step sizes.
      beta: the share of the log density that chains lack under the robust objective.
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

    adaptation = jax.tree.map(lambda leaf: leaf[0], dict(state.carry.adaptation))
    return Trained(
        averaged_parameters(state.opt_state) if is_averaged else state.params,
        jax.tree.map(average, state.carry.statistics),
        jnp.mean(jnp.asarray(state.carry.smoothing)),
        {name: s._replace(log_step_size=s.log_average) for name, s in adaptation.items()},
        jnp.float32(beta),
    )


def densities_of(network: EnergyNetwork | JointNetwork) -> DensitiesOf:
    """Returns the densities of chains, scaled as in training; log p(x) for ``ANY_CLASS``."""
    if isinstance(network, JointNetwork):
        network = network._replace(is_conditional=True)
    return lambda trained: network.densities(trained.params, trained.statistics, trained.scale)


def move(
    key: Key,
    plan: ChainPlan,
    densities_of: DensitiesOf,
    trained: Trained,
    starts: jax.Array,
    labels: jax.Array,
    num_steps: int,
) -> jax.Array:
    """Moves ``starts`` (N, H, W, C) of classes (N,) by ``num_steps`` of the plan's samplers."""
    single = plan.single(len(labels), num_steps)
    return run_chains(key, densities_of(trained), single, starts, labels, trained.adaptation)[0]


@dataclass(frozen=True, kw_only=True, eq=False)
class EnergyModel(ImageModel):
    """A density of images or points, that may be a classifier too.

    Attributes:
      plan: how training draws its negatives; None without chains.
      densities_of: what chains of ``trained`` follow.
      network: as training sees it.
      logits_fn: parameters, statistics and x (N, *shape) to log densities (N, classes).
      beta_of: function of a state, see ``Trained.beta``.
      levels: of a density of (x, noise), through which fresh chains are annealed; else None.
      truth: knowledge of the law of points; None for images.
      output_scale: factor of the robust objective on the log density of points; else 1.
    """

    plan: ChainPlan | None
    densities_of: DensitiesOf
    network: EnergyNetwork | JointNetwork
    logits_fn: Callable[[PyTree, PyTree, jax.Array], jax.Array]
    beta_of: Callable[[TrainState], Any] = lambda state: 0.0
    levels: NoiseLevels | None = None
    truth: Truth | None = None
    output_scale: float = 1.0

    def extract_trained(self, state: TrainState) -> Trained:
        """Returns ``extract_trained`` as the configuration says."""
        is_averaged = self.config.optimizer.average_decay > 0
        return extract_trained(state, is_averaged=is_averaged, beta=self.beta_of(state))

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

    def logits_of(self, trained: Trained, x: jax.Array) -> jax.Array:
        """Returns log densities (N, classes) of x (N, *shape): the network's and its base's."""
        logits = self.output_scale * self.logits_fn(trained.params, trained.statistics, x)
        if self.plan is None or self.plan.log_base is None:
            return logits
        return logits + self.plan.log_base(x)[..., None] / trained.scale

    def class_log_densities(self, trained: Trained, x: jax.Array) -> jax.Array:
        """Returns the log density (classes,) of one image or point, by its class."""
        return self.logits_of(trained, x[None])[0]

    @property
    def logits(self) -> Partial:
        """Function of images (N, H, W, C) in [-1, 1] to logits (N, classes)."""
        return Partial(self.logits_of, self.trained)

    def logits_at(self, images: Any) -> np.ndarray:
        """Returns logits (N, classes) of uint8 images, or of floats in [-1, 1], or of points."""

        @jax.jit
        def logits(trained: Trained, images: jax.Array) -> jax.Array:
            one = partial(self.class_log_densities, trained)
            return map_groups(one, images, min(self.config.evals.batch_size, len(images)))

        images = jnp.asarray(images)
        images = to_signed_unit(images) if images.dtype == jnp.uint8 else images
        return np.asarray(self.program("logits", lambda: logits)(self.trained, images))

    def log_densities(self, points: Any) -> np.ndarray:
        """Returns the log densities (N,) of images or points, up to a constant."""
        return np.asarray(jax.nn.logsumexp(self.logits_at(points), axis=1))

    def energies(self, images: Any, labels: Any) -> np.ndarray:
        """Returns energies (N,) of images; those of their labels, if it is of E(x, y)."""
        return np.asarray(self._pick(self.logits_at(images), labels))

    def apply(self, params: PyTree, images: jax.Array, labels: Any = None) -> jax.Array:
        """Returns logits (N, classes) of images (N, H, W, C) in [-1, 1]; energies without labels.

        Those of a conditional energy take ``labels`` (N,).
        """
        logits = self.logits_of(self.trained._replace(params=params), images)
        if self.has_labels:
            return logits
        if labels is None and logits.shape[1] > 1:
            raise ValueError("labels must be given to a conditional energy, got None.")
        return self._pick(logits, labels)

    def _pick(self, logits: Any, labels: Any) -> Any:
        """Returns the network's energies (N,) of the labels; of the only class if there is one."""
        labels = np.zeros(len(logits), int) if logits.shape[1] == 1 else jnp.asarray(labels)
        found = jnp.take_along_axis(jnp.asarray(logits), labels[:, None], axis=1)[:, 0]
        return -found / self.output_scale

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

    def sample(self, key: Key, num: int, num_steps: int | None = None) -> dict[str, np.ndarray]:
        """Returns ``Chains.images`` of fresh chains; "labels" of a conditional energy; or "points".

        In the plane, points are independent draws of the learned density on the grid of
        ``evals.density``. With ``num_steps``, or in another space, they are the ends of chains.
        """
        steps = num_steps or self.num_chain_steps
        if self.truth is None:
            found = self.fresh_chains(key, num, steps).drop_diverged()
            has_class = self.config.model.is_conditional and not self.has_labels
            labels = {"labels": found.labels} if has_class else {}
            return {**found.images(), **labels}
        if num_steps is None and self.train.images.shape[1] == 2:
            grid = grid_of(self.config)
            return {"points": grid_draws(key, learned_on_grid(self), grid, num)}
        ends = self.fresh_chains(key, num, steps, beta=0.0).ends
        return {"points": ends[np.isfinite(ends).all(axis=1)]}

    def fresh_chains(
        self, key: Key, num: int, num_steps: int, *, of_class: bool = False, beta: Any = None
    ) -> Chains:
        """Returns ``num`` chains of training's samplers, which start in the classes in turn.

        Args:
          key: of the starts and moves.
          num: of chains.
          num_steps: of each chain.
          of_class: whether a classifier's chains follow the class that they start in, and not p(x).
          beta: the share of the log density that they lack; None for training's.

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
        num_classes = self.config.data.num_classes if of_class else plan.num_classes
        turns = np.arange(num_groups * size, dtype=np.int32) % num_classes
        is_any = self.has_labels and not of_class
        labels = np.full_like(turns, ANY_CLASS) if is_any else turns
        trained = self.trained if beta is None else self.trained._replace(beta=jnp.float32(beta))
        make = partial(make_fresh_chains, plan, self.densities_of, num_steps, self.levels)
        run = self.program(("fresh", num_steps), make)
        say_part(f"{num:,} chains of {num_steps:,} steps")
        starts, ends = run(key, trained, plan.start_fn, labels.reshape(num_groups, size))
        # Drops the last group's surplus: distances of different counts do not compare.
        return Chains(np.asarray(starts)[:num], np.asarray(ends)[:num], turns[:num])

    def refinement(self, num_steps: int) -> Callable[[Trained, Key, jax.Array], jax.Array]:
        """Returns the function that moves attacked images by chains, each image by itself.

        A classifier alone refines images by the chains that its configuration names.
        """

        def make() -> Any:
            plan = self.plan or chain_plan(self.config, self.train)
            densities = densities_of(self.network._replace(policy=NormPolicy(chains="running")))

            def refine(trained: Trained, key: Key, images: jax.Array) -> jax.Array:
                labels = jnp.full(len(images), ANY_CLASS)
                return move(key, plan, densities, trained, images, labels, num_steps)

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
        levels = {} if self.levels is None else {"noise_levels": self.levels._asdict()}
        return {
            **levels,
            "num_chain_steps": self.num_chain_steps,
            "samplers": found,
            "temperature": next(iter(found.values()))["temperature"],
        }


def make_fresh_chains(
    plan: ChainPlan, densities_of: DensitiesOf, num_steps: int, levels: NoiseLevels | None = None
) -> Callable[[Key, Trained, StartFn, Any], tuple[jax.Array, jax.Array]]:
    """Returns the program of ``EnergyModel.fresh_chains``, of labels (groups, size).

    The groups run one after the other, and each sampler moves an equal part of each.
    """

    @jax.jit
    def run(key: Key, trained: Trained, start_fn: StartFn, labels: jax.Array) -> Any:
        # The start distribution is an argument, so that its constants stay out of the program.
        def one_group(group: tuple[Key, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            key, labels, turns = group
            start_key, chain_key = jax.random.split(key)
            keys = jax.random.split(start_key, len(labels))
            starts = jax.vmap(start_fn)(keys, jnp.where(labels == ANY_CLASS, turns, labels))
            if levels is None:
                ends = move(chain_key, plan, densities_of, trained, starts, labels, num_steps)
                return starts, ends
            starts, density = levels.draw_like(start_key, starts), densities_of(trained)
            anneal = levels.anneal
            keys = jax.random.split(chain_key, len(labels))
            return starts, jax.vmap(
                lambda key, start, label: anneal(key, start, density(label), num_steps)
            )(keys, starts, labels)

        turns = jnp.arange(labels.size, dtype=jnp.int32).reshape(labels.shape) % plan.num_classes
        found = map_groups(one_group, (jax.random.split(key, len(labels)), labels, turns))
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), found)

    return run
