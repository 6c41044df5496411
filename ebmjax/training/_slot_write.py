"""Changes of a step to a large array, so that the rest of it is never touched."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax.types import PyTree


class SlotWrite(NamedTuple):
    """In place of an array of a shard: the slots of it that a step overwrites, and by what.

    Whether a step counts is known at its end. To select between a new and an old replay buffer
    would copy both at every step; this costs as much as is written, however large the buffer.

    Attributes:
      slots: (n,) integers along the array's leading axis, all different.
      values: (n, ...), cast to the array's dtype.
    """

    slots: jax.Array
    values: jax.Array


def write_slots(slots: jax.Array, values: PyTree) -> PyTree:
    """A ``SlotWrite`` into the same ``slots`` (n,) for every array (n, ...) of ``values``."""
    return jax.tree.map(lambda new: SlotWrite(slots, new), values)


def apply_writes(shard: PyTree, changed: PyTree, is_kept: Any = True) -> PyTree:
    """One logical shard after a step: ``changed`` where ``is_kept``, else ``shard`` as it was.

    Args:
      shard: before the step.
      changed: like ``shard``, with a ``SlotWrite`` in place of any array.
      is_kept: scalar bool.

    Returns:
      A PyTree like ``shard``. Under ``jit`` with a donated shard slots are overwritten in place.

    Example:
      >>> import jax.numpy as jnp
      >>> apply_writes(jnp.zeros(4), SlotWrite(jnp.array([2, 0]), jnp.array([5.0, 7.0])))
      Array([7., 0., 5., 0.], dtype=float32)
    """

    def apply(new: Any, old: jax.Array) -> jax.Array:
        if not isinstance(new, SlotWrite):
            return jnp.where(is_kept, new, old)
        values = jnp.where(is_kept, new.values.astype(old.dtype), old[new.slots])
        return old.at[new.slots].set(values)

    return jax.tree.map(apply, changed, shard, is_leaf=lambda node: isinstance(node, SlotWrite))
