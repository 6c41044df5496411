"""Carry, starts and ends of chains, for all models that learn from negative samples."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax._checks import check_at_least, check_positive
from ebmjax.learning._plan import ChainPlan, chain_start, positions_in, with_positions
from ebmjax.samplers import (
    ReplayBuffer,
    check_start_fn,
    replay_buffer_draw,
    replay_buffer_init,
    select_particles,
)
from ebmjax.training import write_slots
from ebmjax.types import Key, PyTree

View = Callable[[Key, jax.Array], jax.Array]
"""``view(key, images) -> images``: uint8 (N, H, W, C) to what the network sees, float32."""


class Carry(NamedTuple):
    """State that a logical shard keeps between steps.

    Attributes:
      buffer: its replay buffer, of positions, or of ``Chain`` rows where a kind of chain has a
        memory; () where every chain starts anew.
      statistics: running averages of batch normalisation.
      smoothing: scalar alpha, which divides the log density in sampler and loss.
      step: scalar int32, steps that were not skipped.
      adaptation: step sizes that adapt, by the name of their kind of chain.
    """

    buffer: Any = ()
    statistics: PyTree = ()
    smoothing: Any = 1.0
    step: Any = 0
    adaptation: Any = ()


def init_carry(
    key: Key,
    plan: ChainPlan | None,
    *,
    num_shards: int,
    buffer_size: int = 0,
    statistics: PyTree = (),
    smoothing: float = 1.0,
) -> Carry:
    """Returns the carry of every logical shard before the first step, for ``init_state``.

    Args:
      key: split among the shards.
      plan: how negatives are drawn; None for a model without any.
      num_shards: logical shards.
      buffer_size: slots of all shards; 0 for chains that start anew at every step.
      statistics: from ``Network.init``, the same for all shards.
      smoothing: positive.

    Returns:
      Each leaf with a leading axis of ``num_shards``.
    """
    check_at_least("num_shards", num_shards, 1)
    check_at_least("buffer_size", buffer_size, 0)
    check_positive("smoothing", smoothing)
    carry = Carry(
        statistics=statistics,
        smoothing=jnp.float32(smoothing),
        step=jnp.int32(0),
        adaptation={} if plan is None else plan.init_adaptation(),
    )
    carry = jax.tree.map(lambda leaf: jnp.stack([leaf] * num_shards), carry)
    if plan is None or not buffer_size:
        return carry
    size = buffer_size // num_shards
    if buffer_size % num_shards:
        raise ValueError(
            f"buffer_size must be a multiple of num_shards={num_shards}, got {buffer_size}."
        )
    if size < plan.num_samples:
        raise ValueError(
            f"buffer_size must hold the {plan.num_samples} negatives of each of {num_shards} "
            f"shards, at least {plan.num_samples * num_shards} slots; got {buffer_size}."
        )
    buffers = [
        replay_buffer_init(key, size, chain_start(plan), num_classes=plan.num_classes)
        for key in jax.random.split(key, num_shards)
    ]
    return carry._replace(buffer=jax.tree.map(lambda *leaves: jnp.stack(leaves), *buffers))


class Starts(NamedTuple):
    """Starts of the chains of a step.

    Attributes:
      positions: leading axis of ``ChainPlan.num_samples``; ``Chain`` rows from a buffer of them.
      labels: (num_samples,) int32, of the classes that chains belong to or were drawn from.
      slots: (num_samples,) int32, of the buffer; None where there is none.
      others: positions in other slots of the buffer, none of them a start; None if not asked for.
    """

    positions: PyTree
    labels: jax.Array
    slots: jax.Array | None = None
    others: PyTree = None


def draw_starts(
    keys: tuple[Key, Key, Key],
    plan: ChainPlan,
    buffer: Any,
    *,
    is_conditional: bool,
    num_others: int,
    shapes: PyTree,
) -> Starts:
    """Draws starts from the buffer, or from the plan's start distribution where there is no buffer.

    Args:
      keys: three, consumed by classes, by slots and new positions, and by ``plan.augment``.
      plan: how many, and from which start distribution.
      buffer: of this shard; () for none.
      is_conditional: whether each chain belongs to a class, drawn uniformly here. The buffer is
        then partitioned by class.
      num_others: slots beside those of the starts.
      shapes: those that a start must have.
    """
    label_key, draw_key, augment_key = keys
    if is_conditional and plan.replacement != "in_place":
        raise ValueError(
            f"replacement={plan.replacement!r} reorders samples, which would carry them into the "
            "slots of other classes; a conditional model takes 'in_place'."
        )
    check_start_fn(plan.start_fn, shapes)
    num, has_buffer = plan.num_samples, bool(jax.tree.leaves(buffer))
    if num_others and not has_buffer:
        raise ValueError("live chains need a replay buffer, whose images they keep from.")
    labels = None
    if is_conditional or not has_buffer:
        labels = jax.random.randint(label_key, (num + num_others,), 0, plan.num_classes)
    if not has_buffer:
        assert labels is not None
        return Starts(jax.vmap(plan.start_fn)(jax.random.split(draw_key, num), labels), labels)
    draw = replay_buffer_draw(
        draw_key,
        buffer,
        num + num_others,
        chain_start(plan),
        num_classes=plan.num_classes,
        reinit_prob=plan.reinit_prob,
        labels=labels,
    )
    chains, others = draw.positions, None
    if num_others:
        chains = jax.tree.map(lambda leaf: leaf[:num], chains)
        waiting = positions_in(buffer.positions)
        others = jax.tree.map(lambda leaf: leaf[draw.slots[num:]], waiting)
    if plan.augment is not None:
        positions = positions_in(chains)
        is_new = draw.is_new[:num].reshape((num,) + (1,) * (positions.ndim - 1))
        positions = jnp.where(is_new, positions, plan.augment(augment_key, positions))
        chains = with_positions(chains, positions)
    return Starts(chains, draw.labels[:num], draw.slots[:num], others)


def write_ends(
    key: Key, plan: ChainPlan, starts: Starts, ends: PyTree, log_densities: jax.Array
) -> Any:
    """Returns the buffer's ``SlotWrite``: chosen samples in the slots they were drawn from."""
    assert starts.slots is not None
    num = plan.num_kept or plan.num_samples
    kept = select_particles(key, ends, log_densities, num, policy=plan.replacement)
    return ReplayBuffer(write_slots(starts.slots[:num], kept))
