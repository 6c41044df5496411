"""Messages between the processes of one run; with one process, nothing is sent.

All processes call these functions in the same order: each waits for the others.
"""

import functools
import itertools
import pickle
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ebmjax.training._state import is_key
from ebmjax.types import PyTree

T = TypeVar("T")

PIECE = 2**26
"""Bytes sent at a time."""

A_WEEK = 7 * 24 * 3600.0
_meetings = itertools.count()
_is_alone = False  # while process 0 works and the others wait


def is_first() -> bool:
    """Returns whether this process is number 0, which alone writes files."""
    return jax.process_index() == 0


def is_shared(mesh: Mesh) -> bool:
    """Returns whether ``mesh`` has devices of several processes."""
    return len({device.process_index for device in mesh.devices.flat}) > 1


def from_first(make: Callable[[], T]) -> T:
    """Returns ``make()`` of process 0 on every process; the others do not call it.

    The result is pickled; no random keys may be in it. An error of process 0 is raised on each.
    """
    global _is_alone
    if jax.process_count() == 1 or _is_alone:
        return make()
    result, error = None, None
    if is_first():
        _is_alone = True
        try:
            result = make()
        except (Exception, KeyboardInterrupt) as caught:
            error = caught
        finally:
            _is_alone = False
    meet()
    result_there, error_there = pickle.loads(_send_message(_pickle_result(result, error)))
    if error is not None:
        raise error  # with its traceback
    if error_there is not None:
        raise error_there
    return result if is_first() else result_there  # type: ignore[return-value]


def meet(name: str = "", seconds: float = A_WEEK) -> None:
    """Waits until every process is here, however long process 0 works alone.

    A collective of a CPU waits for 30 minutes only, and one of an accelerator keeps it busy.

    Args:
      name: of the meeting; "" counts them, which must then be as many on every process.
      seconds: longest time to wait; then it raises.
    """
    from jax._src import distributed  # JAX shows no barrier with a time limit

    client: Any = distributed.global_state.client
    client.wait_at_barrier(f"ebmjax {name or next(_meetings)}", int(seconds * 1000))


def on_first(make: Callable[[], T]) -> T | None:
    """Returns ``make()`` on process 0 and None on the others, which wait until it is done.

    An error of process 0 is raised on each.
    """
    found: list[T] = []
    from_first(lambda: found.append(make()))
    return found[0] if found else None


def _pickle_result(result: Any, error: BaseException | None) -> bytes:
    try:
        message = pickle.dumps((result, error))
        pickle.loads(message)  # an error may be written and then not be read
        return message
    except Exception:
        if error is None:
            raise
        return pickle.dumps((None, RuntimeError(str(error))))


def _send_message(message: bytes) -> bytes:
    """Returns the message of process 0."""
    whole, rest = divmod(len(message), PIECE)
    whole, rest = map(int, multihost_utils.broadcast_one_to_all(np.array([whole, rest], np.int32)))
    padded = np.zeros(whole * PIECE + rest, np.uint8)
    if is_first():
        padded[:] = np.frombuffer(message, np.uint8)
    pieces = [padded[i : i + PIECE] for i in range(0, len(padded), PIECE)]
    return b"".join(np.asarray(multihost_utils.broadcast_one_to_all(p)).tobytes() for p in pieces)


def put(tree: PyTree, mesh: Mesh, spec: PartitionSpec) -> PyTree:
    """Places host arrays that every process holds whole; each feeds the parts of its devices."""
    sharding = NamedSharding(mesh, spec)
    if not is_shared(mesh):
        return jax.device_put(tree, sharding)

    def place(leaf: Any) -> jax.Array:
        if is_key(leaf):
            data = place(jax.random.key_data(leaf))
            return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
        host = np.asarray(leaf)
        return jax.make_array_from_callback(host.shape, sharding, lambda part: host[part])

    return jax.tree.map(place, tree)


def whole(tree: PyTree, mesh: Mesh) -> PyTree:
    """Returns arrays of ``mesh`` whole, on this process's first device."""
    if not is_shared(mesh):
        return tree
    return jax.tree.map(lambda leaf: leaf.addressable_data(0), _everywhere(mesh)(tree))


def largest(value: int, mesh: Mesh) -> jax.Array:
    """Returns the largest ``value`` of all processes, without waiting for it."""
    each = put(np.full(mesh.size, value, np.int32), mesh, PartitionSpec(*mesh.axis_names))
    return _largest(mesh)(each)


@functools.lru_cache(maxsize=1)
def _everywhere(mesh: Mesh) -> Callable[[PyTree], PyTree]:
    return jax.jit(lambda tree: tree, out_shardings=NamedSharding(mesh, PartitionSpec()))


@functools.lru_cache(maxsize=1)
def _largest(mesh: Mesh) -> Callable[[jax.Array], jax.Array]:
    return jax.jit(jnp.max, out_shardings=NamedSharding(mesh, PartitionSpec()))
