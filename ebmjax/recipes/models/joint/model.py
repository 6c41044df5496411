"""A trained joint energy model: its logits, its chains, and what evaluators ask of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from ebmjax import evaluate, losses
from ebmjax._groups import map_groups
from ebmjax._phases import say_part
from ebmjax.evaluate import Chains, finite_images
from ebmjax.learning import ANY_CLASS, ChainPlan, DualAveraging, JointNetwork, NoiseLevels
from ebmjax.networks import NormPolicy
from ebmjax.optim import averaged_parameters
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.evaluators.chains import (
    DensitiesOf,
    average_step_sizes,
    make_fresh_chains,
    move,
)
from ebmjax.recipes.evaluators.image_model import ImageModel, images_of
from ebmjax.recipes.evaluators.robustness import Refine
from ebmjax.recipes.models.joint.parts import sampler
from ebmjax.recipes.parts.samplers import implied_temperature
from ebmjax.training import TrainState
from ebmjax.types import Key, LogDensityFn, PyTree


class TrainedJoint(NamedTuple):
    """Parts of a run's state that are used.

    Attributes:
      params: of the network, averaged over training where ``optimizer.average_decay`` says so.
      statistics: running averages of batch normalisation, the mean of the shards'.
      smoothing: scalar, the mean of the shards'.
      adaptation: of the first shard, at the averaged step sizes.
    """

    params: PyTree
    statistics: PyTree
    smoothing: jax.Array
    adaptation: dict[str, DualAveraging]


def extract_trained(state: TrainState, is_averaged: bool = False) -> TrainedJoint:
    """Returns the trained model of ``state``, with the averaged parameters if they are kept."""
    carry = state.carry
    smoothing = jnp.mean(jnp.asarray(carry.smoothing))
    params = averaged_parameters(state.opt_state) if is_averaged else state.params
    return TrainedJoint(
        params, average_statistics(state), smoothing, average_step_sizes(carry.adaptation)
    )


def average_statistics(state: TrainState) -> PyTree:
    """Returns the running statistics that a trained model is used with, means over the shards.

    Counters and flags of a user's network are the first shard's: they are equal on all shards.
    """

    def averaged(leaf: Any) -> jax.Array:
        is_number = jnp.issubdtype(jnp.result_type(leaf), jnp.inexact)
        return jnp.mean(leaf, axis=0) if is_number else jnp.asarray(leaf)[0]

    return jax.tree.map(averaged, state.carry.statistics)


def densities_of(network: JointNetwork, density_scale: Any) -> DensitiesOf:
    """Returns the densities of chains: the logit of their class, or log p(x) for ``ANY_CLASS``.

    Scaled as in training, which the step size was chosen for.

    Args:
      network: whose policy says what the chains' images are normalised by.
      density_scale: of the objective.
    """
    network = network._replace(is_conditional=True)
    return lambda model: network.densities(
        model.params, model.statistics, density_scale / model.smoothing
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class JointModel(ImageModel):
    """A joint energy model, a classifier that is an energy.

    Attributes:
      network: the classifier, the network of its chains, and what these are normalised by.
      density_scale: factor of the log density that chains follow.
      refining: plan whose sampler refines attacked images; None if none does.
      logits_of: function of ``TrainedJoint`` and images (N, H, W, C) in [-1, 1] to the classifier's
        logits, all plus the log density that the sampler adds (``ChainPlan.log_base``).
      levels: noise levels of a network that takes them; fresh chains are annealed through them.
    """

    network: JointNetwork
    density_scale: float
    refining: ChainPlan | None
    logits_of: Callable[[TrainedJoint, jax.Array], jax.Array]
    levels: NoiseLevels | None = None

    def extract_trained(self, state: TrainState) -> TrainedJoint:
        """Returns the trained parts of ``state``."""
        return extract_trained(state, self.config.optimizer.average_decay > 0)

    @property
    def logits(self) -> Partial:
        """Function of images (N, H, W, C) in [-1, 1] to logits (N, classes)."""
        return Partial(self.logits_of, self.trained)

    def apply(self, params: PyTree, images: jax.Array) -> jax.Array:
        """Returns logits (N, classes) of images (N, H, W, C) in [-1, 1]."""
        return self.logits_of(self.trained._replace(params=params), images)

    def class_log_densities(self, trained: TrainedJoint, x: jax.Array) -> jax.Array:
        """Returns the log density (classes,) of one image (H, W, C) in [-1, 1] by its class."""
        return self.logits_of(trained, x[None])[0]

    def chain_scale(self, trained: TrainedJoint) -> Any:
        """Returns the factor by which chains follow the log density."""
        return self.density_scale / trained.smoothing

    def any_class_density(self, trained: TrainedJoint) -> LogDensityFn:
        """Returns what chains of no class follow."""
        return self.densities_of(trained)(jnp.int32(ANY_CLASS))

    def scores(self, images: Any) -> dict[str, np.ndarray]:
        """Returns logits and the three scores of images, see ``evaluate.scores``."""
        return evaluate.scores(self.logits, images, batch_size=self.config.evals.batch_size)

    def score(self, images: np.ndarray) -> dict[str, np.ndarray]:
        """Returns "class_probability" (N, classes), and scores that tell other data (N,)."""
        scores = self.scores(images)
        probabilities = np.asarray(jax.nn.softmax(scores.pop("logits")))
        return {"class_probability": probabilities, **scores}

    def sample(self, key: Key, num: int, num_steps: int | None = None) -> dict[str, np.ndarray]:
        """Returns ``images_of``, of any class, of fresh chains of the run's sampler."""
        found = self.fresh_chains(key, num, num_steps or self.num_chain_steps)["fresh"]
        return images_of(found)

    def refinement(self, num_steps: int) -> Refine:
        """Returns the function that moves attacked images by chains.

        Each image is refined by itself, whatever normalises training's chains.
        """

        def make() -> Refine:
            plan = self.refining
            assert plan is not None
            alone = self.network._replace(policy=NormPolicy(chains="running"))
            densities = densities_of(alone, self.density_scale)

            def refine(model: TrainedJoint, key: Key, images: jax.Array) -> jax.Array:
                labels = jnp.full(len(images), ANY_CLASS)
                return move(key, plan, densities, model, images, labels, num_steps)

            return refine

        return self.program(("refinement", num_steps), make)

    def sample_row(self, chains: Chains) -> dict[str, float]:
        """Returns the mean log density of the buffer, or of fresh chains."""

        def make() -> Any:
            size = self.config.evals.batch_size

            @jax.jit
            def mean(trained: TrainedJoint, images: jax.Array) -> jax.Array:
                logits = map_groups(
                    lambda image: self.logits_of(trained, image), images, min(size, len(images))
                )
                return jnp.mean(losses.joint_log_density(logits))

            return mean

        mean = self.program("mean log density", make)
        name = "sample" if chains.are_the_same else "buffer"
        return {f"{name}_log_density": mean(self.trained, jnp.asarray(chains.ends))}

    def samples(self, key: Key, num: int) -> Chains | None:
        """Returns the buffer's slots, or without one fresh chains of any class."""
        chains, steps = self.buffer(key, num), self.config.sampler.num_steps
        if chains is not None or self.plan is None:
            return chains
        return self.fresh_chains(key, num, steps)["fresh"]

    def classes_of(self, chains: Chains) -> Any:
        """Returns the classes that chains follow, or else the most probable ones."""
        if self.config.loss.is_conditional:
            return chains.labels
        logits = self.program("logits", lambda: jax.jit(self.logits_of))
        return np.asarray(logits(self.trained, jnp.asarray(chains.ends))).argmax(axis=1)

    def draw_sets(self, key: Key, num: int) -> dict[str, Chains]:
        """Returns fresh chains and the buffer."""
        chain_key, start_key = jax.random.split(jax.random.split(key, 3)[1])
        sets = self.fresh_chains(chain_key, num, self.num_chain_steps)
        buffer = self.buffer(start_key, num)
        return sets if buffer is None else sets | {"buffer": buffer}

    def fresh_chains(self, key: Key, num: int, num_steps: int) -> dict[str, Chains]:
        """Returns ``num`` chains of any class and of the classes (not for particles).

        Both start in the classes in turn.

        Raises:
          ConfigError: for a classifier alone.
        """
        if self.plan is None:
            raise ConfigError(
                "config.loss.generative_weight=0 trains a classifier alone, which has no chains "
                "to sample with."
            )
        plan, levels, size = self.plan, self.levels, min(self.config.evals.batch_size, num)
        if plan.is_interacting:  # as many particles as in training
            size = self.config.sampler.num_samples
        run = self.program(
            ("fresh", num_steps),
            lambda: make_fresh_chains(plan, self.densities_of, num_steps, levels),
        )
        any_class = np.full((-(-num // size), size), ANY_CLASS, np.int32)
        turns = np.arange(any_class.size, dtype=np.int32)
        of_class = (turns % self.config.data.num_classes).reshape(any_class.shape)
        labels = any_class if plan.is_interacting else np.concatenate([any_class, of_class])
        say_part(f"{labels.size:,} chains of {num_steps:,} steps")
        starts, ends = run(key, self.trained, labels)
        # Drops the last group's surplus: distances of different counts do not compare.
        chains = {"fresh": Chains(starts[:num], ends[:num], turns[:num] % plan.num_classes)}
        if not plan.is_interacting:
            place = slice(turns.size, turns.size + num)
            chains["conditional"] = Chains(starts[place], ends[place], of_class.ravel()[:num])
        return chains

    def describe_chains(self) -> dict[str, Any]:
        """Returns the sampler, its temperature and the length of fresh chains, or noise levels."""
        levels = {} if self.levels is None else {"noise_levels": self.levels._asdict()}
        return {
            **levels,
            "sampler": self.config.sampler.name,
            "implied_temperature": implied_temperature(sampler(self.config)),
            "num_chain_steps": self.num_chain_steps,
        }

    def score_samples(self, name: str, chains: Chains) -> tuple[dict[str, float], dict[str, Any]]:
        """Returns mean scores of the samples that did not diverge; and these and their starts.

        Samples whose chains had no class get their most probable one.
        """
        has_class = name == "conditional" or (name == "buffer" and self.config.loss.is_conditional)
        starts, ends, labels, _ = chains
        is_finite = np.isfinite(ends).all(axis=(1, 2, 3))
        ends = ends[is_finite]
        if len(ends) < 2:
            return {}, {"images": np.zeros((0, *ends.shape[1:]), np.uint8)}
        scores = self.scores(ends)
        probabilities = np.asarray(jax.nn.softmax(scores["logits"]))
        classes = labels[is_finite] if has_class else probabilities.argmax(axis=1)
        samples = {
            "images": finite_images(ends),
            "start_images": finite_images(starts[is_finite]),
            "log_density": scores["log_density"],
            "labels": classes,
            "class_probability": probabilities[np.arange(len(classes)), classes],
        }
        means = {
            "mean_class_probability": float(np.mean(samples["class_probability"])),
            "mean_log_density": float(np.mean(scores["log_density"])),
        }
        return means, samples

    def profile_starts(self, key: Key, num: int) -> tuple[Any, Any] | None:
        """Returns slots of the buffer, with a class if training's chains have one.

        Particles come in the number of training's.
        """
        assert self.plan is not None
        num = self.config.sampler.num_samples if self.plan.is_interacting else num
        found = super().profile_starts(key, num)
        if found is None or self.config.loss.is_conditional:
            return found
        return found[0], np.full(len(found[1]), ANY_CLASS, np.int32)
