"""Reads where a sitting of a run begins: at its newest checkpoint, or at the start."""

from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh

from ebmjax._checks import leading_size
from ebmjax._phases import phase
from ebmjax.training._checkpoints import Checkpoints
from ebmjax.training._data import DataDigest, check_same_data, digest_data
from ebmjax.training._leaves import host_leaves, like
from ebmjax.training._processes import from_first, is_shared
from ebmjax.training._state import TrainState
from ebmjax.types import PyTree


class Beginning(NamedTuple):
    """State and description that a sitting begins with, digest of the data, whether it saves."""

    state: TrainState
    meta: dict[str, Any]
    digest: DataDigest | None
    is_saving: bool


def begin(
    state: TrainState, data: PyTree, checkpoints: Checkpoints | None, mesh: Mesh
) -> Beginning:
    """Returns the newest checkpoint's state, or ``state`` itself; of process 0 on every process.

    Raises:
      ValueError: if the processes have different data.
    """
    digest = None
    if checkpoints or is_shared(mesh):
        with phase(f"digest of {leading_size('data', data):,} examples"):
            digest = digest_data(data)

    def read() -> tuple[TrainState, dict[str, Any]]:
        restored = checkpoints.restore_latest(state) if checkpoints else None
        if restored is None or digest is None:
            return state, {"seconds": {"wall": 0.0, "compile": 0.0}, "row": {}}
        check_same_data(restored[1], int(restored[0].step), digest, data)
        return restored

    if not is_shared(mesh):
        return Beginning(*read(), digest, checkpoints is not None)

    def send() -> tuple[Any, ...]:
        found, meta = read()
        return host_leaves(found), meta, digest, checkpoints is not None

    leaves, meta, theirs, is_saving = from_first(send)
    if theirs != digest:
        raise ValueError(
            f"process {jax.process_index()} has other data than process 0: every process must be "
            "given the same examples in the same order. Compare data.path on their machines, or "
            "seed what draws the data."
        )
    return Beginning(like(state, leaves), meta, digest, is_saving)
