"""Rows of each block of steps, from data in memory or in files."""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from ebmjax._checks import leading_size
from ebmjax._stored import StoredRows
from ebmjax.training._plan import Plan
from ebmjax.training._sharding import OVER_SHARDS
from ebmjax.types import PyTree


def host_rows(data: PyTree, indices: PyTree) -> PyTree:
    """Returns batches as NumPy arrays, from leaves with rows to read; a tuple if indices are."""

    def rows(leaf: Any, index: np.ndarray) -> np.ndarray:
        found = np.asarray(leaf[index.reshape(-1)])
        return found.reshape(*index.shape, *found.shape[1:])

    return jax.tree.map(lambda index: jax.tree.map(lambda leaf: rows(leaf, index), data), indices)


class Feed:
    """The batches of a run's blocks.

    A thread gathers the rows of a block while the device works on the one before.
    """

    def __init__(self, data: PyTree, plan: Plan, mesh: Mesh):
        self._plan, self._sharding = plan, NamedSharding(mesh, OVER_SHARDS)
        self._num_examples = leading_size("data", data)
        # An array of the device comes to the host once, so that gathering never waits for it.
        self._data = jax.tree.map(lambda x: x if isinstance(x, StoredRows) else np.asarray(x), data)

    def blocks(self, first_step: int) -> Iterator[tuple[int, int, PyTree]]:
        """Yields (steps taken before the block, steps in it, its batches) to the end."""
        with ThreadPoolExecutor(1, "ebmjax-feed") as pool:
            blocks = self._plan.blocks(first_step)
            read = ((block, pool.submit(self._read_rows, block)) for block in blocks)
            # The next block is asked for before this one is waited for.
            for ours, _ in itertools.pairwise(itertools.chain(read, [None])):
                assert ours is not None
                (first, size), rows = ours
                yield first, size, jax.device_put(rows.result(), self._sharding)

    def _read_rows(self, block: tuple[int, int]) -> PyTree:
        return host_rows(self._data, self._plan.indices(*block, self._num_examples))
