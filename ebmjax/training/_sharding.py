"""Placement of state and data on a one-dimensional mesh."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ebmjax._checks import check_at_least
from ebmjax.training._state import TrainState, state_axes
from ebmjax.types import PyTree

AXIS = "data"


def make_mesh(num_shards: int, devices: Sequence[Any] | None = None) -> Mesh:
    """Returns a mesh over as many of ``devices`` (default: all) as divide the shards evenly.

    Raises:
      ValueError: if ``num_shards`` is below 1.
    """
    check_at_least("num_shards", num_shards, 1)
    devices = list(jax.devices() if devices is None else devices)
    num_devices = max(n for n in range(1, len(devices) + 1) if num_shards % n == 0)
    return Mesh(np.array(devices[:num_devices]), (AXIS,))


def replicate(tree: PyTree, mesh: Mesh) -> PyTree:
    """Places every leaf whole on every device."""
    return jax.device_put(tree, NamedSharding(mesh, PartitionSpec()))


def state_specs() -> TrainState:
    """Returns partition specs of a ``TrainState``: shards are split, the rest is replicated."""
    return state_axes(PartitionSpec(), PartitionSpec(AXIS))


def described(tree: PyTree, mesh: Mesh, specs: PyTree) -> PyTree:
    """Returns shapes of ``tree`` on the mesh, by ``specs`` (a prefix of it), without numbers."""

    def describe(leaf: Any, spec: PartitionSpec) -> jax.ShapeDtypeStruct:
        aval = jax.typeof(leaf)
        where = NamedSharding(mesh, spec)
        return jax.ShapeDtypeStruct(
            aval.shape, aval.dtype, sharding=where, weak_type=aval.weak_type
        )

    is_spec = lambda x: isinstance(x, PartitionSpec)  # noqa: E731
    return jax.tree.map(describe, tree, jax.tree.broadcast(specs, tree, is_leaf=is_spec))


def place_state(state: TrainState, mesh: Mesh) -> TrainState:
    """Copies ``state`` to the mesh; the caller keeps the given arrays.

    ``device_put`` lets a device keep a buffer that it already holds, even with ``may_alias=False``
    on several devices. Training donates its state, which would then delete the caller's array.
    """
    shardings = jax.tree.map(
        lambda spec: NamedSharding(mesh, spec),
        state_specs(),
        is_leaf=lambda x: isinstance(x, PartitionSpec),
    )
    return jax.device_put(jax.tree.map(jnp.copy, state), shardings)
