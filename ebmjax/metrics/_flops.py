"""Counts floating-point operations of a program, loops as often as they run."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.extend import core


def compiled_flops(fn: Callable[..., Any], *args: Any) -> float:
    """Returns floating-point operations of one call of ``fn``, from XLA's cost analysis. Host code.

    XLA counts the body of a loop once, so a chain of 60 steps seems to cost as much as one of 20.
    Here every ``scan`` is also counted by itself, and with its length. A ``while_loop`` of
    unknown length counts once, a ``cond`` as its most expensive branch.

    Args:
      fn: any function that ``jax.jit`` takes.
      *args: arrays or their ``jax.ShapeDtypeStruct``; nothing is computed with them.

    Returns:
      The operations of the program as it is written, before XLA leaves out or recomputes any.
      Fused multiply-adds count as two. Nothing is compiled.

    Example:
      >>> w = jax.numpy.ones((8, 8))
      >>> once = compiled_flops(lambda x: w @ x, w)
      >>> chain = lambda x: jax.lax.scan(lambda x, _: (w @ x, None), x, length=10)[0]
      >>> 10 <= compiled_flops(chain, w) / once < 11
      True
    """
    return _flops(jax.make_jaxpr(fn)(*args))


def _flops(program: Any) -> float:
    total = _count_once(program)
    for equation in _scans_and_branches(program.jaxpr):
        if equation.primitive.name == "cond":
            branches = equation.params["branches"]
            total += max(map(_flops, branches)) - max(map(_count_once, branches))
        else:
            length, unroll, body = (equation.params[k] for k in ("length", "unroll", "jaxpr"))
            # Counts how often the program holds the body: in the loop, and for the remainder.
            written = length if unroll >= length else unroll + length % unroll
            total += length * _flops(body) - written * _count_once(body)
    return total


def _count_once(program: Any) -> float:
    # Of the program as written: a compiled one for a GPU calls a library for its convolutions, and
    # XLA does not count those.
    lowered = jax.jit(core.jaxpr_as_fun(program)).lower(*program.in_avals)
    return float((lowered.cost_analysis() or {}).get("flops", 0.0))


def _scans_and_branches(jaxpr: core.Jaxpr) -> Iterator[core.JaxprEqn]:
    """Yields every scan and cond that is not inside another one."""
    for equation in jaxpr.eqns:
        if equation.primitive.name in ("scan", "cond"):
            yield equation
            continue
        for inner in jax.tree.leaves(
            list(equation.params.values()),
            is_leaf=lambda leaf: hasattr(leaf, "eqns"),
        ):
            if hasattr(inner, "eqns"):  # a program, closed or not: from JAX 0.12 on one class
                yield from _scans_and_branches(inner)
