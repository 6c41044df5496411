"""State of a run: everything it needs to continue bit for bit, its bytes and its changes."""

import hashlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ebmjax._checks import check_arrays, check_floating
from ebmjax._stored import StoredRows, in_parts
from ebmjax.types import PyTree


class TrainState(NamedTuple):
    """State of a training run between two steps.

    The random key is not here: step ``i`` uses ``fold_in(root_key, i)``, so the step is enough.

    Attributes:
      step: scalar int32, steps taken, skipped ones too.
      params: optimised parameters, the same on every device.
      opt_state: the optimiser's; the same on every device. Its own counter lacks skipped steps.
      carry: chains, buffers and statistics of the parts of a batch, each leaf with a leading axis
        of logical shards; ``()`` if there are none.
      skipped: scalar int32, steps whose update was dropped because it was not finite.
      consecutive_skipped: scalar int32, skipped steps in a row up to now.
    """

    step: jax.Array
    params: PyTree
    opt_state: PyTree
    carry: PyTree
    skipped: jax.Array
    consecutive_skipped: jax.Array


def init_state(
    params: PyTree, optimizer: optax.GradientTransformation, carry: PyTree = ()
) -> TrainState:
    """Returns the state before the first step.

    Args:
      params: floating-point arrays or numbers; of an Equinox module not its functions.
      optimizer: its ``init`` sees ``params``.
      carry: arrays of any dtype; every leaf has a leading axis of logical shards.
    """
    check_floating("params", params)
    check_arrays("carry", carry)
    # The dtype is explicit: a checkpoint forgets a Python number's weak type, and the resumed run
    # would compute in another dtype.
    params, carry = jax.tree.map(lambda x: jnp.asarray(x, jnp.result_type(x)), (params, carry))
    # Separate arrays, because a buffer cannot be donated twice.
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        params=params,
        opt_state=optimizer.init(params),
        carry=carry,
        skipped=jnp.zeros((), jnp.int32),
        consecutive_skipped=jnp.zeros((), jnp.int32),
    )


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

    ``changed`` is like ``carry``, with a ``SlotWrite`` in place of any array. Under ``jit`` with a
    donated carry slots are overwritten in place.
    """

    def apply(new: Any, old: jax.Array) -> jax.Array:
        if not isinstance(new, SlotWrite):
            return jnp.where(is_kept, new, old)
        values = jnp.where(is_kept, new.values.astype(old.dtype), old[new.slots])
        return old.at[new.slots].set(values)

    return jax.tree.map(apply, changed, carry, is_leaf=lambda node: isinstance(node, SlotWrite))


def is_key(leaf: Any) -> bool:
    """Returns whether ``leaf`` is an array of typed random keys."""
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def as_numpy(leaf: Any) -> np.ndarray:
    """Returns the numbers of ``leaf``, also of typed random keys; possibly a view."""
    if isinstance(leaf, jax.Array) and is_key(leaf):
        return np.asarray(jax.random.key_data(leaf))
    return np.asarray(leaf)


def tree_digest(tree: PyTree) -> str:
    """Returns SHA-256 over paths, dtypes, shapes and bytes of all leaves, 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        array = leaf if isinstance(leaf, StoredRows) else as_numpy(leaf)
        header = f"{jax.tree_util.keystr(path)}:{array.dtype}:{array.shape};"
        digest.update(header.encode())
        for part in in_parts(array):
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def host_leaves(tree: PyTree) -> dict[str, np.ndarray]:
    """Returns leaves by number, copied: training donates the device buffers behind views.

    Leaves without elements are left out, because orbax refuses them.
    """
    leaves = {f"{i:05d}": as_numpy(leaf) for i, leaf in enumerate(jax.tree.leaves(tree))}
    return {name: np.array(leaf) for name, leaf in leaves.items() if leaf.size}


def like(template: PyTree, host_leaves: dict[str, np.ndarray]) -> PyTree:
    """Inverts ``host_leaves``."""
    leaves, treedef = jax.tree.flatten(template)
    names = (f"{i:05d}" for i in range(len(leaves)))
    return treedef.unflatten(
        revive(host_leaves[name], like) if name in host_leaves else like
        for name, like in zip(names, leaves, strict=True)
    )


def revive(host_leaf: np.ndarray, like: Any) -> Any:
    """Returns the value saved as ``host_leaf``: a random key if ``like`` is one."""
    if not is_key(like):
        return host_leaf
    return jax.random.wrap_key_data(jnp.asarray(host_leaf), impl=jax.random.key_impl(like))
