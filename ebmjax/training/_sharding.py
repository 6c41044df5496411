"""Placement of state and data on a one-dimensional mesh."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ebmjax._checks import check_at_least
from ebmjax._stored import StoredRows
from ebmjax.training._state import TrainState
from ebmjax.types import PyTree

AXIS = "data"
EVERYWHERE, OVER_SHARDS = PartitionSpec(), PartitionSpec(None, AXIS)
STATE_SPECS: Any = TrainState._make([*[EVERYWHERE] * 3, PartitionSpec(AXIS), *[EVERYWHERE] * 2])
"""Placement of a ``TrainState``: shards are split, the rest is replicated."""


def make_mesh(num_shards: int, devices: Sequence[Any] | None = None) -> Mesh:
    """Returns a mesh over as many of ``devices`` (default: all) as divide the shards evenly."""
    check_at_least("num_shards", num_shards, 1)
    chosen = list(jax.devices() if devices is None else devices)
    size = max(n for n in range(1, len(chosen) + 1) if num_shards % n == 0)
    return Mesh(np.array(chosen[:size]), (AXIS,))


def replicate_arrays(numbers: PyTree, mesh: Mesh) -> PyTree:
    """Places the arrays of ``numbers`` whole on every device; Python's numbers stay as they are."""
    where = NamedSharding(mesh, EVERYWHERE)
    return jax.tree.map(
        lambda x: jax.device_put(x, where) if isinstance(x, jax.Array) else x, numbers
    )


def describe_shapes(tree: PyTree, mesh: Mesh, specs: PyTree) -> PyTree:
    """Returns shapes of ``tree`` on the mesh, by ``specs`` (a prefix of it), without numbers."""

    def describe(leaf: Any, spec: PartitionSpec) -> jax.ShapeDtypeStruct:
        aval = jax.typeof(leaf)
        where = NamedSharding(mesh, spec)
        return jax.ShapeDtypeStruct(
            aval.shape, aval.dtype, sharding=where, weak_type=aval.weak_type
        )

    is_spec = lambda x: isinstance(x, PartitionSpec)  # noqa: E731
    return jax.tree.map(describe, tree, jax.tree.broadcast(specs, tree, is_leaf=is_spec))


def describe_batches(data: PyTree, indices: PyTree, mesh: Mesh) -> PyTree:
    """Returns the shapes of a block's batches on the mesh, without reading a row."""
    where = NamedSharding(mesh, OVER_SHARDS)

    def describe(leaf: Any, index: np.ndarray) -> jax.ShapeDtypeStruct:
        aval = leaf if isinstance(leaf, StoredRows) else jax.typeof(leaf)
        return jax.ShapeDtypeStruct((*index.shape, *aval.shape[1:]), aval.dtype, sharding=where)

    return jax.tree.map(
        lambda index: jax.tree.map(lambda leaf: describe(leaf, index), data), indices
    )


def place_state(state: TrainState, mesh: Mesh) -> TrainState:
    """Copies ``state`` to the mesh; the caller keeps the given arrays.

    ``device_put`` lets a device keep a buffer that it already holds, even with ``may_alias=False``
    on several devices. Training donates its state, which would then delete the caller's array.
    """
    parts = zip(jax.tree.map(jnp.copy, state), STATE_SPECS, strict=True)
    return TrainState(*(jax.device_put(x, NamedSharding(mesh, spec)) for x, spec in parts))
