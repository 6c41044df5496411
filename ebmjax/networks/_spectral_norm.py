"""Caps the spectral norm of kernels, which bounds the steepness of an energy."""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._checks import check_at_least, check_positive
from ebmjax.types import PyTree

NUM_ITERATIONS = 20


def spectral_norm(kernel: jax.Array, *, num_iterations: int = NUM_ITERATIONS) -> jax.Array:
    r"""Returns an estimate, from below, of the largest singular value of ``kernel`` as a matrix.

    .. math::
        v \leftarrow W^\top W v / \lVert W^\top W v \rVert, \qquad
        \hat\sigma = u^\top W v = \lVert W v \rVert

    from a fixed start, so this is a pure function of the kernel: there is no state to carry. The
    relative error falls like ``(s_2 / s_1)^(4 num_iterations)`` in the two largest singular values.
    The gradient holds both singular vectors fixed and is ``u v^T``, exact if the iteration has
    converged.

    Args:
      kernel: (..., O), floating point; all axes but the last become the rows of W: a convolution's
        (size, size, I, O) becomes (size^2 I, O). As a linear map of images, the convolution has at
        most ``size`` times the matrix's norm.
      num_iterations: products with W and with its transpose, at least 1 (static). With 20, kernels
        of independent normal entries, whose largest singular values are close, come out 1 to 2 %
        low.

    Returns:
      Scalar, at least float32; 0 for a kernel of zeros.

    Source: Miyato et al. 2018, who spread the iterations over training steps.

    Example:
      >>> round(float(spectral_norm(jnp.diag(jnp.array([3.0, -4.0])))), 4)
      4.0
    """
    check_at_least("num_iterations", num_iterations, 1)
    if jnp.ndim(kernel) < 2:
        raise ValueError(
            f"kernel must have at least two axes, (..., outputs), got shape {jnp.shape(kernel)}."
        )
    matrix = kernel.reshape(-1, kernel.shape[-1])
    matrix = matrix.astype(jnp.promote_types(matrix.dtype, jnp.float32))
    held = jax.lax.stop_gradient(matrix)

    def iterate(_: Any, right: jax.Array) -> jax.Array:
        return _unit(_unit(held @ right) @ held)

    # A random direction: equal entries would miss, for example, kernels that sum to zero.
    start = jax.random.normal(jax.random.key(0), (matrix.shape[1],), matrix.dtype)
    # The same value; within shard_map it now varies over the mesh as the kernel does.
    start = jnp.where(jnp.isfinite(held[0]), start, start)
    with jax.default_matmul_precision("highest"):
        right = jax.lax.fori_loop(0, num_iterations, iterate, _unit(start))
        return _unit(held @ right) @ (matrix @ right)


def cap_kernels(params: PyTree, limit: Any) -> PyTree:
    """Returns ``params`` with kernels of ``spectral_norm`` at most ``limit``.

    A kernel W becomes ``W min(1, limit / spectral_norm(W))``. Kernels are the leaves called
    "kernel", except in layers called "head", whose scale is the energy's.

    Args:
      params: nested dicts of arrays, as Flax makes them.
      limit: positive scalar, may be traced.
    """
    check_positive("limit", limit)

    def cap(path: Any, leaf: jax.Array) -> jax.Array:
        names = [getattr(entry, "key", None) for entry in path]
        if names[-1] != "kernel" or "head" in names:
            return leaf
        factor = limit / jnp.maximum(limit, spectral_norm(leaf))
        return (leaf * factor).astype(leaf.dtype)

    return jax.tree_util.tree_map_with_path(cap, params)


def _unit(vector: jax.Array) -> jax.Array:
    """Returns ``vector`` at length 1, or zero for zero."""
    length = jnp.linalg.norm(vector)
    return vector / jnp.maximum(length, jnp.finfo(vector.dtype).tiny)
