"""Chains of a trained model of images, by the plan that it was trained with."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax.learning import (
    ANY_CLASS,
    ChainPlan,
    Densities,
    DualAveraging,
    profile_chains,
    run_chains,
)
from ebmjax.recipes.evaluators import chain_profiles
from ebmjax.samplers import StartFn
from ebmjax.types import Key, Metrics

DensitiesOf = Callable[[Any], Densities]
"""``densities_of(model)``: what the chains of a trained model follow. The model is a PyTree with a
field ``adaptation``, the step sizes that adapted in training."""


def settled(adaptation: Mapping[str, DualAveraging]) -> dict[str, DualAveraging]:
    """The step sizes of the first shard, averaged over training; ``adaptation`` of all shards."""
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


def make_profile(
    key: Key, plan: ChainPlan, densities_of: DensitiesOf
) -> Callable[..., dict[str, np.ndarray]]:
    """Profile of chains, step by step.

    Returns:
      ``(model, starts, labels) -> arrays`` by the names of ``chain_profiles``: every sampler moves
      all the starts (N, H, W, C) of classes (N,).
    """

    @jax.jit
    def profile(model: Any, starts: jax.Array, labels: jax.Array) -> dict[str, Metrics]:
        kinds = plan.single(plan.num_samples).kinds_at(model.adaptation)
        return {
            name: profile_chains(key, densities_of(model), kind, starts, labels)
            for name, kind in kinds.items()
        }

    def profile_of(model: Any, starts: Any, labels: Any) -> dict[str, np.ndarray]:
        arrays = {}
        for name, found in profile(model, jnp.asarray(starts), jnp.asarray(labels)).items():
            arrays |= chain_profiles.named(name, found)
        return arrays

    return profile_of


def make_fresh_chains(
    plan: ChainPlan, densities_of: DensitiesOf, num_steps: int
) -> Callable[[Key, Any, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Chains as training draws them, but all from the start distribution and of another length.

    Args:
      plan: how training draws its negatives. Its start distribution must be a PyTree, as those of
        ``ebmjax.samplers`` are.
      densities_of: what chains follow.
      num_steps: of each chain.

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
            return starts, move(chain_key, plan, densities_of, model, starts, labels, num_steps)

        turns = jnp.arange(labels.size, dtype=jnp.int32).reshape(labels.shape) % plan.num_classes
        return jax.lax.map(one_group, (jax.random.split(key, len(labels)), labels, turns))

    def fresh_chains(key: Key, model: Any, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        starts, ends = run(key, model, plan.start_fn, jnp.asarray(labels))
        flat = [np.asarray(x).reshape(-1, *x.shape[2:]) for x in (starts, ends)]
        return flat[0], flat[1]

    return fresh_chains
