"""Checks of arguments that come from people: they name the argument, what was expected, what came.

A traced value cannot be inspected, so inside ``jit`` these pass and the arithmetic decides.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from ebmjax._shown import trim as trim
from ebmjax.types import LogDensityFn, PyTree


def is_traced(value: Any) -> bool:
    """Returns whether a value is known only when a compiled program runs."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value))


def _as_real(name: str, value: Any) -> Any:
    """Returns a number or an array of real numbers, on the host unless it is traced; or raises."""
    is_known = not isinstance(value, jax.core.Tracer)
    array = np.asarray(value) if is_known else value
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise TypeError(
            f"{name} must hold real numbers, got dtype {array.dtype}. Give the real part, or real "
            "and imaginary part as two arrays."
        )
    if is_known and not jnp.issubdtype(array.dtype, jnp.number):
        raise TypeError(
            f"{name} must be a number or an array of numbers, got {name}={trim(repr(value))}."
        )
    return array


def check_key(name: str, key: Any) -> None:
    """Raises TypeError unless ``key`` is a typed random key, or an array of them."""
    dtype = getattr(key, "dtype", None)
    if dtype is None or not jnp.issubdtype(dtype, jax.dtypes.prng_key):
        got = type(key).__name__ if dtype is None else f"dtype {dtype} and shape {jnp.shape(key)}"
        raise TypeError(
            f"{name} must be a typed key: use jax.random.key(seed), not an integer and not "
            f"jax.random.PRNGKey (jax.random.wrap_key_data makes such a one typed); got {got}."
        )


def check_entries(
    words: str,
    holds: Callable[[np.ndarray], Any],
    name: str,
    value: Any,
    *,
    is_scalar: bool = False,
) -> None:
    """Raises ValueError unless ``holds`` is true of every concrete entry of ``value``.

    Args:
      words: what must be, for the message.
      holds: tests an array.
      name: of the argument.
      value: a number, an array, a list of numbers, or a PyTree; the message then names the leaf.
        TypeError for what is no real number.
      is_scalar: whether it must be one number.
    """
    parts = jax.tree_util.tree_leaves_with_path(value)
    is_list = isinstance(value, list | tuple) and all(np.isscalar(part) for _, part in parts)
    for path, part in [((), value)] if is_scalar or is_list or not parts else parts:
        where = name + jax.tree_util.keystr(path)
        numbers = _as_real(where, part)
        if is_scalar and numbers.shape != ():
            raise ValueError(f"{name} must be a scalar, got shape {numbers.shape}.")
        if not is_traced(part) and not np.all(holds(numbers)):
            raise ValueError(f"{where} must {words}, got {where}={trim(part)}.")


check_positive = partial(
    check_entries, "be positive and finite", lambda x: np.isfinite(x) & (x > 0)
)
check_not_negative = partial(
    check_entries, "be zero or more and finite", lambda x: np.isfinite(x) & (x >= 0)
)
check_finite = partial(check_entries, "be finite", np.isfinite)
check_scalar = partial(check_entries, "be a number", lambda x: True, is_scalar=True)
check_fraction = partial(check_entries, "lie between 0 and 1", lambda x: (x >= 0) & (x <= 1))


def per_leaf(value: Any, position: PyTree) -> PyTree:
    """``value`` for each leaf of ``position``: the same for all, or a PyTree's own entries."""
    if jax.tree.structure(value) == jax.tree.structure(position):
        return value
    return jax.tree.map(lambda _: value, position)


def check_broadcasts(name: str, value: Any, position: PyTree) -> None:
    """Raises ValueError unless ``value`` broadcasts to the shape of every leaf of ``position``.

    ``value`` may be a PyTree with the structure of ``position``: then each entry must broadcast to
    its own leaf.
    """
    structures = jax.tree.structure(value), jax.tree.structure(position)
    is_tree = not jax.tree_util.treedef_is_leaf(structures[0])
    if is_tree and structures[0] != structures[1]:
        raise ValueError(
            f"{name} must be a scalar, an array or a PyTree with the structure of the position, "
            f"{structures[1]}; got {structures[0]}."
        )
    leaves = jax.tree_util.tree_leaves_with_path(position)
    for (path, leaf), entry in zip(leaves, jax.tree.leaves(per_leaf(value, position)), strict=True):
        where, shape = jax.tree_util.keystr(path), jnp.shape(entry)
        try:
            fits = np.broadcast_shapes(shape, jnp.shape(leaf)) == jnp.shape(leaf)
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(
                f"{name}{where if is_tree else ''} must be a scalar or broadcast to the shape of "
                f"position{where}, {jnp.shape(leaf)}; got shape {shape}."
            )


def check_box(low: Any, high: Any, position: PyTree = None) -> None:
    """Raises ValueError unless concrete ``low`` and ``high`` are ordered; infinite ends may be.

    Both must broadcast to every leaf of ``position``, if it is given.
    """
    is_known = not is_traced((low, high))
    if is_known and not np.all(_as_real("low", low) < _as_real("high", high)):
        raise ValueError(f"low must be below high, got low={trim(low)} and high={trim(high)}.")
    if position is not None:
        check_broadcasts("low", low, position)
        check_broadcasts("high", high, position)


