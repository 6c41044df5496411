"""Says so where a run goes on with other numbers of its optimiser than it began with."""

import hashlib
import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
import optax

from ebmjax.training._contract import update
from ebmjax.training._digest import as_numpy
from ebmjax.training._repeats import select_repeat
from ebmjax.training._state import TrainState
from ebmjax.types import PyTree

logger = logging.getLogger(__name__)

MOST = 1000
"""Elements of the largest array whose numbers count, such as a table of learning rates."""


def describe_optimizer(train_step: Any, state: TrainState) -> dict[str, Any]:
    """Returns what a checkpoint keeps of the optimiser, for JSON.

    Args:
      train_step: from ``make_train_step``; of another function only the state counts.
      state: the caller's, before a checkpoint is restored.

    Returns:
      "injected" has the hyperparameters in the state (``optax.inject_hyperparams``), "numbers" the
      sizes of those in the optimiser's function, "digest" all that it computes. The last two are
      None where the function cannot be traced.
    """
    found = {"injected": _find_injected(state.opt_state), "numbers": None, "digest": None}
    found["versions"] = [jax.__version__, optax.__version__]
    optimizer = getattr(train_step, "optimizer", None)
    if optimizer is None:
        return found

    def one_update(state: TrainState) -> PyTree:
        one = select_repeat(state, 0) if np.ndim(state.skipped) else state
        return update(optimizer, one.params, one.opt_state, one.params, jax.numpy.float32(0.0))

    try:
        operations = [*_operations(jax.make_jaxpr(one_update)(jax.eval_shape(lambda: state)))]
    except Exception:  # such as a mean over an axis that only the step knows
        return found
    numbers = [abs(float(f"{one:.6g}")) for one in operations if isinstance(one, float)]
    found["numbers"] = sorted(numbers)
    found["digest"] = hashlib.sha256(repr(operations).encode()).hexdigest()
    return found


def tell_differences(
    theirs: Mapping[str, Any] | None, ours: dict[str, Any], restored: TrainState
) -> dict[str, Any]:
    """Warns where the optimiser differs from a checkpoint's, and says which numbers are used.

    Args:
      theirs: what the checkpoint keeps, or None.
      ours: of the optimiser given now.
      restored: the checkpoint's state.

    Returns:
      What the next checkpoint keeps.
    """
    if not theirs:
        return ours
    step, used, begun = int(restored.step), _find_injected(restored.opt_state), theirs["injected"]
    for path, value in ours["injected"].items():
        if path in used and begun.get(path, value) != value:
            logger.warning(
                "The optimiser's %s was %s when this run began, and is %s in the one given now. "
                "Checkpoint %d holds it in its state, and that is used: %s. To go on with another, "
                "begin a new run from this one by ebmjax.training.warm_start.",
                path.split("'")[-2],
                _show_numbers(begun[path]),
                _show_numbers(value),
                step,
                _show_numbers(used[path]),
            )
    is_comparable = theirs["versions"] == ours["versions"] and theirs["digest"] and ours["digest"]
    if is_comparable and theirs["digest"] != ours["digest"]:
        before, now = Counter(theirs["numbers"]), Counter(ours["numbers"])
        logger.warning(
            "The optimiser (its learning rate, a schedule or another number) is not the one that "
            "checkpoint %d was made with: %s then, %s now. The new one is used from here on. To "
            "keep the old one, give it again.",
            step,
            _show_numbers(sorted(before - now)[:5]) or "another function",
            _show_numbers(sorted(now - before)[:5]) or "another function",
        )
    return {**ours, "injected": {**ours["injected"], **theirs["injected"]}}


def _show_numbers(numbers: Any) -> str:
    return ", ".join(f"{one:.6g}" for one in np.ravel(numbers))


def _find_injected(opt_state: PyTree) -> dict[str, Any]:
    """Returns hyperparameters in the optimiser's state by path, without those of schedules."""
    leaves = {
        jax.tree_util.keystr(path): leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(opt_state)
    }
    scheduled = [path.replace(".hyperparams_states[", ".hyperparams[") for path in leaves]
    return {
        path: np.asarray(as_numpy(leaf), float).tolist()
        for path, leaf in leaves.items()
        if re.search(r"\.hyperparams\['[^']*'\]$", path)
        and not any(other != path and other.startswith(path) for other in scheduled)
    }


def _operations(jaxpr: Any) -> Iterator[Any]:
    """Yields names of operations and their numbers, in order, without names of functions."""
    if hasattr(jaxpr, "consts"):
        for value in jaxpr.consts:
            yield from _numbers(value)
        jaxpr = jaxpr.jaxpr
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for variable in equation.invars:
            if hasattr(variable, "val"):
                yield from _numbers(variable.val)
        for value in jax.tree.leaves(equation.params, is_leaf=lambda v: hasattr(v, "eqns")):
            if hasattr(value, "eqns") or hasattr(value, "jaxpr"):
                yield from _operations(value)
            elif isinstance(value, bool | int | float):
                yield from _numbers(value)


def _numbers(value: Any) -> Iterator[float]:
    array = np.asarray(as_numpy(value))
    if array.size <= MOST and array.dtype.kind in "fiub":
        yield from map(float, array.ravel())
