"""Pictures of a replay buffer, and draws of the law that it is filled from."""

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax.samplers import InitialLaw
from ebmjax.training import TrainState
from ebmjax.types import Key

STARTS_KEY_NUMBER = 2**31 + 1
"""Number folded into a monitor's key for the draws of the start distribution."""


def spread_slots(state: TrainState, num: int) -> tuple[jax.Array, np.ndarray] | None:
    """``num`` positions, evenly spaced, of all shards' buffers, and their slots in a shard.

    Evenly, since a buffer may hold its classes in blocks. All of the buffers, if they hold fewer;
    None where there is no buffer.
    """
    if not jax.tree.leaves(state.shards.buffer):
        return None
    positions = state.shards.buffer.positions
    num_shards, size = positions.shape[:2]
    total = num_shards * size
    # The same slot of every shard in turn, then the next one.
    slots, shards = np.divmod(np.linspace(0, total - 1, min(num, total)).astype(int), num_shards)
    return positions[shards, slots], slots


def draws_for_slots(
    key: Key, law: InitialLaw, slots: np.ndarray, *, size: int, num_classes: int
) -> np.ndarray:
    """Fresh draws of ``law``, one for each slot: its content before any chain moved.

    Args:
      key: split among the slots.
      law: that the buffer is filled from.
      slots: (N,), in a shard's buffer.
      size: of a shard's buffer, in which the classes have equal blocks.
      num_classes: that the law knows.
    """
    labels = jnp.asarray(np.asarray(slots) * num_classes // size, jnp.int32)
    return np.asarray(_draw(law, jax.random.split(key, len(labels)), labels))


@jax.jit
def _draw(law: InitialLaw, keys: Key, labels: jax.Array) -> jax.Array:
    return jax.vmap(law)(keys, labels)
