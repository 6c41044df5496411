"""Checks of a gradient function and an optimiser while a step is traced, before it compiles."""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax

from ebmjax.training._state import SlotWrite
from ebmjax.types import Metrics, PyTree


def check_arguments(gradient_fn: Callable[..., Any]) -> None:
    """Raises TypeError unless ``gradient_fn(key, params, carry, batch)`` is a possible call."""
    try:
        signature = inspect.signature(gradient_fn)
    except ValueError:  # some builtins do not say
        return
    try:
        signature.bind(*"kpsb")
    except TypeError as error:
        raise TypeError(
            "gradient_fn must take four arguments, gradient_fn(key, params, carry, batch); got "
            f"gradient_fn{signature}: {error}. A function without chains takes carry, too, and "
            "returns it."
        ) from None


def check_returned(returned: Any, params: PyTree, carry: PyTree) -> tuple[PyTree, PyTree, Metrics]:
    """Returns the checked (gradients, carry, metrics) of all shards of a device.

    Args:
      returned: by ``gradient_fn`` under ``vmap``.
      params: the gradients must have their structure and shapes.
      carry: that before the step; the new one must be like them.
    """
    if not isinstance(returned, tuple) or len(returned) != 3:
        got = f"{len(returned)} values" if isinstance(returned, tuple) else type(returned).__name__
        raise TypeError(
            f"gradient_fn must return a tuple (gradients, carry, metrics), got {got}. Without "
            "chains return the carry that came in."
        )
    gradients, changed, metrics = returned
    theirs = {path: f"{_kind(leaf)}{jnp.shape(leaf)}" for path, leaf in _paths(params).items()}
    ours = {path: f"{_kind(leaf)}{leaf.shape[1:]}" for path, leaf in _paths(gradients).items()}
    _check_same("gradients", ours, "params", theirs)
    new, old = _paths(changed), _paths(carry)
    theirs = {path: _one_shard(leaf, new.get(path)) for path, leaf in old.items()}
    ours = {path: _one_shard(leaf, leaf) for path, leaf in new.items()}
    _check_same("carry", ours, "TrainState.carry of one shard", theirs)
    if not isinstance(metrics, Mapping):
        raise TypeError(
            'metrics of gradient_fn must be a dictionary with at least a scalar "loss", got '
            f"{type(metrics).__name__}."
        )
    shapes = {name: value.shape[1:] for name, value in metrics.items()}
    if shapes.get("loss") != () or jnp.issubdtype(metrics["loss"].dtype, jnp.complexfloating):
        raise ValueError(
            'gradient_fn must report a scalar, real "loss" in its metrics, got the shapes '
            f"{shapes}."
        )
    return gradients, changed, metrics


def _paths(tree: PyTree) -> dict[str, Any]:
    is_leaf = lambda node: isinstance(node, SlotWrite)  # noqa: E731
    leaves = jax.tree_util.tree_leaves_with_path(tree, is_leaf=is_leaf)
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def _kind(leaf: Any) -> str:
    dtype = jnp.result_type(leaf)
    return "float" if jnp.issubdtype(dtype, jnp.floating) else str(dtype)


def _one_shard(leaf: Any, new: Any) -> str:
    """Describes a leaf of the carry, or its rows if ``new`` is a ``SlotWrite`` into it."""
    if isinstance(new, SlotWrite):
        return f"rows{(leaf.values if leaf is new else leaf).shape[2:]}"
    return f"{leaf.dtype}{leaf.shape[1:]}"


def _check_same(name: str, ours: dict[str, str], like: str, theirs: dict[str, str]) -> None:
    for path in sorted(ours.keys() | theirs.keys()):
        mine, other = ours.get(path, "missing"), theirs.get(path, "missing")
        if mine != other:
            raise ValueError(
                f"{name}{path} of gradient_fn must be like {like}{path}, {other}; got {mine}."
            )


def update(
    optimizer: optax.GradientTransformation,
    gradients: PyTree,
    opt_state: PyTree,
    params: PyTree,
    loss: jax.Array,
) -> tuple[PyTree, PyTree]:
    """Calls ``optimizer.update``, with ``value=loss`` and ``grad=gradients`` if it takes them."""
    told = optax.with_extra_args_support(optimizer).update
    try:
        return told(gradients, opt_state, params, value=loss, grad=gradients)
    except TypeError as error:
        asked = re.search(r"missing \d+ required keyword-only arguments?: (.*)", str(error))
        if asked is None:
            raise
        raise TypeError(
            f"optimizer needs {asked[1]}, which a training step does not have: it gives an optax "
            "transformation value= (the loss) and grad= (the mean gradients). The loss at other "
            "parameters would take new chains, so a line search cannot have it: take "
            "optax.lbfgs(learning_rate, linesearch=None), and for SAM ebmjax.optim.sam_gradients."
        ) from error
