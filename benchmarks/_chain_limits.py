"""The limits of chains of networks: their products, beside the machine's largest.

``peers.py`` prints them. Needs JAX and Flax only.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import _harness as harness
import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, JaxprEqn, jaxprs_in_params
from jax.interpreters.partial_eval import dce_jaxpr

from ebmjax.types import LogDensityFn

PARTS = ("conv_general_dilated", "dot_general")


class Parts(NamedTuple):
    """The convolutions and products of a chain's gradients."""

    num_steps: int  # gradients of the chain
    equations: list[JaxprEqn]  # of one gradient, as JAX runs it
    as_products: list[JaxprEqn]  # of one gradient whose convolutions are products


def parts(
    log_density_fn: LogDensityFn, with_products: LogDensityFn, start: jax.Array, num_steps: int
) -> Parts:
    """Finds the convolutions and products of the gradients of a chain from ``start``."""

    def found(function: LogDensityFn) -> list[JaxprEqn]:
        jaxpr = jax.make_jaxpr(jax.vmap(jax.grad(function)))(start).jaxpr
        jaxpr, _ = dce_jaxpr(jaxpr, [True])  # without what the compiler would leave out
        return [one for one in equations(jaxpr) if one.primitive.name in PARTS]

    return Parts(num_steps, found(log_density_fn), found(with_products))


def equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """Yields the equations of a program and of the programs inside it."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from equations(inner)


def alone(found: list[JaxprEqn]) -> Callable[[], Any]:
    """Returns a compiled call that computes these equations, with random numbers, and no others."""
    shapes: list[list[Any]] = [
        [variable.aval for variable in equation.invars] for equation in found
    ]
    inputs = [
        [jax.random.normal(jax.random.key(i), one.shape, one.dtype) for one in of_one]
        for i, of_one in enumerate(shapes)
    ]

    def run(inputs: Any) -> Any:
        pairs = zip(found, inputs, strict=True)
        return [equation.primitive.bind(*of_one, **equation.params) for equation, of_one in pairs]

    program, _ = harness.compile_program(run, inputs)
    return lambda: program(inputs)


def operations(product: Any) -> int:
    """Returns the number of multiplications and additions of a product."""
    ((contracted, _), _) = product.params["dimension_numbers"]
    left = product.invars[0].aval.shape
    return 2 * math.prod(product.outvars[0].aval.shape) * math.prod(left[i] for i in contracted)


def measure_limit(
    work: str, chain: Callable[[], Any], parts: Parts, repeats: int, peak: float
) -> harness.Row:
    """Times a chain, and its convolutions and products alone.

    ``peak`` are operations a second of this machine's largest product.
    """
    calls = {
        "ours": chain,
        "alone": alone(parts.equations),
        "as products": alone(parts.as_products),
    }
    times = harness.time_in_turn(calls, repeats)
    ours, bare, as_products = map(harness.median_ms, times.values())
    flops = parts.num_steps * sum(map(operations, parts.as_products))
    return {
        "work": work,
        "10⁹ op.": flops / 1e9,
        "ours ms": ours,
        "10⁹ op./s": flops / ours / 1e6,
        "of peak": flops / (1e-3 * ours) / peak,
        "alone ms": parts.num_steps * bare,
        "as products ms": parts.num_steps * as_products,
    }


def product_rate(side: int, repeats: int, dtype: Any = jnp.float32) -> float:
    """Returns operations a second of a product of square matrices, the fastest of ``repeats``."""
    matrix = jnp.ones((side, side), dtype)
    program, _ = harness.compile_program(jnp.matmul, matrix, matrix)
    times = harness.time_in_turn({"": lambda: program(matrix, matrix)}, repeats)[""]
    return 2 * side**3 / min(times)
