"""Checks a run's data once on the host, and recognises them when the run continues."""

import hashlib
import logging
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from ebmjax._checks import leading_size
from ebmjax._phases import phase
from ebmjax._stored import AT_ONCE, in_parts, is_stored
from ebmjax.training._checkpoints import CheckpointMismatchError
from ebmjax.training._digest import as_numpy
from ebmjax.training._repeats import single_shard
from ebmjax.training._state import TrainState
from ebmjax.types import PyTree

logger = logging.getLogger(__name__)


DataDigest = dict[str, tuple[str, ...]]
"""Path of every data array to "dtype(shape)" and SHA-256 of: all its bytes, those of some rows, and
names and sizes of the rows' files. "" stands for what is not known."""


def check_data(train_step: Any, state: TrainState, data: PyTree) -> int:
    """Checks all data once, on the host; returns the number of examples.

    Inside ``jit`` values are not checked, and a NaN would spoil every step that uses it.

    Raises:
      ValueError: if the arrays do not share their leading axis, or hold a number that is not
        finite; and errors of the model's check (``CheckData``).
    """
    num_examples = leading_size("data", data)
    for path, leaf in jax.tree_util.tree_leaves_with_path(data):
        if not is_stored(leaf):
            _check_finite("data" + jax.tree_util.keystr(path), as_numpy(leaf))
    check_model = getattr(train_step, "check_data", None)
    if check_model is not None:
        check_model(*single_shard(state), data)
    return num_examples


def _check_finite(name: str, array: np.ndarray) -> None:
    if not jax.numpy.issubdtype(array.dtype, np.inexact):
        return
    is_broken = ~np.isfinite(array)
    if not is_broken.any():
        return
    first = tuple(int(i) for i in np.argwhere(is_broken)[0])
    raise ValueError(
        f"{name} must be finite: {np.count_nonzero(is_broken)} of its {array.size} numbers are NaN "
        f"or infinite, the first {name}[{', '.join(map(str, first))}]={array[first]}. Repair these "
        "examples or leave them out; missing values belong into an array of their own, a mask."
    )


def digest_data(data: PyTree) -> DataDigest:
    """Returns a digest of the data, made once on the host: about 2 s for each gigabyte.

    Data in files are read once from end to end. Where each row has another file, only
    ``AT_ONCE`` rows are read, evenly spaced.
    """
    return {path: _digest(leaf) for path, leaf in _leaves(data)}


def _leaves(data: PyTree) -> list[tuple[str, Any]]:
    pairs = jax.tree_util.tree_leaves_with_path(data)
    return [
        (jax.tree_util.keystr(path), leaf if is_stored(leaf) else as_numpy(leaf))
        for path, leaf in pairs
    ]


def _digest(array: Any) -> tuple[str, ...]:
    files = array.files() if is_stored(array) else None
    some = np.linspace(0, len(array) - 1, min(AT_ONCE, len(array))).astype(int)
    return (
        f"{array.dtype}{array.shape}",
        "" if files is not None else _sha256(in_parts(array)),
        _sha256([array[some]]),
        "" if files is None else hashlib.sha256("".join(files).encode()).hexdigest(),
    )


def _sha256(parts: Iterable[np.ndarray]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def check_same_data(meta: dict[str, Any], step: int, ours: DataDigest, data: PyTree) -> None:
    """Raises unless the data are those that a checkpoint was made with.

    All are read where the checkpoint knows nothing else of them, as an older version's does.

    Args:
      meta: the checkpoint's, from ``Checkpoints.restore_latest``.
      step: the checkpoint's.
      ours: digest of the present data.
      data: the present data.

    Raises:
      CheckpointMismatchError: naming what differs and what to do.
    """
    theirs = {path: tuple(entry) for path, entry in meta["data"].items()}
    differing = list(ours.keys() ^ theirs.keys())
    for path, leaf in _leaves(data):
        pairs = zip(ours[path], theirs.get(path, ours[path]), strict=False)
        known = [pair for pair in pairs if all(pair)]
        if len(known) == 1 and len(set(known[0])) == 1:  # the layout alone, which is the same
            with phase(f"reading all {len(leaf):,} examples, to compare an older digest"):
                known.append((_sha256(in_parts(leaf)), theirs[path][1]))
        if any(mine != other for mine, other in known):
            differing.append(path)
    if not differing:
        return
    path = min(differing)
    their_layout, our_layout = (one.get(path, ("absent",))[0] for one in (theirs, ours))
    what = (
        f"data{path} has the same shape, {our_layout}, and other values"
        if their_layout == our_layout
        else f"data{path} was {their_layout} and is now {our_layout}"
    )
    raise CheckpointMismatchError(
        f"Checkpoint {step} belongs to a run on other data: {what}. Give the run the data that it "
        "began with. To go on with these instead, begin a new run in another workdir from what it "
        "has learnt, by ebmjax.training.warm_start or --config.train.start_from=FOLDER. Nothing "
        "was changed."
    )
