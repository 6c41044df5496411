"""Test of fit with a p-value, by a density's score."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ebmjax._checks import check_at_least, check_finite, check_key
from ebmjax._precision import at_least_float32
from ebmjax.types import Key


class KernelTest(NamedTuple):
    """A statistic that is 0 in expectation if the hypothesis holds, and its p-value in (0, 1].

    A large statistic and a small p-value speak against the hypothesis.
    """

    statistic: jax.Array | float
    p_value: jax.Array | float


def kernel_stein_discrepancy(
    key: Key,
    positions: jax.Array,
    scores: jax.Array,
    *,
    num_bootstrap: int = 1000,
) -> KernelTest:
    r"""Returns the squared kernel Stein discrepancy of positions from a density, with its p-value.

    The hypothesis is that the positions are draws of p. Only the score
    :math:`s = \nabla \log p` at the positions is needed, so log Z is not:

    .. math::
        \frac{1}{n (n - 1)} \sum_{i \ne j} u(x_i, x_j), \quad
        u(x, y) = s(x) \cdot s(y)\, k + s(x) \cdot \nabla_y k + s(y) \cdot \nabla_x k
        + \nabla_x \cdot \nabla_y k

    with :math:`k = (1 + |x - y|^2 / h^2)^{-1/2}` and h the median distance of two positions. The
    density must not end at the faces of a box: exact draws would be rejected.

    The p-value is that of the wild bootstrap: the share of random signs :math:`w_i w_j u_{ij}`
    whose sum is as large. Positions must be independent: thin the draws of a chain. The test cannot
    see the weights of modes far apart, because the score does not change with them. It also loses
    power as the dimension grows.

    Args:
      key: of the random signs.
      positions: (n, ...), n >= 2; axes after the first are flattened to d coordinates.
      scores: the same shape, the density's scores there; nats per unit of the positions.
      num_bootstrap: random signs of all positions; the least p-value is
        ``1 / (num_bootstrap + 1)``. Static.

    Returns:
      A ``KernelTest``. Memory grows with n^2 + n d; jittable.

    Source: Liu, Lee & Jordan 2016, arXiv:1602.03253. Wild bootstrap: Chwialkowski, Strathmann &
    Gretton 2016, arXiv:1602.02964. Kernel: Gorham & Mackey 2017, arXiv:1703.01717.
    """
    check_key("key", key)
    if jnp.shape(positions) != jnp.shape(scores) or jnp.ndim(positions) < 2 or len(positions) < 2:
        raise ValueError(
            "positions and scores must have one shape (n, ...) with n >= 2, got "
            f"{jnp.shape(positions)} and {jnp.shape(scores)}."
        )
    check_finite("positions", positions)
    check_finite("scores", scores)
    check_at_least("num_bootstrap", num_bootstrap, 1)
    return _test_stein(key, positions, scores, num_bootstrap)


@partial(jax.jit, static_argnums=3, inline=True)
def _test_stein(
    key: Key, positions: jax.Array, scores: jax.Array, num_bootstrap: int
) -> KernelTest:
    num = len(positions)
    x, s = (at_least_float32(jnp.reshape(a, (num, -1))) for a in (positions, scores))
    pairs = _stein_kernel(x, s.astype(x.dtype))
    pairs = jnp.where(jnp.eye(num, dtype=bool), 0, pairs) / (num * (num - 1))
    statistic = jnp.sum(pairs)
    flips = jax.random.bernoulli(key, 0.5, (num_bootstrap, num))
    signs = jnp.cumprod(jnp.where(flips, -1, 1).astype(x.dtype), axis=1)
    drawn = jnp.sum((signs @ pairs) * signs, axis=1)
    p_value = (1 + jnp.sum(drawn >= statistic)).astype(x.dtype) / (num_bootstrap + 1)
    is_known = jnp.isfinite(statistic)  # a comparison with NaN would give the least p-value
    return KernelTest(statistic, jnp.where(is_known, p_value, jnp.nan))


def _stein_kernel(x: jax.Array, s: jax.Array) -> jax.Array:
    """Returns u (n, n), each summand as a product.

    A radial kernel is f(t) of t = |x - y|^2, with derivatives f' and f''.
    """
    # Distances do not change with the mean, their rounding does.
    x = x - jnp.mean(x, axis=0, keepdims=True)

    def dot(rows: jax.Array, others: jax.Array) -> jax.Array:
        return jnp.matmul(rows, others.T, precision="highest")

    half = dot(x * x, jnp.ones_like(x))
    t = jnp.maximum(half + half.T - 2 * dot(x, x), 0)
    median = jnp.median(t[jnp.triu_indices(len(x), 1)])
    scale = jnp.asarray(1 / jnp.where(median > 0, median, 1), x.dtype)
    f = jax.lax.rsqrt(1 + scale * t)
    first, second = -scale / 2 * f**3, 3 / 4 * scale**2 * f**5
    slopes = dot(x, s) - jnp.sum(x * s, axis=1)[None]  # (x_i - y_i) s_i(y)
    return dot(s, s) * f + 2 * (slopes + slopes.T - x.shape[1]) * first - 4 * t * second
