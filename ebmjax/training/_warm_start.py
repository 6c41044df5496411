"""Starts a new run from another run's end."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ebmjax._records import read_record
from ebmjax._shown import SEE_FAQ
from ebmjax.training._checkpoints import CheckpointMismatchError, Checkpoints
from ebmjax.training._digest import as_numpy
from ebmjax.training._leaves import revive
from ebmjax.training._state import TrainState
from ebmjax.types import PyTree

logger = logging.getLogger(__name__)


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
      state: the new run's, from ``init_state``, or for repeats from ``stack_states``.
      optimizer: the new run's.
      directory: the other run's checkpoints; nothing in it is changed.
      carry_fields: names of fields of ``state.carry``, such as "buffer" and "statistics".

    Raises:
      FileNotFoundError: if there is no checkpoint in ``directory``.
      CheckpointMismatchError: if its parameters are those of another network.
      CheckpointDamagedError: if none of its checkpoints can be read.
    """
    directory = Path(directory).expanduser()
    found, kept = None, []
    if directory.is_dir():
        with Checkpoints(directory, is_read_only=True) as checkpoints:
            found = checkpoints.read_latest()
            kept = checkpoints.list_steps()
    if found is None:
        raise FileNotFoundError(
            f"{directory} holds no checkpoint to start from. Name the folder of the checkpoints of "
            "a run that has saved one."
        )
    leaves, step = found
    health = read_record(directory, step)["user"].get("health")
    if isinstance(health, dict) and health.get("is_healthy") is False:
        logger.warning(
            "Checkpoint %d in %s, from which this run starts, is in bad health: its run was "
            "diverging. Healthy ones there are of steps %s; to start from one, copy the run's "
            "folder and remove the later checkpoints. " + SEE_FAQ,
            step,
            directory,
            kept,
        )
    params, difference = _of_the_other(state.params, ".params", leaves)
    if difference:
        raise CheckpointMismatchError(
            f"Checkpoint {step} in {directory} is of another network: {difference}. Start from a "
            "run with the network of this one."
        )
    carry, anew = {}, []
    for name in carry_fields:
        mine = getattr(state.carry, name)
        field, difference = _of_the_other(mine, f".carry.{name}", leaves)
        if difference:
            anew.append(name)
        elif jax.tree.leaves(field):
            carry[name] = field
    # Each repeat has its optimiser state.
    init = jax.vmap(optimizer.init) if jnp.ndim(state.skipped) else optimizer.init
    state = state._replace(
        params=params,
        opt_state=init(params),
        carry=state.carry._replace(**carry) if carry else state.carry,
    )
    return WarmStart(state, step, tuple(carry), tuple(anew))


def _of_the_other(tree: PyTree, prefix: str, leaves: dict[str, np.ndarray]) -> tuple[PyTree, str]:
    """Returns ``tree`` from ``leaves``, and the first leaf that does not fit in words, or ""."""
    paths, treedef = jax.tree_util.tree_flatten_with_path(tree)
    ours = {prefix + jax.tree_util.keystr(path): leaf for path, leaf in paths}
    theirs = {path: leaf for path, leaf in leaves.items() if _is_below(path, prefix)}
    for path in sorted(theirs.keys() | {path for path, leaf in ours.items() if leaf.size}):
        mine, other = _describe_leaf(ours.get(path)), _describe_leaf(theirs.get(path))
        if mine != other:
            return tree, f"{path} is {other} there and {mine} in this run"
    filled = (
        jnp.asarray(revive(theirs[path], leaf)) if path in theirs else leaf
        for path, leaf in ours.items()
    )
    return treedef.unflatten(filled), ""


def _is_below(path: str, prefix: str) -> bool:
    return path.startswith(prefix) and path[len(prefix) :][:1] in ("", ".", "[")


def _describe_leaf(leaf: Any) -> str:
    return "absent" if leaf is None else f"{as_numpy(leaf).dtype}{as_numpy(leaf).shape}"
