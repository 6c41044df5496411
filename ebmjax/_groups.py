"""Deals groups of images or chains to devices, each of which computes its groups in turn."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ebmjax._checks import leading_size
from ebmjax.types import PyTree

AXIS = "groups"

_devices: ContextVar[Sequence[Any]] = ContextVar("devices", default=())


@contextlib.contextmanager
def over_devices(devices: Sequence[Any] | None = None) -> Iterator[None]:
    """Lets ``map_groups`` use ``devices``, by default all of this process, inside.

    Arrays that its function closes over must lie on these devices (``on_devices``), or nowhere yet.
    """
    before = _devices.set(devices or _devices.get() or jax.local_devices())
    try:
        yield
    finally:
        _devices.reset(before)


def num_devices() -> int:
    """Returns the number of devices of ``over_devices``; 1 outside of it."""
    return max(len(_devices.get()), 1)


def on_devices(tree: PyTree) -> PyTree:
    """Returns ``tree`` whole on each device of ``over_devices``; as it is outside of it."""
    if not _devices.get():
        return tree
    return jax.device_put(tree, NamedSharding(_mesh(), PartitionSpec()))


def map_groups(
    function: Callable[[Any], PyTree], rows: PyTree, batch_size: int | None = None
) -> PyTree:
    """Returns ``jax.lax.map``, its groups of ``batch_size`` rows dealt over ``over_devices``.

    Each group is computed whole by one device. So the results are those of one device, up to the
    rounding of a program for another number of groups. A single group is computed by all devices.
    """
    num, size = leading_size("rows", rows), batch_size or 1
    each = -(-num // (size * num_devices())) * size
    if num_devices() == 1 or num <= size:
        return jax.lax.map(function, rows, batch_size=batch_size)
    filled = np.minimum(np.arange(each * num_devices()), num - 1)  # by copies of the last row
    mapped = jax.shard_map(
        lambda own: jax.lax.map(function, own, batch_size=batch_size),
        mesh=_mesh(),
        in_specs=PartitionSpec(AXIS),
        out_specs=PartitionSpec(AXIS),
        check_vma=False,
    )
    found = mapped(jax.tree.map(lambda leaf: leaf[filled], rows))
    return jax.tree.map(lambda leaf: leaf[:num], found)


def in_batches(
    function: Callable[..., PyTree], num: int, batch_size: int
) -> tuple[Callable[..., PyTree], int]:
    """Returns ``function`` of so many batches at once that each device has one, and their size.

    Args:
      function: its last argument is a batch (batch_size, ...); its results have the same rows.
      num: of all rows. If they are one batch, ``function`` and its size are returned as they are.
      batch_size: rows that a device sees at once.
    """
    total = num_devices() * batch_size
    if total == batch_size or num <= batch_size:
        return function, batch_size

    def of_all(*arguments: Any) -> PyTree:
        *shared, rows = arguments
        groups = jnp.asarray(rows).reshape(-1, batch_size, *rows.shape[1:])
        found = map_groups(partial(function, *shared), groups)
        return jax.tree.map(lambda leaf: leaf.reshape(total, *leaf.shape[2:]), found)

    return of_all, total


def _mesh() -> Mesh:
    return Mesh(np.array(_devices.get()), (AXIS,))
