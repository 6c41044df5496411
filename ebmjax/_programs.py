"""Programs that equal traces share: loops called outside of jit compile once."""

from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from typing import Any

import jax
import jax.core
import numpy as np
from jax.extend import core

NUM_KEPT = 32
"""Programs that are kept, those used last."""

RULES = {"jvp_jaxpr_fun", "fwd_jaxpr_thunk", "bwd", "out_trees"}
"""Parameters that say how to differentiate: new at every trace, and of no use to a program."""


def run_program(function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns ``function(*arguments)``, by a compiled program where nothing is being traced.

    Outside of jit, JAX compiles ``lax.scan`` and its like anew for every new function object, and
    keeps the program. Here ``function`` is traced at every call, so that whatever it reads is read
    again. A program is compiled only for a trace that differs from the last ``NUM_KEPT``. Arrays
    that it closes over are arguments of the program, which keeps none of them.

    Inside jit, vmap, grad and the like this is the plain call.
    """
    return make_program(function, *arguments)(*arguments)


def make_program(function: Callable[..., Any], *examples: Any) -> Callable[..., Any]:
    """Returns what ``run_program`` calls, for many arguments of the shapes of ``examples``.

    Whatever ``function`` reads besides its arguments is read now, and no more.
    """
    if jax.config.jax_disable_jit or not _is_outside():  # type: ignore[attr-defined]
        return function
    leaves, structure = jax.tree.flatten(examples)  # JAX keeps structures, and what is in them
    call = lambda *leaves: function(*jax.tree.unflatten(structure, leaves))  # noqa: E731
    traced, shapes = jax.make_jaxpr(call, return_shape=True)(*leaves)
    jaxpr: Any = traced.jaxpr
    if hasattr(jaxpr, "with_consts"):  # from JAX 0.12 on it holds the arrays, too
        jaxpr = jaxpr.with_consts(())
    program, found = _program(_Trace(jaxpr)), jax.tree.structure(shapes)

    def run(*arguments: Any) -> Any:
        return jax.tree.unflatten(found, program(traced.consts, jax.tree.leaves(arguments)))

    return run


def _is_outside() -> bool:
    """Returns whether no transformation of JAX is at work."""
    here = core.get_opaque_trace_state()
    with jax.core.eval_context():
        return here == core.get_opaque_trace_state()


class _Trace:
    """A traced program, equal to another that computes the same by the same steps."""

    def __init__(self, jaxpr: core.Jaxpr) -> None:
        self.jaxpr = jaxpr  # keeps alive what the form names by its id
        self.form = _form_of(jaxpr)

    def __hash__(self) -> int:
        return hash(self.form)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Trace) and self.form == other.form


@lru_cache(maxsize=NUM_KEPT)
def _program(trace: _Trace) -> Callable[..., list[Any]]:
    def run(constants: list[Any], leaves: list[Any]) -> list[Any]:
        return core.jaxpr_as_fun(core.ClosedJaxpr(trace.jaxpr, constants))(*leaves)

    return jax.jit(run)


def _form_of(jaxpr: core.Jaxpr) -> Hashable:
    """Returns a jaxpr with numbers for its variables."""
    numbers: dict[Any, int] = {}

    def number(atom: Any) -> Hashable:
        if isinstance(atom, core.Literal):
            return atom.aval, _constant(atom.val)
        return numbers.setdefault(atom, len(numbers)), atom.aval

    def line(equation: Any) -> Hashable:
        ends = [tuple(map(number, atoms)) for atoms in (equation.invars, equation.outvars)]
        return equation.primitive, *ends, _plain(equation.params), frozenset(equation.effects)

    first = tuple(map(number, (*jaxpr.constvars, *jaxpr.invars)))
    return first, tuple(map(line, jaxpr.eqns)), tuple(map(number, jaxpr.outvars))


def _plain(value: Any) -> Hashable:
    """Returns a parameter of an equation as something that can be compared."""
    if isinstance(value, core.ClosedJaxpr):
        return _form_of(value.jaxpr), tuple(map(_constant, value.consts))
    if isinstance(value, core.Jaxpr):
        return _form_of(value)
    if isinstance(value, Mapping):
        return tuple((name, _plain(part)) for name, part in value.items() if name not in RULES)
    if isinstance(value, tuple | list):
        return type(value), tuple(map(_plain, value))
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value


def _constant(value: Any) -> Hashable:
    """Returns an array of JAX by its identity, another by its numbers, which may change."""
    if isinstance(value, jax.Array):
        return id(value)
    numbers = np.asarray(value)
    return numbers.shape, numbers.dtype, numbers.tobytes()
