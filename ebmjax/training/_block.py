"""Several training steps in one compiled, sharded call."""

import functools
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

import jax
from jax.sharding import Mesh, PartitionSpec

from ebmjax._checks import leading_size
from ebmjax._phases import phase
from ebmjax.training._sharding import AXIS, replicate_arrays, state_specs
from ebmjax.training._state import TrainState
from ebmjax.training._step import TrainStep
from ebmjax.types import Key, Metrics, PyTree

Block = Callable[..., tuple[TrainState, Metrics]]
DETERMINISTIC = "xla_gpu_deterministic_ops"
"""Without it, a GPU adds some gradients in an order that changes from call to call."""


@functools.lru_cache(maxsize=1)  # check_fits and then fit ask for the same: one trace for both
def make_block(train_step: TrainStep, mesh: Mesh) -> Block:
    """Returns ``block(key, state, batches, numbers=None)``, jitted over ``mesh``: a step a batch.

    Leaves of ``batches`` have shape (steps, shards, examples of a shard, ...). They are gathered
    beforehand, so the program is the same wherever the data lie. Step i uses ``fold_in(key, i)``.
    The state is donated. Metrics gain a leading axis of steps. Every step is given ``numbers``, if
    there are any.
    """

    def device_block(
        key: Key, state: TrainState, batches: PyTree, numbers: PyTree
    ) -> tuple[TrainState, Metrics]:
        given = () if numbers is None else (numbers,)

        def step(state: TrainState, batch: PyTree) -> tuple[TrainState, Metrics]:
            return train_step(jax.random.fold_in(key, state.step), state, batch, *given)

        return jax.lax.scan(step, state, batches)

    everywhere = PartitionSpec()
    sharded = jax.shard_map(
        device_block,
        mesh=mesh,
        in_specs=(everywhere, state_specs(), PartitionSpec(None, AXIS), everywhere),
        out_specs=(state_specs(), everywhere),
        # The step averages its gradients; with the check, JAX would sum them again.
        check_vma=False,
    )

    def block(
        key: Key, state: TrainState, batches: PyTree, numbers: PyTree = None
    ) -> tuple[TrainState, Metrics]:
        return sharded(key, state, batches, numbers)

    options = compiler_options(mesh.devices.flat[0].platform)
    return jax.jit(block, donate_argnums=1, compiler_options=options)


def compiler_options(platform: str) -> dict[str, bool] | None:
    """Returns options with which a step gives the same bits each time, for devices that need some.

    Where the variable XLA_FLAGS sets them, they are as it says.
    """
    is_set = f"--{DETERMINISTIC}" in os.environ.get("XLA_FLAGS", "")
    return {DETERMINISTIC: True} if platform == "gpu" and not is_set else None


class BlockRunner:
    """Compiles a block once for each length, and counts the time.

    Attributes:
      compile_seconds: spent compiling so far.
    """

    def __init__(self, train_step: TrainStep, mesh: Mesh, key: Key, numbers: PyTree = None):
        self._block = make_block(train_step, mesh)
        make_block.cache_clear()  # the next run reads anew what the step reads
        self._key, self._numbers = key, replicate_arrays(numbers, mesh)
        self._compiled: dict[int, Future[Callable]] = {}
        self.compile_seconds = 0.0

    def compile_ahead(self, state: TrainState, batches: PyTree) -> None:
        """Compiles the block of such batches in another thread, while other work goes on."""
        started, size = time.perf_counter(), leading_size("batches", batches)
        with phase(f"compiling {size:,} steps"):
            lowered = self._block.lower(self._key, state, batches, self._numbers)

        def compile_block() -> Callable:
            compiled = lowered.compile()
            self.compile_seconds += time.perf_counter() - started
            return compiled

        pool = ThreadPoolExecutor(1, "ebmjax-compiler")
        self._compiled[size] = pool.submit(compile_block)
        pool.shutdown(wait=False)

    def __call__(self, state: TrainState, batches: PyTree) -> tuple[TrainState, Metrics]:
        """Runs as many steps as ``batches`` has; returns before the device has finished them."""
        size = leading_size("batches", batches)
        if size not in self._compiled:
            self.compile_ahead(state, batches)
        if not self._compiled[size].done():
            with phase("waiting for the compiler"):
                wait([self._compiled[size]])
        return self._compiled[size].result()(self._key, state, batches, self._numbers)
