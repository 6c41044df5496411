"""Numbers that compiled programs take as arguments, so that runs that differ in them share one."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

HOISTED = 16
"""Floats of the array at least: JAX keeps arrays of at most 32 bytes inside the program."""

T = TypeVar("T")


def as_arguments(value: T) -> Callable[[], T]:
    """Returns a function that rebuilds ``value``. Called while a program is traced, it traces them.

    JAX makes the arrays that a program closes over its arguments where
    JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS is set, as ``ebmjax run`` does. A Python number becomes part
    of the program, and so does a small array. So the floats stand in one array that is long enough.
    Each keeps the weak type of a Python number.

    Args:
      value: a mapping, a ``NamedTuple`` or a dataclass. Its floats are taken, and those of the
        mappings and dataclasses in it. Everything else stays as it is: integers, truth values,
        functions, None.
    """
    floats: list[float] = []

    def take(number: float) -> float:
        floats.append(number)
        return number

    _map_floats(take, value)
    padding = [0.0] * (HOISTED - len(floats))
    with jax.ensure_compile_time_eval():  # also where a program is already traced
        array = jnp.stack([jnp.asarray(number) for number in floats + padding])

    def rebuilt() -> T:
        numbers = iter(range(len(floats)))
        return _map_floats(lambda _: array[next(numbers)], value)

    return rebuilt


def _map_floats(function: Callable[[float], Any], value: Any) -> Any:
    """``value`` with ``function`` of each of its floats."""
    if isinstance(value, float):
        return function(value)
    if isinstance(value, Mapping):
        return {name: _map_floats(function, part) for name, part in value.items()}
    if is_dataclass(value) and not callable(value):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
        return replace(value, **_map_floats(function, parts))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_map_floats(function, part) for part in value))
    return value
