"""Finds where a run begins: at its newest checkpoint, at the start, or at another run's end."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ebmjax._checks import leading_size
from ebmjax._phases import phase
from ebmjax._stored import AT_ONCE, StoredRows, in_parts
from ebmjax.training._checkpoints import CheckpointMismatchError, Checkpoints
from ebmjax.training._state import TrainState, as_numpy, revive
from ebmjax.types import PyTree


def begin(
    state: TrainState, data: PyTree, checkpoints: Checkpoints | None
) -> tuple[TrainState, dict[str, Any], dict[str, tuple[str, ...]] | None]:
    """Returns state and description that a sitting begins with, and the digest of the data.

    The state is the newest checkpoint's, or ``state`` itself.
    """
    fresh = {"seconds": {"wall": 0.0, "compile": 0.0}, "row": {}, "reason": ""}
    if checkpoints is None:
        return state, fresh, None
    with phase(f"digest of {leading_size('data', data):,} examples"):
        digest = digest_data(data)
    restored = checkpoints.restore_latest(state)
    if restored is None:
        return state, fresh, digest
    check_same_data(restored[1], int(restored[0].step), digest)
    return *restored, digest


def digest_data(data: PyTree) -> dict[str, tuple[str, ...]]:
    """Returns a digest of the data, made once on the host: about 2 s for each gigabyte.

    It has the path of every array, to "dtype(shape)" and SHA-256 of: all its bytes, those of some
    rows, and names and sizes of the rows' files. "" stands for what is not known.
    Data in files are read once from end to end. Where each row has another file, only
    ``AT_ONCE`` rows are read, evenly spaced.
    """
    found = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(data):
        array = leaf if isinstance(leaf, StoredRows) else as_numpy(leaf)
        files = array.files() if isinstance(array, StoredRows) else None
        some = np.linspace(0, len(array) - 1, min(AT_ONCE, len(array))).astype(int)
        found[jax.tree_util.keystr(path)] = (
            f"{array.dtype}{array.shape}",
            "" if files is not None else _sha256(in_parts(array)),
            _sha256([array[some]]),
            "" if files is None else hashlib.sha256("".join(files).encode()).hexdigest(),
        )
    return found


def _sha256(parts: Iterable[np.ndarray]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def check_same_data(meta: dict[str, Any], step: int, ours: dict[str, tuple[str, ...]]) -> None:
    """Raises CheckpointMismatchError unless the data are those that a checkpoint was made with.

    Args:
      meta: the checkpoint's, from ``Checkpoints.restore_latest``.
      step: the checkpoint's.
      ours: digest of the present data.
    """
    theirs = {path: tuple(entry) for path, entry in meta["data"].items()}
    for path in sorted(ours.keys() | theirs.keys()):
        mine, other = (one.get(path, ("absent",)) for one in (ours, theirs))
        pairs = zip(mine, other, strict=False)
        if all(a == b for a, b in pairs if a and b):
            continue
        what = (
            f"data{path} has the same shape, {mine[0]}, and other values"
            if mine[0] == other[0]
            else f"data{path} was {other[0]} and is now {mine[0]}"
        )
        raise CheckpointMismatchError(
            f"Checkpoint {step} belongs to a run on other data: {what}. Give the run the data that "
            "it began with. To go on with these instead, begin a new run in another workdir from "
            "what it has learnt, by ebmjax.training.warm_start or "
            "--config.train.start_from=FOLDER. Nothing was changed."
        )


class WarmStart(NamedTuple):
    """State before its first step, with what another run has learnt.

    Attributes:
      state: ``step`` 0, a new optimiser state, no step skipped.
      step: of the other run.
      taken: the fields of ``state.carry`` that are the other run's.
      anew: requested fields for which the other run has nothing that fits.
    """

    state: TrainState
    step: int
    taken: tuple[str, ...]
    anew: tuple[str, ...]


def warm_start(
    state: TrainState,
    optimizer: optax.GradientTransformation,
    directory: str | Path,
    carry_fields: Sequence[str] = (),
) -> WarmStart:
    """Returns ``state`` with the parameters of the newest checkpoint in ``directory``.

    The optimiser and its schedules start anew. So do fields of ``state.carry`` that are not
    requested, or whose shape, number or type differs from the other run's.

    Args:
      state: the new run's, from ``init_state``.
      optimizer: the new run's.
      directory: the other run's checkpoints; nothing in it is changed.
      carry_fields: names of fields of ``state.carry``, such as "buffer" and "statistics".

    Raises:
      FileNotFoundError: if there is no checkpoint in ``directory``.
      CheckpointMismatchError: if its parameters are those of another network.
      CheckpointDamagedError: if none of its checkpoints can be read.
    """
    directory = Path(directory).expanduser()
    found = None
    if directory.is_dir():
        with Checkpoints(directory, is_read_only=True) as checkpoints:
            found = checkpoints.read_latest()
    if found is None:
        raise FileNotFoundError(
            f"{directory} holds no checkpoint to start from. Name the folder of the checkpoints of "
            "a run that has saved one."
        )
    leaves, step = found
    params, difference = _of_the_other(state.params, ".params", leaves)
    if difference:
        raise CheckpointMismatchError(
            f"Checkpoint {step} in {directory} is of another network: {difference}. Start from a "
            "run with the network of this one."
        )
    carry, anew = {}, []
    for name in carry_fields:
        field, difference = _of_the_other(getattr(state.carry, name), f".carry.{name}", leaves)
        if difference:
            anew.append(name)
        elif jax.tree.leaves(field):
            carry[name] = field
    state = state._replace(
        params=params,
        opt_state=optimizer.init(params),
        carry=state.carry._replace(**carry) if carry else state.carry,
    )
    return WarmStart(state, step, tuple(carry), tuple(anew))


def _of_the_other(tree: PyTree, prefix: str, leaves: dict[str, np.ndarray]) -> tuple[PyTree, str]:
    """Returns ``tree`` from ``leaves``, and the first leaf that does not fit in words, or ""."""
    paths, treedef = jax.tree_util.tree_flatten_with_path(tree)
    ours = {prefix + jax.tree_util.keystr(path): leaf for path, leaf in paths}
    theirs = {
        path: leaf
        for path, leaf in leaves.items()
        if path.startswith(prefix) and path[len(prefix) :][:1] in ("", ".", "[")
    }
    for path in sorted(theirs.keys() | {path for path, leaf in ours.items() if leaf.size}):
        mine, other = _describe_leaf(ours.get(path)), _describe_leaf(theirs.get(path))
        if mine != other:
            return tree, f"{path} is {other} there and {mine} in this run"
    filled = (
        jnp.asarray(revive(theirs[path], leaf)) if path in theirs else leaf
        for path, leaf in ours.items()
    )
    return treedef.unflatten(filled), ""


def _describe_leaf(leaf: Any) -> str:
    return "absent" if leaf is None else f"{as_numpy(leaf).dtype}{as_numpy(leaf).shape}"
