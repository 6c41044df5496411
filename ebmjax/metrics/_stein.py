"""Kernel Stein discrepancy: do positions fit a density whose score is known?"""

from functools import partial
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp

from ebmjax._checks import check_at_least, check_finite, check_fraction, check_key, check_positive
from ebmjax._precision import at_least_float32
from ebmjax.types import Key

SteinKernel = Literal["imq", "rbf"]
"""Kernel of a Stein discrepancy."""


class KernelTest(NamedTuple):
    """A kernel test.

    Attributes:
      statistic: scalar, unbiased and 0 in expectation if the hypothesis holds; large speaks
        against it.
      p_value: scalar in (0, 1], small if the hypothesis does not hold.
    """

    statistic: jax.Array | float
    p_value: jax.Array | float


def kernel_stein_discrepancy(
    key: Key,
    positions: jax.Array,
    scores: jax.Array,
    *,
    kernel: SteinKernel = "imq",
    bandwidth: float | jax.Array | None = None,
    num_bootstrap: int = 1000,
    flip_prob: float | jax.Array = 0.5,
) -> KernelTest:
    r"""Returns the squared kernel Stein discrepancy of positions from a density, with its p-value.

    The hypothesis is that the positions are draws of p. Only the score
    :math:`s = \nabla \log p` at the positions is needed, so log Z is not:

    .. math::
        \frac{1}{n (n - 1)} \sum_{i \ne j} u(x_i, x_j), \quad
        u(x, y) = s(x) \cdot s(y)\, k + s(x) \cdot \nabla_y k + s(y) \cdot \nabla_x k
        + \nabla_x \cdot \nabla_y k

    The p-value is that of the wild bootstrap: the share of random signs :math:`w_i w_j u_{ij}`
    whose sum is as large. Its level is right for many positions; the test suite measures it at 50.

    The test cannot see the weights of modes far apart, because the score does not change with
    them. It also loses power as the dimension grows.

    Args:
      key: of the random signs.
      positions: (n, ...), n >= 2; axes after the first are flattened to d coordinates.
      scores: the same shape, the density's scores there; nats per unit of the positions.
      kernel: ``"imq"``, ``(1 + |x - y|^2 / bandwidth^2)^(-1/2)``, which sees samples that miss part
        of p; or ``"rbf"``, ``exp(-|x - y|^2 / (2 bandwidth^2))``. Static.
      bandwidth: positive, in the positions' unit; None is the median distance of two positions.
      num_bootstrap: random signs of all positions; the least p-value is
        ``1 / (num_bootstrap + 1)``. Static.
      flip_prob: probability that a sign differs from the one before. 1/2 is for independent
        positions; less is for draws of one chain, in their order, that depend on each other.

    Returns:
      A ``KernelTest``. Memory grows with n^2; jittable.

    Raises:
      ValueError: for shapes that differ, and for numbers outside their range.

    Source: Liu, Lee & Jordan 2016, arXiv:1602.03253. Wild bootstrap: Chwialkowski, Strathmann &
    Gretton 2016, arXiv:1602.02964. Kernel: Gorham & Mackey 2017, arXiv:1703.01717.

    Example:
      >>> x = jax.random.normal(jax.random.key(0), (100, 2))
      >>> fits = kernel_stein_discrepancy(jax.random.key(1), x, -x)  # the standard normal's score
      >>> shifted = kernel_stein_discrepancy(jax.random.key(1), x, 1.0 - x)
      >>> bool(fits.p_value > 0.05), bool(shifted.p_value < 0.01)
      (True, True)
    """
    check_key("key", key)
    if kernel not in get_args(SteinKernel):
        raise ValueError(f"kernel must be 'imq' or 'rbf', got {kernel=}.")
    if jnp.shape(positions) != jnp.shape(scores) or jnp.ndim(positions) < 2 or len(positions) < 2:
        raise ValueError(
            "positions and scores must have one shape (n, ...) with n >= 2, got "
            f"{jnp.shape(positions)} and {jnp.shape(scores)}."
        )
    check_finite("positions", positions)
    check_finite("scores", scores)
    check_at_least("num_bootstrap", num_bootstrap, 1)
    check_fraction("flip_prob", flip_prob)
    if bandwidth is not None:
        check_positive("bandwidth", bandwidth)
    return _test(key, positions, scores, bandwidth, flip_prob, kernel, num_bootstrap)


@partial(jax.jit, static_argnums=(5, 6), inline=True)
def _test(
    key: Key,
    positions: jax.Array,
    scores: jax.Array,
    bandwidth: jax.Array | None,
    flip_prob: jax.Array,
    kernel: str,
    num_bootstrap: int,
) -> KernelTest:
    num = len(positions)
    x, s = (at_least_float32(jnp.reshape(a, (num, -1))) for a in (positions, scores))
    pairs = _stein_kernel(x, s.astype(x.dtype), kernel, bandwidth)
    pairs = jnp.where(jnp.eye(num, dtype=bool), 0, pairs) / (num * (num - 1))
    statistic = jnp.sum(pairs)
    flips = jax.random.bernoulli(key, flip_prob, (num_bootstrap, num))
    signs = jnp.cumprod(jnp.where(flips, -1, 1).astype(x.dtype), axis=1)
    drawn = jnp.sum((signs @ pairs) * signs, axis=1)
    p_value = (1 + jnp.sum(drawn >= statistic)).astype(x.dtype) / (num_bootstrap + 1)
    is_known = jnp.isfinite(statistic)  # a comparison with NaN would give the least p-value
    return KernelTest(statistic, jnp.where(is_known, p_value, jnp.nan))


def _stein_kernel(
    x: jax.Array, s: jax.Array, kernel: str, bandwidth: jax.Array | None
) -> jax.Array:
    """Returns u (n, n). A radial kernel is f(t) of t = |x - y|^2, with derivatives f' and f''."""
    x = x - jnp.mean(
        x, axis=0, keepdims=True
    )  # distances do not change with it, their rounding does
    dot = partial(jnp.matmul, precision="highest")
    inner, cross, of_scores = dot(x, x.T), dot(s, x.T), dot(s, s.T)
    norms = jnp.diagonal(inner)
    t = jnp.maximum(norms[:, None] + norms[None, :] - 2 * inner, 0)
    if bandwidth is None:
        median = jnp.median(t[jnp.triu_indices(len(x), 1)])
        bandwidth = jnp.sqrt(jnp.where(median > 0, median, 1))
    scale = jnp.asarray(1 / jnp.square(bandwidth), x.dtype)
    if kernel == "imq":
        f = jax.lax.rsqrt(1 + scale * t)
        first, second = -scale / 2 * f**3, 3 / 4 * scale**2 * f**5
    else:
        f = jnp.exp(-scale * t / 2)
        first, second = -scale / 2 * f, scale**2 / 4 * f
    along = jnp.diagonal(cross)  # s_i . x_i
    # (s_j - s_i) . (x_i - x_j)
    slopes = cross.T + cross - along[:, None] - along[None, :]
    return of_scores * f + 2 * slopes * first - 2 * x.shape[1] * first - 4 * t * second
