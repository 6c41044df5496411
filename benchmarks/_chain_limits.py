"""The limits of chains of networks: their products, beside the machine's largest.

``peers.py`` prints the table.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn, jaxprs_in_params
from jax.interpreters.partial_eval import dce_jaxpr
from sampler_throughput import Chain, seconds

from ebmjax.types import LogDensityFn

PARTS = ("conv_general_dilated", "dot_general")


class Parts(NamedTuple):
    """The convolutions and products of a chain's gradients.

    Attributes:
      num_steps: gradients of the chain.
      equations: of one gradient, as JAX runs it.
      as_products: of one gradient whose convolutions are products.
    """

    num_steps: int
    equations: list[JaxprEqn]
    as_products: list[JaxprEqn]


class Limit(NamedTuple):
    """Times of a chain of ours and of its parts: medians over the repeats, in milliseconds.

    Attributes:
      work: what was done.
      gflop: 10⁹ operations of the products of its gradients.
      ours: the whole chain.
      equations: the convolutions and products of its gradients alone.
      as_products: the same where convolutions are products.
    """

    work: str
    gflop: float
    ours: float
    equations: float
    as_products: float


def parts(
    log_density_fn: LogDensityFn, with_products: LogDensityFn, start: jax.Array, num_steps: int
) -> Parts:
    """The convolutions and products of the gradients of a chain from ``start``."""

    def found(function: LogDensityFn) -> list[JaxprEqn]:
        jaxpr = jax.make_jaxpr(jax.vmap(jax.grad(function)))(start).jaxpr
        jaxpr, _ = dce_jaxpr(jaxpr, [True])  # without what the compiler would leave out
        return [one for one in equations(jaxpr) if one.primitive.name in PARTS]

    return Parts(num_steps, found(log_density_fn), found(with_products))


def equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """Those of a program and of the programs inside it."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from equations(inner)


def alone(found: list[JaxprEqn]) -> Callable[[], Any]:
    """A compiled program that computes these equations, of random numbers, and nothing else."""
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

    program = jax.jit(run).lower(inputs).compile()
    return lambda: program(inputs)


def operations(product: Any) -> int:
    """Multiplications and additions of a product."""
    ((contracted, _), _) = product.params["dimension_numbers"]
    left = product.invars[0].aval.shape
    return 2 * math.prod(product.outvars[0].aval.shape) * math.prod(left[i] for i in contracted)


def limit(work: str, chain: Chain, parts: Parts, repeats: int) -> Limit:
    """Times a chain, and its convolutions and products alone."""
    programs = [chain, alone(parts.equations), alone(parts.as_products)]
    timings = [[seconds(program) for program in programs] for _ in range(repeats + 1)]
    ours, *bare = 1e3 * np.median(timings[1:], axis=0)  # the first warms up
    flops = parts.num_steps * sum(map(operations, parts.as_products))
    return Limit(work, flops / 1e9, ours, *(parts.num_steps * ms for ms in bare))


def fastest_product(repeats: int) -> float:
    """10⁹ operations a second of a product of two matrices of 2048 rows and columns."""
    a = jnp.ones((2048, 2048))
    program = jax.jit(jnp.matmul).lower(a, a).compile()
    return 2 * 2048**3 / min(seconds(lambda: program(a, a)) for _ in range(repeats + 1)) / 1e9


def table(limits: list[Limit], peak: float) -> str:
    """Returns what limits our chains as aligned text."""
    header = (
        f"{'work':42} {'10⁹ op.':>8} {'ours ms':>9} {'10⁹ op./s':>10} {'of peak':>8} "
        f"{'alone ms':>9} {'as products ms':>15}"
    )
    lines = [
        f"{one.work:42} {one.gflop:8.2f} {one.ours:9.2f} {1e3 * one.gflop / one.ours:10.0f} "
        f"{1e3 * one.gflop / one.ours / peak:8.2f} {one.equations:9.2f} {one.as_products:15.2f}"
        for one in limits
    ]
    head = f"The largest product: {peak:.0f} 10⁹ operations a second"
    return "\n".join([head, header, "-" * len(header), *lines])
