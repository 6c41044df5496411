"""Gives calls of jitted functions to a compiler; imported before ebmjax, which decorates by jit."""

import functools
import sys
from typing import Any

import jax
import jax.core

_jit = jax.jit


class Jitted:
    """A function of ``jax.jit``, which gives its calls to ``compiler`` while there is one."""

    compiler: Any = None

    def __init__(self, function: Any, **options: Any):
        self._jitted = _jit(function, **options)
        functools.update_wrapper(self, function)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jitted, name)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        leaves = jax.tree.leaves((arguments, named))
        is_inside = any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)
        run = self._jitted if is_inside or not Jitted.compiler else Jitted.compiler.answer
        return run(*([] if run is self._jitted else [self._jitted]), *arguments, **named)


def jit(function: Any = None, **options: Any) -> Any:
    """Stands in for ``jax.jit``; before ebmjax is imported, whose decorators call it."""
    return functools.partial(jit, **options) if function is None else Jitted(function, **options)


if "ebmjax" not in sys.modules:  # else too late, as in tests
    jax.jit = jit  # pyright: ignore[reportAttributeAccessIssue]