def check_at_least(name: str, value: int, minimum: int) -> None:
    """Raises ValueError unless the integer ``value`` is at least ``minimum``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < minimum:
        raise ValueError(
            f"{name} must be an integer of at least {minimum}, got {name}={trim(repr(value))}."
        )


def check_labels(name: str, labels: Any, shape: tuple[int, ...], num_classes: int) -> None:
    """Raises unless ``labels`` of ``shape`` are integers and, if concrete, below ``num_classes``.

    The least label is 0.
    """
    labels = labels if is_traced(labels) else np.asarray(labels)
    if not jnp.issubdtype(labels.dtype, jnp.integer):
        raise TypeError(
            f"{name} must be integers, got dtype {labels.dtype}. Give class numbers, not one-hot "
            "rows or probabilities."
        )
    if labels.shape != shape:
        raise ValueError(f"{name} must hold one class an image, shape {shape}; got {labels.shape}.")
    if is_traced(labels):
        return
    labels = labels.ravel()
    outside = np.flatnonzero((labels < 0) | (labels >= num_classes))
    if outside.size == 0:
        return
    low, high = labels.min(), labels.max()
    is_shifted = high - low < num_classes and low == 1
    remedy = f"Subtract 1 from all {name}" if is_shifted else "Renumber the classes"
    raise ValueError(
        f"{name} must lie in 0..{num_classes - 1}; {outside.size} of {labels.size} do not, the "
        f"first {name}[{outside[0]}] = {labels[outside[0]]}. They run from {low} to {high}. "
        f"{remedy}, leave such examples out, or correct {num_classes=}."
    )


def check_arrays(name: str, tree: PyTree, *, is_floating: bool = False) -> None:
    """Raises TypeError where a leaf of ``tree`` is neither an array nor a number.

    With ``is_floating`` it also does where a leaf is no floating-point array, and raises ValueError
    for a tree without leaves.
    """
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    for path, leaf in leaves:
        where = name + jax.tree_util.keystr(path)
        try:
            dtype = jnp.result_type(leaf)
        except TypeError as error:
            raise TypeError(
                f"{where} must be an array, got {leaf!r} of type {type(leaf).__name__}. Take the "
                "arrays apart from the rest: of an Equinox module the first part of "
                "equinox.partition(module, equinox.is_inexact_array)."
            ) from error
        if is_floating and not jnp.issubdtype(dtype, jnp.floating):
            raise TypeError(
                f"{where} must hold floating-point numbers, because gradients are taken in it; "
                f"got dtype {dtype}. Convert integers with .astype(jnp.float32); of complex "
                "numbers give the real part."
            )
    if is_floating and not leaves:
        raise ValueError(f"{name} holds no arrays; expected a PyTree with at least one.")


check_floating = partial(check_arrays, is_floating=True)


def check_scalar_density(log_density_fn: LogDensityFn, position: PyTree) -> None:
    """Raises unless ``log_density_fn`` maps one ``position``, of some numbers, to a real scalar."""
    shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(position)]
    if not any(map(math.prod, shapes)):
        raise ValueError(f"a position must hold at least one number, got the shapes {shapes}.")
    try:
        value = jax.eval_shape(log_density_fn, position)
    except Exception as error:  # of the user's own network
        shapes = jax.tree.map(jnp.shape, position)
        error.add_note(
            f"This is the log density at a position of shape {shapes}. If the model takes another "
            "shape, correct what drew the position, such as start_fn."
        )
        raise
    shapes = jax.tree.map(lambda leaf: leaf.shape, value)
    if shapes == () and not jnp.issubdtype(value.dtype, jnp.floating):
        raise TypeError(
            "log_density_fn must return a real floating-point number, because a sampler follows "
            f"its gradient; got dtype {value.dtype}. Of a complex one take jnp.real."
        )
    if shapes != ():
        raise ValueError(
            f"log_density_fn must return a scalar for one position, got shape {shapes}. Write it "
            "for one chain (or one particle); many are the work of jax.vmap(init) and "
            "ebmjax.samplers.batch_step, or of a particle sampler."
        )


def leading_size(name: str, tree: PyTree) -> int:
    """The size of the axis every leaf of ``tree`` begins with; ValueError where they differ."""
    sizes = {
        name + jax.tree_util.keystr(path): jnp.shape(leaf)[0] if jnp.ndim(leaf) else None
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }
    if not sizes or None in sizes.values() or len(set(sizes.values())) != 1:
        parts, hint = jax.tree.leaves(tree, is_leaf=lambda part: isinstance(part, list)), ""
        if any(isinstance(part, list) for part in parts):
            hint = " A list counts as many arrays: make it one by numpy.asarray."
        elif any(
            isinstance(part, jax.Array) and jnp.issubdtype(part.dtype, jax.dtypes.prng_key)
            for part in parts
        ):
            hint = " From one key take jax.random.split(key, num)."
        raise ValueError(
            f"{name} must be arrays that share their leading axis, got leading sizes "
            f"{trim(sizes or {})}.{hint}"
        )
    return next(iter(sizes.values()))  # type: ignore[return-value]


def check_powers(powers: jax.Array, *, minimum: int = 2, is_whole: bool = False) -> None:
    """Raises ValueError unless ``minimum`` or more ``powers`` increase within [0, 1].

    With ``is_whole`` they must run from exactly 0 to exactly 1.
    """
    if jnp.ndim(powers) != 1 or jnp.shape(powers)[0] < minimum:
        raise ValueError(
            f"powers must have shape (num_powers,) with at least {minimum} of them, got shape "
            f"{jnp.shape(powers)}."
        )
    if is_traced(powers):
        return
    values = np.asarray(powers)
    if not (np.all(np.diff(values) > 0) and values[0] >= 0 and values[-1] <= 1):
        raise ValueError(
            "powers must increase strictly within [0, 1], from the prior's end to the "
            f"posterior's, got {trim(values.tolist())}. power_schedule makes such a ladder."
        )
    if is_whole and (values[0] != 0.0 or values[-1] != 1.0):
        raise ValueError(
            "powers must run from 0 (the prior) to 1 (the posterior), or their sum is not the log "
            f"evidence; got ends {values[0]} and {values[-1]}."
        )
