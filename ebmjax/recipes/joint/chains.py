"""Chains of a trained joint energy model, by the sampler that it was trained with."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import losses
from ebmjax.learning import CHAIN_AXIS, ChainDensity, Negatives, profile_chains, run_chains
from ebmjax.networks import Classifier, NormPolicy
from ebmjax.recipes.core.fields import Config
from ebmjax.recipes.images import chain_profiles
from ebmjax.recipes.images.buffers import spread_slots
from ebmjax.samplers import InitialLaw
from ebmjax.training import TrainState
from ebmjax.types import Key, Metrics, PyTree

ANY_CLASS = -1
"""The label of a chain that follows log p(x) instead of a class's logit."""


class Trained(NamedTuple):
    """Parts of a run's state that are used.

    Attributes:
      params: of the network.
      statistics: running averages of batch normalisation, the mean of the shards'.
      smoothing: scalar, the mean of the shards'.
    """

    params: PyTree
    statistics: PyTree
    smoothing: jax.Array


def trained(state: TrainState) -> Trained:
    """The trained model of ``state``."""
    smoothing = jnp.mean(jnp.asarray(state.shards.smoothing))
    return Trained(state.params, averaged_statistics(state), smoothing)


def averaged_statistics(state: TrainState) -> PyTree:
    """The running statistics of all shards, averaged: those a trained model is used with."""
    return jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), state.shards.statistics)


def chain_density(
    classifier: Classifier, density_scale: Any, model: Trained, label: jax.Array
) -> ChainDensity:
    """Density that a chain of class ``label`` follows: its logit, or log p(x) for ``ANY_CLASS``.

    Scaled as in training, which the step size was chosen for.
    """
    scale = density_scale / model.smoothing

    def finish(logits: jax.Array) -> jax.Array:
        of_class = losses.class_log_density(logits, jnp.maximum(label, 0))
        return scale * jnp.where(label < 0, losses.joint_log_density(logits), of_class)

    def log_density(x: jax.Array) -> jax.Array:
        return finish(classifier.logits(model.params, model.statistics, x)[0])

    first_layer, head = classifier.first_layer, classifier.head
    if first_layer is None or head is None:
        return ChainDensity(log_density, None, None)
    return ChainDensity(
        log_density,
        partial(first_layer, model.params),
        lambda hidden: finish(head(model.params, model.statistics, hidden)[0]),
    )


def as_in_training(classifier: Classifier, policy: NormPolicy) -> Classifier:
    """``classifier`` normalised by what training's chains are: their batch, or running averages."""
    if policy.chains == "running":
        return classifier
    options: Any = {"use": "batch", "batch_axis": CHAIN_AXIS}
    head = classifier.head and partial(classifier.head, **options)
    return classifier._replace(logits=partial(classifier.logits, **options), head=head)


def move(
    key: Key,
    classifier: Classifier,
    negatives: Negatives,
    model: Trained,
    starts: jax.Array,
    labels: jax.Array,
    num_steps: int,
) -> jax.Array:
    """Moves ``starts`` (N, H, W, C) by ``num_steps`` of the run's sampler.

    Interacting particles have no class: ``labels`` (N,) are ignored.
    """
    moved = dataclasses.replace(negatives, num_steps=num_steps, axis_name=None)
    return run_chains(key, densities(classifier, negatives, model), moved, starts, labels)[0]


def densities(
    classifier: Classifier, negatives: Negatives, model: Trained
) -> Callable[[jax.Array], ChainDensity]:
    """Label to what its chain follows; interacting particles have no class."""

    def density(label: jax.Array) -> ChainDensity:
        label = jnp.int32(ANY_CLASS) if negatives.is_interacting else label
        return chain_density(classifier, negatives.density_scale, model, label)

    return density


def make_profile(
    key: Key, classifier: Classifier, negatives: Negatives | None, config: Config
) -> chain_profiles.Profile:
    """Profile of the run's chains from slots of the buffer, step by step.

    ``config.eval.num_profiled`` of them, or as many particles as interact in training; of their
    slot's class where training's are.
    """

    @jax.jit
    def profile(model: Trained, starts: jax.Array, labels: jax.Array) -> Metrics:
        assert negatives is not None  # there is a buffer
        single = dataclasses.replace(negatives, axis_name=None)
        density = densities(classifier, negatives, model)
        return profile_chains(key, density, single, starts, labels)

    def profile_of(state: TrainState) -> dict[str, np.ndarray]:
        num = config.eval.num_profiled
        if not num:
            return {}
        if negatives is not None and negatives.is_interacting:
            num = config.sampler.num_samples
        spread = spread_slots(state, num)
        if spread is None:
            return {}
        starts, slots = spread
        labels = np.full(len(slots), ANY_CLASS, np.int32)
        if config.loss.is_conditional:
            size = state.shards.buffer.positions.shape[1]
            labels = (slots * config.data.num_classes // size).astype(np.int32)
        found = profile(trained(state), starts, jnp.asarray(labels))
        return chain_profiles.named(config.sampler.name, found)

    return profile_of


def fresh_chains(
    key: Key,
    classifier: Classifier,
    negatives: Negatives,
    model: Trained,
    law: InitialLaw,
    labels: jax.Array,
    *,
    num_classes: int,
    num_steps: int,
) -> tuple[jax.Array, jax.Array]:
    """Starts and ends of chains from the initial law, one group after the other.

    Args:
      key: consumed.
      classifier: of the chains.
      negatives: of the run.
      model: the trained one.
      law: that of ``negatives``; apart, so that ``jit`` can take its large constants as arguments.
      labels: (groups, size) int32; ``ANY_CLASS`` starts by the law of a random class.
      num_classes: of the data.
      num_steps: of each chain.

    Returns:
      Each (groups, size, H, W, C).
    """

    def one_group(keyed_labels: tuple[Key, jax.Array]) -> tuple[jax.Array, jax.Array]:
        key, labels = keyed_labels
        class_key, start_key, chain_key = jax.random.split(key, 3)
        random = jax.random.randint(class_key, labels.shape, 0, num_classes, jnp.int32)
        keys = jax.random.split(start_key, len(labels))
        starts = jax.vmap(law)(keys, jnp.where(labels < 0, random, labels))
        ends = move(chain_key, classifier, negatives, model, starts, labels, num_steps)
        return starts, ends

    return jax.lax.map(one_group, (jax.random.split(key, len(labels)), labels))
