"""Changes a few slots of a large array without touching the rest."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax.types import PyTree


class SlotWrite(NamedTuple):
    """Slots that a step overwrites in an array of a shard, and their new values.

    A step is accepted or skipped only after it has run. Keeping both versions of a large replay
    buffer would copy it at every step; this costs only the written slots.

    Attributes:
      slots: (n,) integers along the array's leading axis, all different.
      values: (n, ...), cast to the array's dtype.
    """

    slots: jax.Array
    values: jax.Array


def write_slots(slots: jax.Array, values: PyTree) -> PyTree:
    """Returns a ``SlotWrite`` into ``slots`` (n,) for every array (n, ...) of ``values``."""
    return jax.tree.map(lambda new: SlotWrite(slots, new), values)


def apply_writes(carry: PyTree, changed: PyTree, is_kept: Any = True) -> PyTree:
    """Returns a shard's carry after a step: ``changed`` if ``is_kept``, else ``carry``.

    Args:
      carry: before the step.
      changed: like ``carry``, with a ``SlotWrite`` in place of any array.
      is_kept: scalar bool.

    Returns:
      A PyTree like ``carry``. Under ``jit`` with a donated carry slots are overwritten in place.

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

    return jax.tree.map(apply, changed, carry, is_leaf=lambda node: isinstance(node, SlotWrite))
