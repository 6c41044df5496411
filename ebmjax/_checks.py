"""Checks of arguments that come from people: they name the argument, what was expected, what came.

A traced value cannot be inspected, so inside ``jit`` these pass and the arithmetic decides.
"""

from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from ebmjax.types import LogDensityFn, PyTree

MAX_SHOWN = 160


def is_traced(value: Any) -> bool:
    """Whether a value is known only when a compiled program runs."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value))


def shown(value: Any) -> str:
    """``value`` for a message: in full if short, else its beginning, its type and its shape."""
    text = " ".join(str(value).split())
    if len(text) <= MAX_SHOWN:
        return text
    shape = f" of shape {value.shape}" if hasattr(value, "shape") else ""
    return f"{text[:MAX_SHOWN]}... (a {type(value).__name__}{shape})"


def _numbers(name: str, value: Any) -> np.ndarray:
    numbers = np.asarray(value)
    if not jnp.issubdtype(numbers.dtype, jnp.number):
        raise TypeError(
            f"{name} must be a number or an array of numbers, got {name}={shown(repr(value))}."
        )
    return numbers


def check_positive(name: str, value: Any) -> None:
    """Raises ValueError unless every concrete entry of ``value`` is finite and above zero."""
    if is_traced(value):
        return
    numbers = _numbers(name, value)
    if not np.all(np.isfinite(numbers) & (numbers > 0)):
        raise ValueError(f"{name} must be positive and finite, got {name}={shown(value)}.")


def check_not_negative(name: str, value: Any) -> None:
    """Raises ValueError unless every concrete entry of ``value`` is finite and at least zero."""
    if is_traced(value):
        return
    numbers = _numbers(name, value)
    if not np.all(np.isfinite(numbers) & (numbers >= 0)):
        raise ValueError(f"{name} must be zero or more and finite, got {name}={shown(value)}.")


def check_finite(name: str, value: Any) -> None:
    """Raises ValueError unless every concrete entry of ``value`` is finite."""
    if not is_traced(value) and not np.all(np.isfinite(_numbers(name, value))):
        raise ValueError(f"{name} must be finite, got {name}={shown(value)}.")


def check_fraction(name: str, value: Any) -> None:
    """Raises ValueError unless every concrete entry of ``value`` lies in [0, 1]."""
    if is_traced(value):
        return
    numbers = _numbers(name, value)
    if not np.all((numbers >= 0) & (numbers <= 1)):
        raise ValueError(f"{name} must lie between 0 and 1, got {name}={shown(value)}.")


def check_interval(low: Any, high: Any) -> None:
    """Raises ValueError unless concrete ``low`` and ``high`` are ordered; infinite ends may be."""
    if is_traced((low, high)):
        return
    if not np.all(_numbers("low", low) < _numbers("high", high)):
        raise ValueError(f"low must be below high, got low={shown(low)} and high={shown(high)}.")


def check_scalar(name: str, value: Any) -> None:
    """Raises ValueError unless ``value`` has no axes, TypeError unless it is a number."""
    if not is_traced(value):
        value = _numbers(name, value)
    if jnp.shape(value) != ():
        raise ValueError(f"{name} must be a scalar, got shape {jnp.shape(value)}.")


def check_broadcasts(name: str, value: Any, position: PyTree) -> None:
    """Raises ValueError unless ``value`` broadcasts to the shape of every leaf of ``position``."""
    shape = jnp.shape(value)
    for path, leaf in jax.tree_util.tree_leaves_with_path(position) if shape else []:
        try:
            fits = np.broadcast_shapes(shape, jnp.shape(leaf)) == jnp.shape(leaf)
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(
                f"{name} must be a scalar or broadcast to the shape of position"
                f"{jax.tree_util.keystr(path)}, {jnp.shape(leaf)}; got shape {shape}."
            )


def check_box(low: Any, high: Any, position: PyTree) -> None:
    """Raises ValueError unless both ends of a box broadcast to every leaf of ``position``."""
    check_broadcasts("low", low, position)
    check_broadcasts("high", high, position)


def check_at_least(name: str, value: int, minimum: int) -> None:
    """Raises ValueError unless the integer ``value`` is at least ``minimum``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < minimum:
        raise ValueError(
            f"{name} must be an integer of at least {minimum}, got {name}={shown(repr(value))}."
        )


def check_labels(name: str, labels: Any, num_examples: int, num_classes: int) -> None:
    """Raises unless concrete ``labels`` are one class in 0, ..., num_classes - 1 an example.

    Raises:
      TypeError: if they are not integers.
      ValueError: if there are not as many as examples, or one lies outside.
    """
    labels = np.asarray(labels)
    if not np.issubdtype(labels.dtype, np.integer):
        raise TypeError(
            f"{name} must be integers, got dtype {labels.dtype}. Give class numbers, not one-hot "
            "rows or probabilities."
        )
    if labels.shape != (num_examples,):
        raise ValueError(
            f"{name} must hold one class an image, shape ({num_examples},); got {labels.shape}."
        )
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


def check_floating(name: str, tree: PyTree) -> None:
    """Raises TypeError where a leaf of ``tree`` is not a floating-point array."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if not jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
            where = name + jax.tree_util.keystr(path)
            raise TypeError(
                f"{where} must hold floating-point numbers, because a sampler follows gradients; "
                f"got dtype {jnp.result_type(leaf)}. Convert it with .astype(jnp.float32)."
            )
    if not jax.tree.leaves(tree):
        raise ValueError(f"{name} holds no arrays; expected a PyTree with at least one.")


def check_scalar_density(log_density_fn: LogDensityFn, position: PyTree) -> None:
    """Raises ValueError unless ``log_density_fn`` maps one ``position`` to one scalar."""
    value = jax.eval_shape(log_density_fn, position)
    shapes = jax.tree.map(lambda leaf: leaf.shape, value)
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
        parts = jax.tree.leaves(tree, is_leaf=lambda part: isinstance(part, list))
        has_list = any(isinstance(part, list) for part in parts)
        hint = " A list counts as many arrays: make it one by numpy.asarray." if has_list else ""
        raise ValueError(
            f"{name} must be arrays that share their leading axis, got leading sizes "
            f"{shown(sizes or {})}.{hint}"
        )
    return next(iter(sizes.values()))  # type: ignore[return-value]
