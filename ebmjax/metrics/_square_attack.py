"""Random search by squares of changed pixels, which needs no gradient: the Square attack."""

import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax._checks import check_at_least
from ebmjax.metrics import _attack_steps as steps
from ebmjax.metrics._attack_steps import PGDResult
from ebmjax.types import Key

SHARE, TINY = 0.8, 1e-12
HALVINGS = np.array([10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000])
"""Queries, of 10,000, after which the squares' part of the image (0.8 at first) is halved."""


def square_sides(shape: tuple[int, ...], num_queries: int, norm: str) -> np.ndarray:
    """Returns the side of each query's square; in L2 odd and at least 3 where the image allows."""
    queries = np.arange(num_queries) * 10_000 // num_queries
    halvings = np.sum(queries[:, None] > HALVINGS, axis=1)
    sides = np.rint(np.sqrt(SHARE * 0.5**halvings * math.prod(shape))).astype(int)
    if norm == "l2":
        sides = np.maximum(sides, 3)
        sides += sides % 2 == 0
    return np.clip(sides, 1, min(shape))


def window_pattern(side: int) -> np.ndarray:
    """Returns the change (side, side) of a window in L2: two peaks of opposite sign, of norm 1."""

    def peak(height: int, width: int) -> np.ndarray:
        rows, columns = np.arange(height)[:, None], np.arange(width)
        ring = np.maximum(abs(rows - height // 2), abs(columns - width // 2))
        num_rings = max(height, width) // 2 + 1
        tails = np.cumsum(1.0 / np.arange(num_rings, 0, -1) ** 2)[::-1]
        return tails[ring] / np.linalg.norm(tails[ring])

    half = side // 2
    pattern = np.concatenate([peak(half, side), -peak(side - half, side)])
    return pattern / np.linalg.norm(pattern)


def square_attack(
    key: Key,
    logits_fn: steps.KeyedLogitsFn,
    images: jax.Array,
    labels: jax.Array,
    *,
    epsilon: Any,
    norm: Literal["linf", "l2"],
    num_queries: int = 5000,
    num_eot: int = 1,
    low: Any = -1.0,
    high: Any = 1.0,
) -> PGDResult:
    """Looks for a misclassified image within ``epsilon`` by random search, without gradients.

    Each query changes a square at a random place, and keeps the change if the margin falls. In
    L-infinity its pixels move to the ends of the ball, a sign a channel. The search begins with
    stripes. In L2 two peaks are added to it, and paid for by another square and by what the radius
    leaves. A square is 80 % of the image at first, and its part is halved after 0.1, 0.5, 2, 5, 10,
    20, 40, 60 and 80 % of the queries.

    Args:
      key, logits_fn, labels, epsilon, norm, low, high: as for ``pgd_attack``.
      images: floating point (N, H, W, C), within [low, high].
      num_queries: squares that are tried, at least 1.
      num_eot: copies whose mean logits judge.

    Returns:
      A ``PGDResult``; no image needs a gradient, so ``had_gradient`` is True.

    Source: Andriushchenko et al. 2020, "Square attack: a query-efficient black-box adversarial
    attack via random search", Algorithms 1 to 3.

    Example:
      >>> def logits_fn(key, x):  # without a slope
      ...     score = jnp.round(32 * (x.mean((1, 2, 3)) - 0.1))
      ...     return jnp.stack([score, -score], axis=1)
      >>> attacked = logits_fn, jnp.full((1, 4, 4, 1), 0.3), jnp.array([0])
      >>> options = {"norm": "linf", "num_queries": 200}
      >>> found = [
      ...     square_attack(jax.random.key(0), *attacked, epsilon=epsilon, **options)
      ...     for epsilon in (0.1, 0.3)
      ... ]
      >>> [bool(one.is_correct[0]) for one in found]
      [True, False]
    """
    check_at_least("num_queries", num_queries, 1)
    if jnp.ndim(images) != 4:
        raise ValueError(
            "square_attack changes squares of pixels. It needs images of shape (N, H, W, C), got "
            f"{jnp.shape(images)}. Reshape them, or leave this attack out."
        )

    def search(key: Key, attack: steps.Attack) -> PGDResult:
        wide, epsilon = attack.wide, attack.epsilon
        clean_key, start_key, first_key, queries_key = jax.random.split(key, 4)
        sides = square_sides(wide.shape[1:3], num_queries, norm)
        kinds, kind = np.unique(sides, return_inverse=True)
        windows = [np.pad(window_pattern(side), (0, kinds[-1] - side)) for side in kinds]
        patterns = jnp.asarray(np.stack(windows), jnp.float32)

        def query(best: steps.Best, now: Any) -> tuple[steps.Best, None]:
            (x, margins), (key, side, kind) = best, now
            change_key, judge_key = jax.random.split(key)
            pattern = patterns[kind] if norm == "l2" else None
            tried = attack.project(wide + _change(change_key, x - wide, epsilon, side, pattern))
            tried_margins = jnp.where(margins > 0, attack.margins(judge_key, tried), jnp.inf)
            return steps.keep_least(best, tried, tried_margins), None

        first = attack.project(wide + epsilon * _start(start_key, wide.shape, norm))
        keys = jax.random.split(queries_key, num_queries)
        begin = first, attack.margins(first_key, first)
        best, _ = jax.lax.scan(query, begin, (keys, sides, kind))
        best = steps.keep_least((wide, attack.margins(clean_key, wide)), *best)
        return attack.result(best, jnp.ones(len(wide), bool))

    ball = epsilon, norm, num_eot, low, high
    attack = steps.Attack(logits_fn, images, labels, *ball, num_queries)
    return steps.run_attack(search, key, attack)


def _signs(key: Key, *shape: int) -> jax.Array:
    return jax.random.rademacher(key, shape, jnp.float32)


def _start(key: Key, shape: tuple[int, ...], norm: str) -> jax.Array:
    """Returns displacements of length 1: stripes, or in L2 five tiles a side, of random signs."""
    num, height, width, channels = shape
    if norm == "linf":
        return _signs(key, num, 1, width, channels)
    side = max(min(height, width) // 5, 1)
    rows, columns = np.arange(height)[:, None], np.arange(width)[None]
    signs = _signs(key, num, height // side + 1, width // side + 1, channels)
    pattern = window_pattern(side)[rows % side, columns % side][None, ..., None]
    return steps.BALLS["l2"].direction(signs[:, rows // side, columns // side] * pattern)


def _square(
    key: Key, shape: tuple[int, ...], side: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns rows and columns of all pixels in a square at a random place, and which it holds."""
    rows, columns = (
        jnp.arange(size)[None] - jax.random.randint(k, (shape[0], 1), 0, size - side + 1)
        for k, size in zip(jax.random.split(key), shape[1:3], strict=True)
    )
    rows, columns = rows[:, :, None, None], columns[:, None, :, None]
    return rows, columns, (rows >= 0) & (rows < side) & (columns >= 0) & (columns < side)


def _change(
    key: Key, d: jax.Array, epsilon: Any, side: jax.Array, pattern: jax.Array | None
) -> jax.Array:
    """Returns displacements changed in a square; in L2 by a pattern, paid for by another square."""
    first_key, second_key, sign_key, turn_key = jax.random.split(key, 4)
    rows, columns, gains = _square(first_key, d.shape, side)
    signs = _signs(sign_key, len(d), 1, 1, d.shape[3])
    if pattern is None:
        return jnp.where(gains, epsilon * signs, d)
    costs = _square(second_key, d.shape, side)[2]
    is_turned = jax.random.bernoulli(turn_key, shape=(len(d), 1, 1, 1))
    window = pattern[jnp.where(is_turned, columns, rows), jnp.where(is_turned, rows, columns)]

    def lengths(a: jax.Array) -> jax.Array:
        return jnp.sqrt(jnp.sum(a**2, axis=(1, 2), keepdims=True))

    inside = jnp.where(gains, d, 0.0)
    change = window * gains * signs + inside / (lengths(inside) + TINY)
    left = jnp.maximum(epsilon**2 - steps.norms_of(d) ** 2, 0.0) / d.shape[3]
    length = jnp.sqrt(left + lengths(jnp.where(gains | costs, d, 0.0)) ** 2)
    change *= length / (lengths(change) + TINY)
    d = jnp.where(gains, change, jnp.where(costs, 0.0, d))
    return epsilon * steps.BALLS["l2"].direction(d)
