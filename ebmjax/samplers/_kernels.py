"""Kernels of particles, as functions of the squared distance in units of the bandwidth."""

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp

Kernel = Literal["rbf", "imq"] | Callable[[jax.Array], jax.Array]
"""A kernel k(x, y) = f(u) of SVGD, with ``u = |x - y|^2 / bandwidth^2``. ``"rbf"`` is exp(-u / 2)
and ``"imq"``, the inverse multiquadric, 1 / sqrt(1 + u), whose tail reaches farther. A function
takes a scalar u to a scalar that JAX can differentiate."""


def check_kernel(kernel: Any, *, needs_waves: bool = False) -> None:
    """Raises ValueError unless ``kernel`` is a ``Kernel``, and one of known waves if needed."""
    if not (kernel in ("rbf", "imq") if isinstance(kernel, str) else callable(kernel)):
        raise ValueError(
            "kernel must be 'rbf', 'imq' or a function of u = |x - y|^2 / bandwidth^2, got "
            f"{kernel!r}. Under schedule, which calls functions with the step, bind it before: "
            "functools.partial(svgd, kernel=...)."
        )
    if needs_waves and callable(kernel):
        raise ValueError(
            "kernel of stochastic_svgd must be 'rbf' or 'imq', whose random waves make its noise; "
            "got a function. Use svgd or adaptive_svgd with it, which draw no noise."
        )


def evaluate_kernel(kernel: Kernel, scaled: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns f and -2 f' at every squared distance over the squared bandwidth.

    The second times (x - y) / bandwidth^2 is the gradient of k(x, y) in y. Where particles
    coincide it plays no part, and may be infinite.
    """
    function: Any = (lambda u: jax.lax.rsqrt(1.0 + u)) if kernel == "imq" else kernel
    shape = jax.eval_shape(function, jax.ShapeDtypeStruct((), scaled.dtype))
    if getattr(shape, "shape", None) != ():
        raise ValueError(f"kernel must return a scalar for a scalar u, got {shape}.")
    both = jax.vmap(jax.value_and_grad(function))(scaled.ravel())
    values, slopes = (part.reshape(scaled.shape) for part in both)
    return values, jnp.where((scaled == 0) & ~jnp.isfinite(slopes), 0.0, -2.0 * slopes)
