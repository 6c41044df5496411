"""Several training steps in one compiled, sharded call."""

import functools
import time
from collections.abc import Callable

import jax
from jax.sharding import Mesh, PartitionSpec

from ebmjax._checks import leading_size
from ebmjax.training._processes import put
from ebmjax.training._profile import Profile
from ebmjax.training._repeats import repeat_step
from ebmjax.training._sharding import AXIS, state_specs
from ebmjax.training._state import TrainState
from ebmjax.training._step import TrainStep
from ebmjax.types import Key, Metrics, PyTree

Block = Callable[[Key, TrainState, PyTree, PyTree], tuple[TrainState, Metrics]]


@functools.lru_cache(maxsize=1)  # check_fits and then fit ask for the same: one trace for both
def make_block(train_step: TrainStep, mesh: Mesh) -> Block:
    """Returns ``block(key, state, data, indices) -> (state, metrics)``, jitted over ``mesh``.

    ``indices`` is an array or a tuple of arrays of shape (steps, shards, examples of a shard). They
    pick from ``data``, whose leaves lie whole on every device; the batch is a tuple if they are.
    Step i uses ``fold_in(key, i)``. The state is donated. Metrics gain a leading axis of steps.
    With R keys for R repeats, indices have shape (steps, shards, R, examples of a shard), and state
    and metrics are those of ``repeat_step``.
    """

    def keyed_step(key: Key, state: TrainState, batch: PyTree) -> tuple[TrainState, Metrics]:
        return train_step(jax.random.fold_in(key, state.step), state, batch)

    def device_block(
        key: Key, state: TrainState, data: PyTree, indices: PyTree
    ) -> tuple[TrainState, Metrics]:
        step = repeat_step(keyed_step) if key.ndim else keyed_step

        def body(state: TrainState, index: PyTree) -> tuple[TrainState, Metrics]:
            batch = jax.tree.map(lambda i: jax.tree.map(lambda leaf: leaf[i], data), index)
            return step(key, state, batch)

        return jax.lax.scan(body, state, indices)

    everywhere = PartitionSpec()
    sharded = jax.shard_map(
        device_block,
        mesh=mesh,
        in_specs=(everywhere, state_specs(), everywhere, PartitionSpec(None, AXIS)),
        out_specs=(state_specs(), everywhere),
        # The step averages its gradients; with the check, JAX would sum them again.
        check_vma=False,
    )
    return jax.jit(sharded, donate_argnums=1)


class BlockRunner:
    """Compiles a block once for each length, and counts the time.

    Attributes:
      compile_seconds: spent compiling so far.
    """

    def __init__(
        self,
        train_step: TrainStep,
        mesh: Mesh,
        key: Key,
        data: PyTree,
        profile: Profile | None = None,
    ):
        self._block = make_block(train_step, mesh)
        self._key = key
        self._data = data
        self._mesh = mesh
        self._profile = profile
        self._compiled: dict[int, Callable] = {}
        self.compile_seconds = 0.0

    def __call__(self, state: TrainState, indices: PyTree) -> tuple[TrainState, Metrics]:
        """Runs ``len(indices)`` steps; returns before the device has finished them."""
        arguments = (
            self._key,
            state,
            self._data,
            put(indices, self._mesh, PartitionSpec(None, AXIS)),
        )
        size = leading_size("indices", indices)
        if size not in self._compiled:
            started = time.perf_counter()
            self._compiled[size] = self._block.lower(*arguments).compile()
            self.compile_seconds += time.perf_counter() - started
        block = functools.partial(self._compiled[size], *arguments)
        return self._profile.run(block, size) if self._profile else block()
