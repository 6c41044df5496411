"""Test of fit with a p-value, by a density's score."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax._checks import (
    check_at_least,
    check_box,
    check_finite,
    check_key,
    is_traced,
)
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
    box: tuple[Any, Any] | None = None,
    num_bootstrap: int = 1000,
) -> KernelTest:
    r"""Returns the squared kernel Stein discrepancy of positions from a density, with its p-value.

    The hypothesis is that the positions are draws of p. Only the score
    :math:`s = \nabla \log p` at the positions is needed, so log Z is not:

    .. math::
        \frac{1}{n (n - 1)} \sum_{i \ne j} u(x_i, x_j), \quad
        u(x, y) = s(x) \cdot s(y)\, k + s(x) \cdot \nabla_y k + s(y) \cdot \nabla_x k
        + \nabla_x \cdot \nabla_y k

    with :math:`k = (1 + |x - y|^2 / h^2)^{-1/2}` and h the median distance of two positions. A
    density that ends at the faces of a box needs ``box``. Then u has the operators
    :math:`T_i g = s_i g + \partial_i g` on both sides of a kernel that vanishes on the faces:

    .. math::
        u(x, y) = \sum_i T_i^x T_i^y \, h(x_i)\, k(x, y)\, h(y_i), \quad
        h(z) = \frac{4 (z - low) (high - z)}{(high - low)^2}

    Its expectation under p is 0 in each argument, since
    :math:`p\, T_i g = \partial_i (p\, g)` integrates to g's values on the two faces.

    The p-value is that of the wild bootstrap: the share of random signs :math:`w_i w_j u_{ij}`
    whose sum is as large. Positions must be independent: thin the draws of a chain. The test cannot
    see the weights of modes far apart, because the score does not change with them. It also loses
    power as the dimension grows.

    Args:
      key: of the random signs.
      positions: (n, ...), n >= 2; axes after the first are flattened to d coordinates.
      scores: the same shape, the density's scores there; nats per unit of the positions.
      box: (low, high), numbers, if the density ends there in every coordinate. Positions on a
        face, such as clamped ones, speak against it: no density has a share of draws there.
      num_bootstrap: random signs of all positions; the least p-value is
        ``1 / (num_bootstrap + 1)``. Static.

    Returns:
      A ``KernelTest``. Memory grows with n^2 + n d; jittable.

    Source: Liu, Lee & Jordan 2016, arXiv:1602.03253. Wild bootstrap: Chwialkowski, Strathmann &
    Gretton 2016, arXiv:1602.02964. Kernel: Gorham & Mackey 2017, arXiv:1703.01717. A function that
    vanishes at the ends of truncated densities: Xu 2021, arXiv:2106.12105.
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
    if box is not None:
        check_finite("box", box)
        check_box(*box)
        if not is_traced((positions, box)):
            num_outside = int(jnp.sum((positions < box[0]) | (positions > box[1])))
            if num_outside:
                raise ValueError(
                    f"positions must lie in {box=}, got {num_outside} coordinates outside. Leave "
                    "such positions out: no draw of the density is there."
                )
    return _test_stein(key, positions, scores, box, num_bootstrap)


@partial(jax.jit, static_argnums=4, inline=True)
def _test_stein(
    key: Key,
    positions: jax.Array,
    scores: jax.Array,
    box: tuple[Any, Any] | None,
    num_bootstrap: int,
) -> KernelTest:
    num = len(positions)
    x, s = (at_least_float32(jnp.reshape(a, (num, -1))) for a in (positions, scores))
    a, b = s.astype(x.dtype), jnp.ones_like(x)
    if box is not None:
        low, high = (jnp.asarray(end, x.dtype) for end in box)
        scale = 4 / jnp.square(high - low)
        b = scale * (x - low) * (high - x)
        a = a * b + scale * (low + high - 2 * x)
    pairs = _stein_kernel(x, a, b)
    pairs = jnp.where(jnp.eye(num, dtype=bool), 0, pairs) / (num * (num - 1))
    statistic = jnp.sum(pairs)
    flips = jax.random.bernoulli(key, 0.5, (num_bootstrap, num))
    signs = jnp.cumprod(jnp.where(flips, -1, 1).astype(x.dtype), axis=1)
    drawn = jnp.sum((signs @ pairs) * signs, axis=1)
    p_value = (1 + jnp.sum(drawn >= statistic)).astype(x.dtype) / (num_bootstrap + 1)
    is_known = jnp.isfinite(statistic)  # a comparison with NaN would give the least p-value
    return KernelTest(statistic, jnp.where(is_known, p_value, jnp.nan))


def _stein_kernel(x: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns u (n, n) of the operators g -> a_i g + b_i d_i g, each summand as a product.

    A radial kernel is f(t) of t = |x - y|^2, with derivatives f' and f''.
    """
    # Distances do not change with the mean, their rounding does.
    x = x - jnp.mean(x, axis=0, keepdims=True)

    def dot(rows: jax.Array, others: jax.Array) -> jax.Array:
        return jnp.matmul(rows, others.T, precision="highest")

    def square(weights: jax.Array) -> jax.Array:
        """Returns the sum of w_i(x) w_i(y) (x_i - y_i)^2."""
        half = dot(weights * x * x, weights)
        return jnp.maximum(half + half.T - 2 * dot(weights * x, weights * x), 0)

    t = square(jnp.ones_like(x))
    median = jnp.median(t[jnp.triu_indices(len(x), 1)])
    bandwidth = jnp.sqrt(jnp.where(median > 0, median, 1))
    scale = jnp.asarray(1 / jnp.square(bandwidth), x.dtype)
    f = jax.lax.rsqrt(1 + scale * t)
    first, second = -scale / 2 * f**3, 3 / 4 * scale**2 * f**5
    slopes = dot(b * x, a) - dot(b, a * x)  # b_i(x) (x_i - y_i) a_i(y)
    first_times = 2 * (slopes + slopes.T - dot(b, b))
    return dot(a, a) * f + first_times * first - 4 * square(b) * second
