"""Numbers of a part by name, so that a program takes them as an argument."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any, TypeVar

import jax

T = TypeVar("T")


def numbers_of(part: Any) -> Any:
    """Returns the floats and arrays of a part, by the names of its fields and keywords.

    Args:
      part: a mapping, a dataclass, a ``NamedTuple`` or a ``functools.partial``, and what of these
        is in it. A ``jax.tree_util.Partial`` is a PyTree and stays as it is. Everything else, such
        as integers and functions, is no number.

    Returns:
      A plain dict, a PyTree of the numbers; {} without any.

    Example:
      >>> numbers_of({"sampler": partial(max, step_size=0.1), "num_steps": 3})
      {'sampler': {'step_size': 0.1}}
    """
    if isinstance(part, float | jax.Array | jax.tree_util.Partial):
        return part
    found = {name: numbers_of(value) for name, value in _named(part).items()}
    return {name: value for name, value in found.items() if not isinstance(value, dict) or value}


def with_numbers(part: T, numbers: Any) -> T:
    """Returns a part with some of its numbers replaced, which may be traced.

    Args:
      part: as ``numbers_of`` takes it.
      numbers: like the result of ``numbers_of``; those that it lacks stay.
    """
    if not isinstance(numbers, Mapping):
        return numbers
    named: Any = _named(part)
    new = {name: with_numbers(named[name], value) for name, value in numbers.items()}
    if not new:
        return part
    whole: Any = part
    if isinstance(whole, Mapping):
        return {**whole, **new}  # type: ignore[return-value]
    if isinstance(whole, partial):
        return partial(whole, **new)  # type: ignore[return-value]
    return whole._replace(**new) if hasattr(whole, "_replace") else replace(whole, **new)


def _named(part: Any) -> Mapping[str, Any]:
    if isinstance(part, Mapping):
        return part
    if isinstance(part, partial):
        return part.keywords
    if hasattr(part, "_asdict"):
        return part._asdict()
    if is_dataclass(part) and not callable(part):
        return {field.name: getattr(part, field.name) for field in fields(part)}
    return {}
