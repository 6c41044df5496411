"""Checks a run's data once on the host, and recognises them when the run continues."""

import hashlib
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from ebmjax._checks import leading_size
from ebmjax._stored import AT_ONCE, in_parts, is_stored
from ebmjax.training._checkpoints import CheckpointMismatchError
from ebmjax.training._state import TrainState, as_numpy
from ebmjax.types import PyTree


def check_data(train_step: Any, state: TrainState, data: PyTree) -> int:
    """Checks all data once, on the host; returns the number of examples.

    Inside ``jit`` values are not checked, and a NaN would spoil every step that uses it.

    Raises:
      ValueError: if the arrays do not share their leading axis, or hold a number that is not
        finite; and errors of the model's check (``with_data_check``).
    """
    num_examples = leading_size("data", data)
    for path, leaf in jax.tree_util.tree_leaves_with_path(data):
        if is_stored(leaf) or not jax.numpy.issubdtype(leaf.dtype, np.inexact):
            continue
        array, name = np.asarray(leaf), "data" + jax.tree_util.keystr(path)
        if not (is_broken := ~np.isfinite(array)).any():
            continue
        first = tuple(int(i) for i in np.argwhere(is_broken)[0])
        raise ValueError(
            f"{name} must be finite: {np.count_nonzero(is_broken)} of its {array.size} numbers are "
            f"NaN or infinite, the first {name}[{', '.join(map(str, first))}]={array[first]}. "
            "Repair these examples or leave them out."
        )
    if check_model := getattr(train_step, "check_data", None):
        one_shard = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), state.carry)
        check_model(jax.eval_shape(lambda: state.params), one_shard, data)
    return num_examples


def digest_data(data: PyTree) -> dict[str, tuple[str, ...]]:
    """Returns a digest of the data, made once on the host: about 2 s for each gigabyte.

    It has the path of every array, to "dtype(shape)" and SHA-256 of: all its bytes, those of some
    rows, and names and sizes of the rows' files. "" stands for what is not known.
    Data in files are read once from end to end. Where each row has another file, only
    ``AT_ONCE`` rows are read, evenly spaced.
    """
    found = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(data):
        array = leaf if is_stored(leaf) else as_numpy(leaf)
        files = array.files() if is_stored(array) else None
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
