"""Two-sample tests with p-values: by a kernel, and by a classifier."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import ArrayLike

from ebmjax._checks import check_at_least, check_key
from ebmjax._precision import at_least_float32
from ebmjax.metrics._kernel_distance import Kernel, check_sides, make_kernel
from ebmjax.metrics._stein import KernelTest
from ebmjax.types import Key

HIDDEN, STEPS, LEARNING_RATE = 20, 300, 1e-2
"""Hidden units of the classifier, its steps of Adam on all examples at once, and their size."""


class ClassifierTest(NamedTuple):
    """A classifier's accuracy on examples that it did not learn from, and its p-value.

    The accuracy is 1/2 in expectation of equal laws. The p-value, in (0, 1], is small if they
    differ.
    """

    accuracy: jax.Array
    p_value: jax.Array


def kernel_two_sample_test(
    key: Key,
    samples_a: ArrayLike,
    samples_b: ArrayLike,
    *,
    kernel: Kernel = "rbf",
    bandwidth: float | None = None,
    num_permutations: int = 500,
) -> KernelTest:
    """Returns ``kernel_distance`` of two samples with its permutation p-value. Host code, float64.

    The hypothesis is that both samples have one law and are independent. Then every division of all
    rows among the two sides is as likely. The p-value is the share of random divisions with as
    large a distance. A test at level 5 % rejects at most 5 % of true hypotheses, at every size.

    Args:
      key: of the permutations.
      samples_a, samples_b: (n, d) and (m, d), points or features, n and m >= 2.
      kernel, bandwidth: as in ``kernel_distance``, which also says what is an error.
      num_permutations: the least p-value is ``1 / (num_permutations + 1)``.

    Returns:
      A ``KernelTest`` of numbers. Memory and time grow with (n + m)^2.

    Source: Gretton et al. 2012, "A Kernel Two-Sample Test"; the added one: Phipson & Smyth 2010.

    Example:
      >>> a, b = jax.random.normal(jax.random.key(0), (2, 50, 2))
      >>> same, other = (kernel_two_sample_test(jax.random.key(1), a, x) for x in (b, b + 1))
      >>> same.p_value > 0.05, other.p_value < 0.01
      (True, True)
    """
    check_key("key", key)
    check_at_least("num_permutations", num_permutations, 1)
    a, b = check_sides(samples_a=samples_a, samples_b=samples_b)
    (n, m), rows = (len(a), len(b)), np.concatenate([a, b])
    gram = make_kernel(a, b, kernel, bandwidth)(rows, rows)
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

    Example:
      >>> a, b = jax.random.normal(jax.random.key(0), (2, 200, 2))
      >>> same, other = (classifier_two_sample_test(jax.random.key(1), a, x) for x in (b, b + 1))
      >>> bool(same.p_value > 0.05), bool(other.p_value < 0.01)
      (True, True)
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
