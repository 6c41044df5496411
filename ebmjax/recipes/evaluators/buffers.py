"""Shows a replay buffer, and draws from the start distribution that fills it."""

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax.evaluate import Chains
from ebmjax.learning import ChainPlan, positions_in
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
    if not jax.tree.leaves(state.shards.buffer):
        return None
    positions = positions_in(state.shards.buffer.positions)
    num_shards, size = positions.shape[:2]
    block = size // num_classes
    of_class = min(-(-num // num_classes), num_shards * block)
    # Takes a slot of every shard in turn, then the next slot.
    spaced = np.linspace(0, num_shards * block - 1, of_class).astype(int)
    turns, labels = np.divmod(np.arange(min(num, of_class * num_classes)), num_classes)
    slots, shards = np.divmod(spaced[turns], num_shards)
    slots += labels * block
    return positions[shards, slots], slots


def buffered(key: Key, plan: ChainPlan | None, state: TrainState, num: int) -> Chains | None:
    """Returns slots of the buffers beside draws of what fills them; None without a buffer.

    Args:
      key: of an evaluation.
      plan: how training draws its negatives.
      state: of training.
      num: of slots, as many of each class; fewer where the buffers hold fewer.
    """
    shown = spread_slots(state, num, plan.num_classes) if plan is not None else None
    if shown is None or plan is None:
        return None
    positions, slots = shown
    size = positions_in(state.shards.buffer.positions).shape[1]
    num_classes = plan.num_classes
    key = jax.random.fold_in(key, STARTS_KEY_NUMBER)
    draws = draws_for_slots(key, plan.start_fn, slots, size=size, num_classes=num_classes)
    labels = (slots * num_classes // size).astype(np.int32)
    return Chains(draws, np.asarray(positions), labels, are_the_same=False)


def draws_for_slots(
    key: Key, start_fn: StartFn, slots: np.ndarray, *, size: int, num_classes: int
) -> np.ndarray:
    """Returns fresh draws of ``start_fn``, one for each slot: its content before any chain moved.

    Args:
      key: split among the slots.
      start_fn: the start distribution that fills the buffer.
      slots: (N,), slots in a shard's buffer.
      size: slots of a shard's buffer, which has equal blocks of the classes.
      num_classes: number of classes of the start distribution.
    """
    labels = jnp.asarray(np.asarray(slots) * num_classes // size, jnp.int32)
    return np.asarray(_draw(start_fn, jax.random.split(key, len(labels)), labels))


@jax.jit
def _draw(start_fn: StartFn, keys: Key, labels: jax.Array) -> jax.Array:
    return jax.vmap(start_fn)(keys, labels)
