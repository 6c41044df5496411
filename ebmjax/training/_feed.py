"""Batches of each block of steps, from data on the device or on the host."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ebmjax._checks import leading_size
from ebmjax._stored import is_stored
from ebmjax.data import batch_indices
from ebmjax.training._plan import Plan
from ebmjax.training._processes import put
from ebmjax.training._sharding import AXIS, describe_shapes, replicate
from ebmjax.training._state import is_key
from ebmjax.types import PyTree

PLACEMENTS = ("device", "host")
OVER_SHARDS = PartitionSpec(None, AXIS)


def check_placement(placement: str, data: PyTree) -> None:
    """Raises ValueError unless ``placement`` is "device" or "host", and possible for ``data``."""
    if placement == "device" and any(map(is_stored, jax.tree.leaves(data))):
        raise ValueError(
            'data that stay in files cannot lie on the device: give placement="host", or read them '
            "into memory."
        )
    if placement not in PLACEMENTS:
        raise ValueError(
            f"placement must be one of {', '.join(map(repr, PLACEMENTS))}, got {placement=}."
        )


def make_gather(mesh: Mesh) -> Callable[[PyTree, PyTree], PyTree]:
    """Returns ``gather(data, indices) -> batches``, jitted over ``mesh``.

    ``data`` lie whole on every device, and every device takes the rows of its shards. The batches
    are a tuple if ``indices`` are.
    """
    everywhere = PartitionSpec()
    return jax.jit(
        jax.shard_map(
            _gather_rows, mesh=mesh, in_specs=(everywhere, OVER_SHARDS), out_specs=OVER_SHARDS
        )
    )


def _gather_rows(data: PyTree, indices: PyTree) -> PyTree:
    return jax.tree.map(lambda i: jax.tree.map(lambda leaf: leaf[i], data), indices)


def _on_host(leaf: Any) -> Any:
    """Returns an array of the device on the host, so that gathering never waits for the device."""
    return np.asarray(leaf) if isinstance(leaf, jax.Array) and not is_key(leaf) else leaf


def host_rows(data: PyTree, indices: PyTree) -> PyTree:
    """Returns what ``make_gather`` returns, as NumPy arrays, from leaves with rows to read."""

    def rows(leaf: Any, index: np.ndarray) -> np.ndarray:
        found = np.asarray(leaf[index.reshape(-1)])
        return found.reshape(*index.shape, *found.shape[1:])

    return jax.tree.map(lambda index: jax.tree.map(lambda leaf: rows(leaf, index), data), indices)


def describe_batches(data: PyTree, indices: PyTree, mesh: Mesh) -> PyTree:
    """Returns the shapes of the batches on the mesh, without reading a row."""

    def describe(leaf: Any, index: np.ndarray) -> jax.ShapeDtypeStruct:
        aval = leaf if is_stored(leaf) else jax.typeof(leaf)
        return jax.ShapeDtypeStruct((*index.shape, *aval.shape[1:]), aval.dtype)

    shapes = jax.tree.map(
        lambda index: jax.tree.map(lambda leaf: describe(leaf, index), data), indices
    )
    return describe_shapes(shapes, mesh, OVER_SHARDS)


def _own_shards(mesh: Mesh, num_shards: int) -> slice:
    """Returns the shards of this process's devices, which lie side by side in the mesh."""
    devices = list(mesh.devices.flat)
    own = [i for i, one in enumerate(devices) if one.process_index == jax.process_index()]
    each = num_shards // len(devices)
    return slice(own[0] * each, (own[-1] + 1) * each)


class Feed:
    """The batches of a run's blocks, gathered where the data lie.

    From the host, a thread gathers the rows of a block while the device works on the one before.
    Each process gathers those of its shards.
    """

    def __init__(self, data: PyTree, plan: Plan, mesh: Mesh, placement: Literal["device", "host"]):
        self._plan, self._mesh = plan, mesh
        self._num_examples = leading_size("data", data)
        self._is_on_host = placement == "host"
        self._data = jax.tree.map(_on_host, data) if self._is_on_host else replicate(data, mesh)
        self._gather = make_gather(mesh)

    def blocks(self, first_step: int) -> Iterator[tuple[int, int, PyTree]]:
        """Yields (steps taken before the block, steps in it, its batches) to the end."""
        if not self._is_on_host:
            for block in self._plan.blocks(first_step):
                indices = put(self._indices(block), self._mesh, OVER_SHARDS)
                yield *block, self._gather(self._data, indices)
            return
        with ThreadPoolExecutor(1, "ebmjax-feed") as pool:
            ahead = None
            for block in self._plan.blocks(first_step):
                following = block, pool.submit(self._read_rows, block)
                if ahead is not None:
                    yield *ahead[0], self._place_rows(ahead[1].result())
                ahead = following
            if ahead is not None:
                yield *ahead[0], self._place_rows(ahead[1].result())

    def _read_rows(self, block: tuple[int, int]) -> PyTree:
        """Returns the rows of this process's shards."""
        own = _own_shards(self._mesh, self._plan.num_shards)
        return host_rows(self._data, jax.tree.map(lambda i: i[:, own], self._indices(block)))

    def _place_rows(self, rows: PyTree) -> PyTree:
        def place(leaf: np.ndarray) -> jax.Array:
            shape = (leaf.shape[0], self._plan.num_shards, *leaf.shape[2:])
            sharding = NamedSharding(self._mesh, OVER_SHARDS)
            return jax.make_array_from_process_local_data(sharding, leaf, shape)

        return jax.tree.map(place, rows)

    def _indices(self, block: tuple[int, int]) -> PyTree:
        return plan_indices(self._plan, *block, self._num_examples)


def plan_indices(plan: Plan, first_step: int, size: int, num_examples: int) -> PyTree:
    """Returns a block's examples, (size, num_shards, examples of a shard), for every stream."""

    def stream(number: int, batch_size: int) -> np.ndarray:
        # Far apart, because the second stream of a seed must not be the first of the next seed.
        seed = plan.data_seed + number * 2**32
        steps = range(first_step, first_step + size)
        sizes = {"num_examples": num_examples, "batch_size": batch_size}
        indices = np.stack([batch_indices(seed, step, **sizes) for step in steps])
        return indices.reshape(size, plan.num_shards, -1)

    streams = tuple(stream(*pair) for pair in enumerate(plan.streams))
    return streams if isinstance(plan.batch_size, tuple) else streams[0]
