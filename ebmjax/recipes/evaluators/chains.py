"""Chains of a trained model of images, and slots of its replay buffer."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax._groups import map_groups
from ebmjax.evaluate import Chains
from ebmjax.learning import (
    ANY_CLASS,
    ChainPlan,
    Densities,
    DualAveraging,
    NoiseLevels,
    positions_in,
    run_chains,
)
from ebmjax.samplers import StartFn
from ebmjax.training import TrainState
from ebmjax.types import Key

STARTS_KEY_NUMBER = 2**31 + 1
"""Number folded into a monitor's key for the draws of the start distribution."""


def spread_slots(
    state: TrainState, num: int, num_classes: int = 1
) -> tuple[jax.Array, np.ndarray] | None:
    """Returns ``num`` positions of all shards' buffers, and their slots in a shard.

    They are evenly spaced slots of each class's block, the classes in turn. If the buffers hold
    fewer, all are returned; without a buffer, None.
    """
    if not jax.tree.leaves(state.carry.buffer):
        return None
    positions = positions_in(state.carry.buffer.positions)
    num_shards, size = positions.shape[:2]
    block = size // num_classes
    of_class = min(-(-num // num_classes), num_shards * block)
    # Takes a slot of every shard in turn, then the next slot.
    spaced = np.linspace(0, num_shards * block - 1, of_class).astype(int)
    turns, labels = np.divmod(np.arange(min(num, of_class * num_classes)), num_classes)
    slots, shards = np.divmod(spaced[turns], num_shards)
    slots += labels * block
    return positions[shards, slots], slots


def draw_buffer(key: Key, plan: ChainPlan | None, state: TrainState, num: int) -> Chains | None:
    """Returns slots of the buffers beside draws of what fills them; None without a buffer.

    A slot's draw is of its class: what it held before any chain moved.

    Args:
      key: of an evaluation.
      plan: how training draws its negatives.
      state: of training.
      num: of slots, as many of each class; fewer where the buffers hold fewer.
    """
    if plan is None or (shown := spread_slots(state, num, plan.num_classes)) is None:
        return None
    positions, slots = shown
    size = positions_in(state.carry.buffer.positions).shape[1]
    labels = (slots * plan.num_classes // size).astype(np.int32)
    keys = jax.random.split(jax.random.fold_in(key, STARTS_KEY_NUMBER), len(labels))
    draws = np.asarray(_draw(plan.start_fn, keys, jnp.asarray(labels)))
    return Chains(draws, np.asarray(positions), labels, are_the_same=False)


@jax.jit
def _draw(start_fn: StartFn, keys: Key, labels: jax.Array) -> jax.Array:
    return jax.vmap(start_fn)(keys, labels)


DensitiesOf = Callable[[Any], Densities]
"""``densities_of(model)``: what the chains of a trained model follow. The model is a PyTree with a
field ``adaptation``, the step sizes that adapted in training."""


def average_step_sizes(adaptation: Mapping[str, DualAveraging]) -> dict[str, DualAveraging]:
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
