"""A trained image energy and chains of it from the initial law."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax.learning import (
    DualAveraging,
    Energy,
    EnergyOf,
    ImageNegatives,
    class_densities,
    profile_chains,
    run_kinds,
)
from ebmjax.optim import averaged_parameters
from ebmjax.recipes.images import chain_profiles
from ebmjax.recipes.images.distances import Chains
from ebmjax.training import TrainState
from ebmjax.types import Key, Metrics, PyTree


class Trained(NamedTuple):
    """Parts of a run's state that are used.

    Attributes:
      params: averaged over training.
      adaptation: of the first shard, at the averaged step sizes.
    """

    params: PyTree
    adaptation: dict[str, DualAveraging]


def trained(state: TrainState) -> Trained:
    """The trained model of ``state``."""
    first = jax.tree.map(lambda leaf: leaf[0], state.shards.adaptation)
    settled = {name: s._replace(log_step_size=s.log_average) for name, s in first.items()}
    return Trained(averaged_parameters(state.opt_state), settled)


def with_larger_steps(model: Trained, factor: float) -> Trained:
    """``model`` with the step sizes that adapted times ``factor``."""
    larger = {
        name: s._replace(log_step_size=s.log_step_size + math.log(factor))
        for name, s in model.adaptation.items()
    }
    return model._replace(adaptation=larger)


def make_profile(
    key: Key, energy_of: EnergyOf, negatives: ImageNegatives
) -> Callable[..., dict[str, np.ndarray]]:
    """Profile of chains, step by step.

    Returns:
      ``(model, beta, starts, labels) -> arrays`` by the names of ``chain_profiles``: every sampler
      moves all the starts (N, H, W, C) of classes (N,).
    """

    @jax.jit
    def profile(
        model: Trained, beta: jax.Array, starts: jax.Array, labels: jax.Array
    ) -> dict[str, Metrics]:
        densities = class_densities(energy_of(model.params), beta)
        found = {}
        for name in negatives.kinds:
            chains = negatives.of_kind(name, model.adaptation, len(starts))
            found[name] = profile_chains(key, densities, chains, starts, labels)
        return found

    def profile_of(*given: Any) -> dict[str, np.ndarray]:
        arrays = {}
        for name, found in profile(*given).items():
            arrays |= chain_profiles.named(name, found)
        return arrays

    return profile_of


def energies_in_batches(
    energy: Energy, images: jax.Array, labels: jax.Array, batch_size: int
) -> jax.Array:
    """(N,): of (N, H, W, C) images, at most ``batch_size`` at a time."""
    size = min(batch_size, len(images))
    return jax.lax.map(lambda pair: energy(*pair), (images, labels), batch_size=size)


def make_fresh_chains(
    energy_of: EnergyOf, negatives: ImageNegatives, *, num: int, num_steps: int, batch_size: int
) -> Callable[..., Chains]:
    """Chains as training draws them, but all from the initial law and of another length.

    Args:
      energy_of: parameters to energy.
      negatives: how training draws its negatives.
      num: of chains, the classes in turn; samplers get equal parts of every group of chains that
        run together, but for chains too many in the last.
      num_steps: of each chain.
      batch_size: of chains that run at the same time, or by a few more, one for each sampler.

    Returns:
      ``(key, model, beta) -> Chains`` for a ``Trained`` model, which follow
      ``learning.class_densities``.
    """
    num_kinds = len(negatives.kinds)
    # Groups of nearly equal size: of one that is cut off only some of its samplers' chains count.
    size = -(-num // (-(-num // batch_size) * num_kinds)) * num_kinds
    num_groups = -(-num // size)
    kinds = {
        name: dataclasses.replace(kind, num_steps=num_steps)
        for name, kind in negatives.kinds.items()
    }
    negatives = dataclasses.replace(negatives, kinds=kinds, num_samples=size)
    labels = np.arange(num_groups * size, dtype=np.int32) % negatives.num_classes
    by_group = jnp.asarray(labels.reshape(num_groups, size))

    @jax.jit
    def run(keys: Key, model: Trained, beta: jax.Array) -> tuple[jax.Array, jax.Array]:
        densities = class_densities(energy_of(model.params), beta)

        def group(keyed: tuple[Key, jax.Array]) -> tuple[jax.Array, jax.Array]:
            start_key, chain_key = jax.random.split(keyed[0])
            starts = jax.vmap(negatives.law)(jax.random.split(start_key, size), keyed[1])
            ends, _, _ = run_kinds(
                chain_key,
                densities,
                negatives,
                starts,
                keyed[1],
                model.adaptation,
            )
            return starts, ends

        return jax.lax.map(group, (keys, by_group))

    def fresh_chains(key: Key, model: Trained, beta: jax.Array) -> Chains:
        starts, ends = (
            np.asarray(x).reshape(-1, *x.shape[2:])[:num]
            for x in run(jax.random.split(key, num_groups), model, beta)
        )
        return Chains(starts, ends, labels[:num])

    return fresh_chains
