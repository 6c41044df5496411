"""What evaluations during training show of a replay buffer."""

import jax
import numpy as np

from ebmjax.training import TrainState


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
