"""What evaluations during training show of a replay buffer."""

import jax
import numpy as np

from ebmjax.training import TrainState


def spread_slots(state: TrainState, num: int) -> tuple[jax.Array, np.ndarray] | None:
    """``num`` positions, evenly spaced, of the first shard's buffer, and their slots.

    Evenly, since a buffer may hold its classes in blocks. All of a buffer that is smaller; None
    where there is no buffer.
    """
    if not jax.tree.leaves(state.shards.buffer):
        return None
    positions = state.shards.buffer.positions[0]
    size = len(positions)
    slots = np.linspace(0, size - 1, min(num, size)).astype(int)
    return positions[slots], slots
