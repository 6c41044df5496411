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
    _check_structure("gradients", gradients, "params", params)
    for path, leaf, old in _pairs(gradients, params):
        _check_shape(f"gradients{path}", leaf.shape[1:], f"params{path}", jnp.shape(old))
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise TypeError(
                f"gradients{path} of gradient_fn must hold floating-point numbers, as "
                f"params{path} does with dtype {jnp.result_type(old)}; got dtype {leaf.dtype}."
            )
    _check_structure("carry", changed, "TrainState.carry", carry)
    for path, leaf, old in _pairs(changed, carry):
        _check_leaf(path, leaf, old)
    _check_metrics(metrics)
    return gradients, changed, metrics


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


def _is_write(node: Any) -> bool:
    return isinstance(node, SlotWrite)


def _paths(tree: PyTree) -> dict[str, Any]:
    leaves = jax.tree_util.tree_leaves_with_path(tree, is_leaf=_is_write)
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def _pairs(new: PyTree, old: PyTree) -> list[tuple[str, Any, Any]]:
    """Yields (path, new leaf, old leaf) of two trees of one structure."""
    before = _paths(old)
    return [(path, leaf, before[path]) for path, leaf in _paths(new).items()]


def _check_structure(name: str, new: PyTree, like: str, old: PyTree) -> None:
    structures = [jax.tree.structure(tree, is_leaf=_is_write) for tree in (new, old)]
    if structures[0] == structures[1]:
        return
    found, expected = _paths(new), _paths(old)
    missing = [f"{name}{path}" for path in expected if path not in found]
    unknown = [f"{name}{path}" for path in found if path not in expected]
    raise ValueError(
        f"{name} of gradient_fn must be a PyTree like {like}, {structures[1]}; got "
        f"{structures[0]}. Missing: {missing or 'nothing'}; unknown: {unknown or 'nothing'}."
    )


def _check_shape(name: str, shape: tuple[int, ...], like: str, expected: tuple[int, ...]) -> None:
    if shape != expected:
        raise ValueError(
            f"{name} of gradient_fn must have the shape of {like}, {expected}; got {shape}."
        )


def _check_leaf(path: str, new: Any, old: Any) -> None:
    """Checks one leaf of all shards; a ``SlotWrite`` names some slots."""
    name, like = f"carry{path}", f"TrainState.carry{path} of one shard"
    if _is_write(new):
        _check_shape(f"{name}.values[0]", new.values.shape[2:], f"{like}[0]", old.shape[2:])
        return
    _check_shape(name, new.shape[1:], like, old.shape[1:])
    if new.dtype != old.dtype:
        raise TypeError(
            f"{name} of gradient_fn must have the dtype of {like}, {old.dtype}; got {new.dtype}."
        )


def _check_metrics(metrics: Any) -> None:
    if not isinstance(metrics, Mapping):
        raise TypeError(
            'metrics of gradient_fn must be a dictionary with at least a scalar "loss", got '
            f"{type(metrics).__name__}."
        )
    shapes = {name: value.shape[1:] for name, value in metrics.items()}
    if shapes.get("loss") != ():
        raise ValueError(
            f'gradient_fn must report a scalar "loss" in its metrics, got the shapes {shapes}.'
        )
    if jnp.issubdtype(metrics["loss"].dtype, jnp.complexfloating):
        raise TypeError(
            f'the "loss" of gradient_fn must be a real number, got dtype {metrics["loss"].dtype}.'
        )
