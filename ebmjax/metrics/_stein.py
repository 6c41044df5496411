"""Kernel Stein discrepancy: do positions fit a density whose score is known?"""

from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp

from ebmjax._checks import (
    check_at_least,
    check_finite,
    check_fraction,
    check_interval,
    check_key,
    check_positive,
    is_traced,
)
from ebmjax._precision import at_least_float32
from ebmjax.types import Key

SteinKernel = Literal["imq", "rbf"]
"""Kernel of a Stein discrepancy."""


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

    A density that ends at the faces of a box needs ``box``. Then u has the operators
    :math:`T_i g = s_i g + \partial_i g` on both sides of a kernel that vanishes on the faces:

    .. math::
        u(x, y) = \sum_i T_i^x T_i^y \, h(x_i)\, k(x, y)\, h(y_i), \quad
        h(z) = \frac{4 (z - low) (high - z)}{(high - low)^2}

    Its expectation under p is 0 in each argument, since
    :math:`p\, T_i g = \partial_i (p\, g)` integrates to g's values on the two faces.

    The p-value is that of the wild bootstrap: the share of random signs :math:`w_i w_j u_{ij}`
    whose sum is as large. Its level is right for many positions; the test suite measures it at 50.

    The test cannot see the weights of modes far apart, because the score does not change with
    them. It also loses power as the dimension grows.

    Args:
      key: of the random signs.
      positions: (n, ...), n >= 2; axes after the first are flattened to d coordinates.
      scores: the same shape, the density's scores there; nats per unit of the positions.
      box: (low, high), numbers, if the density ends there in every coordinate. Positions on a
        face, such as clamped ones, speak against it: no density has a share of draws there.
      kernel: ``"imq"``, ``(1 + |x - y|^2 / bandwidth^2)^(-1/2)``, which sees samples that miss part
        of p; or ``"rbf"``, ``exp(-|x - y|^2 / (2 bandwidth^2))``. Static.
      bandwidth: positive, in the positions' unit; None is the median distance of two positions.
      num_bootstrap: random signs of all positions; the least p-value is
        ``1 / (num_bootstrap + 1)``. Static.
      flip_prob: probability that a sign differs from the one before. 1/2 is for independent
        positions; less is for draws of one chain, in their order, that depend on each other.

    Returns:
      A ``KernelTest``. Memory grows with n^2 + n d; jittable. Shapes that differ, and numbers
      outside their range or the box, are a ValueError.

    Source: Liu, Lee & Jordan 2016, arXiv:1602.03253. Wild bootstrap: Chwialkowski, Strathmann &
    Gretton 2016, arXiv:1602.02964. Kernel: Gorham & Mackey 2017, arXiv:1703.01717. A function that
    vanishes at the ends of truncated densities: Xu 2021, arXiv:2106.12105.

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
    if box is not None:
        check_finite("box", box)
        check_interval(*box)
        if not is_traced((positions, box)):
            num_outside = int(jnp.sum((positions < box[0]) | (positions > box[1])))
            if num_outside:
                raise ValueError(
                    f"positions must lie in {box=}, got {num_outside} coordinates outside. Leave "
                    "such positions out: no draw of the density is there."
                )
    return _test(key, positions, scores, bandwidth, flip_prob, box, kernel, num_bootstrap)


@partial(jax.jit, static_argnums=(6, 7), inline=True)
def _test(
    key: Key,
    positions: jax.Array,
    scores: jax.Array,
    bandwidth: jax.Array | None,
    flip_prob: jax.Array,
    box: tuple[Any, Any] | None,
    kernel: str,
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
    pairs = _stein_kernel(x, a, b, kernel, bandwidth)
    pairs = jnp.where(jnp.eye(num, dtype=bool), 0, pairs) / (num * (num - 1))
    statistic = jnp.sum(pairs)
    flips = jax.random.bernoulli(key, flip_prob, (num_bootstrap, num))
    signs = jnp.cumprod(jnp.where(flips, -1, 1).astype(x.dtype), axis=1)
    drawn = jnp.sum((signs @ pairs) * signs, axis=1)
    p_value = (1 + jnp.sum(drawn >= statistic)).astype(x.dtype) / (num_bootstrap + 1)
    is_known = jnp.isfinite(statistic)  # a comparison with NaN would give the least p-value
    return KernelTest(statistic, jnp.where(is_known, p_value, jnp.nan))


def _stein_kernel(
    x: jax.Array, a: jax.Array, b: jax.Array, kernel: str, bandwidth: jax.Array | None
) -> jax.Array:
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
    slopes = dot(b * x, a) - dot(b, a * x)  # b_i(x) (x_i - y_i) a_i(y)
    first_times = 2 * (slopes + slopes.T - dot(b, b))
    return dot(a, a) * f + first_times * first - 4 * square(b) * second
