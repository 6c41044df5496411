"""Tests of fit with p-values: by a density's score, by a kernel and by a classifier."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import ArrayLike

from ebmjax._checks import (
    check_at_least,
    check_box,
    check_finite,
    check_key,
    is_traced,
)
from ebmjax._precision import at_least_float32
from ebmjax.metrics._pairs import check_sides, make_kernel
from ebmjax.types import Key

HIDDEN, STEPS, LEARNING_RATE = 20, 300, 1e-2
"""Hidden units of the classifier, its steps of Adam on all examples at once, and their size."""


class KernelTest(NamedTuple):
    """A statistic that is 0 in expectation if the hypothesis holds, and its p-value in (0, 1].

    A large statistic and a small p-value speak against the hypothesis.
    """

    statistic: jax.Array | float
    p_value: jax.Array | float


class ClassifierTest(NamedTuple):
    """A classifier's accuracy on examples that it did not learn from, and its p-value in (0, 1].

    The accuracy is 1/2 in expectation of equal laws.
    """

    accuracy: jax.Array
    p_value: jax.Array


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


def kernel_two_sample_test(
    key: Key,
    samples_a: ArrayLike,
    samples_b: ArrayLike,
    *,
    num_permutations: int = 500,
) -> KernelTest:
    """Returns the RBF ``kernel_distance`` of two samples with its p-value. Host code, float64.

    The hypothesis is that both samples have one law and are independent. Then every division of all
    rows among the two sides is as likely. The p-value is the share of random divisions with as
    large a distance. A test at level 5 % rejects at most 5 % of true hypotheses, at every size.

    Args:
      key: of the permutations.
      samples_a, samples_b: (n, d) and (m, d), points or features, n and m >= 2.
      num_permutations: the least p-value is ``1 / (num_permutations + 1)``.

    Returns:
      A ``KernelTest`` of numbers. Memory and time grow with (n + m)^2.

    Source: Gretton et al. 2012, "A Kernel Two-Sample Test"; the added one: Phipson & Smyth 2010.
    """
    check_key("key", key)
    check_at_least("num_permutations", num_permutations, 1)
    a, b = check_sides(samples_a=samples_a, samples_b=samples_b)
    (n, m), rows = (len(a), len(b)), np.concatenate([a, b])
    gram = make_kernel(a, b, "rbf", None)(rows, rows)
    np.fill_diagonal(gram, 0)
    rng = np.random.default_rng(np.asarray(jax.random.bits(key, (4,))))
    sides = np.tile(np.arange(n + m) < n, (num_permutations + 1, 1)).astype(float)
    sides[1:] = rng.permuted(sides[1:], axis=1)  # the first row is the division that is given
    to_a = sides @ gram
    within_a = np.sum(to_a * sides, axis=1)
    across = np.sum(to_a, axis=1) - within_a
    within_b = gram.sum() - within_a - 2 * across
    found = within_a / (n * (n - 1)) + within_b / (m * (m - 1)) - 2 * across / (n * m)
    # A division equal to the given one counts, whatever its sums are rounded to.
    is_as_large = found >= found[0] - 1e-9 * np.abs(gram).mean()
    return KernelTest(float(found[0]), float(np.mean(is_as_large)))


def classifier_two_sample_test(
    key: Key, samples_a: jax.Array, samples_b: jax.Array
) -> ClassifierTest:
    """Returns how often a classifier names a sample's side, with the p-value of that accuracy.

    A network of one hidden layer (20 ReLU units, 300 steps of Adam) learns from a random half of
    either side. It is judged by the other halves. If both sides have one law, it is right in half
    of the cases in expectation. The p-value is that of the binomial law, which is never too small.

    Args:
      key: of the halves and of the network's start.
      samples_a, samples_b: (n, ...) and (m, ...), points or features, with the same axes after the
        first; n and m >= 4. As many of each are used, ``min(n, m)``.

    Returns:
      A ``ClassifierTest``; jittable. Fewer samples or axes that differ are a ValueError.

    Source: Lopez-Paz & Oquab 2017, arXiv:1610.06545, whose network has the same size. The binomial
    law bounds the tail of two unequal halves: Hoeffding 1956.
    """
    check_key("key", key)
    a, b = jnp.asarray(samples_a), jnp.asarray(samples_b)
    if a.ndim < 2 or a.shape[1:] != b.shape[1:] or min(len(a), len(b)) < 4:
        raise ValueError(
            "samples_a and samples_b must have shapes (n, ...) and (m, ...) with equal axes after "
            f"the first and n, m >= 4, got {a.shape} and {b.shape}."
        )
    return _classify(key, a, b)


@partial(jax.jit, inline=True)
def _classify(key: Key, a: jax.Array, b: jax.Array) -> ClassifierTest:
    num = min(len(a), len(b))
    *keys, hidden_key, last_key = jax.random.split(key, 4)
    rows = [
        jax.random.permutation(k, at_least_float32(x.reshape(len(x), -1)))[:num]
        for k, x in zip(keys, (a, b), strict=True)
    ]
    x = jnp.stack(rows)  # (2, num, d), halves to learn from and to judge by
    mean = jnp.mean(x[:, : num // 2], (0, 1), keepdims=True)
    spread = jnp.std(x[:, : num // 2], (0, 1), keepdims=True)
    x = (x - mean) / jnp.where(spread > 0, spread, 1)
    train, test = jnp.split(jnp.concatenate([x, jnp.ones_like(x[..., :1])], 2), [num // 2], 1)
    width, is_b = x.shape[2], jnp.array([[False], [True]])
    params = (
        jax.random.normal(hidden_key, (width + 1, HIDDEN), x.dtype) / width**0.5,
        jax.random.normal(last_key, (HIDDEN,), x.dtype) / HIDDEN**0.5,
    )

    def logit(params: tuple[jax.Array, jax.Array], x: jax.Array) -> jax.Array:
        return jax.nn.relu(x @ params[0]) @ params[1]

    def loss(params: tuple[jax.Array, jax.Array]) -> jax.Array:
        found = logit(params, train)
        return jnp.mean(jax.nn.softplus(jnp.where(is_b, -found, found)))

    optimizer = optax.adam(LEARNING_RATE)

    def step(_: jax.Array, carry: tuple) -> tuple:
        updates, state = optimizer.update(jax.grad(loss)(carry[0]), carry[1])
        return optax.apply_updates(carry[0], updates), state

    params, _ = jax.lax.fori_loop(0, STEPS, step, (params, optimizer.init(params)))
    logits = logit(params, test)
    right = jnp.sum((logits > 0) == is_b).astype(x.dtype)
    # P(at least so many are right by chance), the binomial law's tail.
    tail = jax.scipy.special.betainc(jnp.maximum(right, 1), logits.size - right + 1, 0.5)
    found = jnp.stack([right / logits.size, jnp.where(right > 0, tail, 1)])
    return ClassifierTest(*jnp.where(jnp.all(jnp.isfinite(logits)), found, jnp.nan))
