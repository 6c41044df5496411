"""The median rules for the bandwidth of a Gaussian kernel, without sorting n^2 distances."""

import math
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import optax

from ebmjax._precision import root

Rule = Literal["median"] | None
"""Rules for the bandwidth h of n particles with median distance m. ``"median"`` is h = m; None is
Liu and Wang's h^2 = m^2 / (2 log n)."""


def is_rule(bandwidth: Any) -> bool:
    """Returns whether ``bandwidth`` is a rule, not a number. Raises ValueError for other names."""
    if isinstance(bandwidth, str) and bandwidth != "median":
        raise ValueError(
            f"bandwidth must be a positive number, 'median' or None, got bandwidth={bandwidth!r}."
        )
    return bandwidth is None or isinstance(bandwidth, str)


def median_rule(
    squared_distances: jax.Array, rule: Rule
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """Returns the bandwidth, and the two squared distances in the middle (one twice if one is).

    With None the kernel row of a typical particle sums to about 1 + 1, since
    ``n exp(-median^2 / (2 bandwidth^2)) = 1``. With ``"median"`` it sums to about 1 + 0.6 n. If
    more than half of the pairs coincide, the root mean square distance replaces the median. If all
    coincide (or n = 1), the bandwidth is 1, and nothing depends on the choice.

    Args:
      squared_distances: shape (n, n), zero on the diagonal.
      rule: one of the two. The derivative is that of the pairs that attain the median.

    Source: Liu & Wang 2016, section 3.3; SVGD-in-JEM thesis, section 3.3.2, for "median".
    """
    num_particles = squared_distances.shape[0]
    if num_particles == 1:
        zero = jnp.zeros((), squared_distances.dtype)
        return zero + 1.0, (zero, zero)
    num_pairs = num_particles * (num_particles - 1) // 2
    pairs = _each_pair_once(squared_distances)
    # After the zeros of the diagonal and of the padding.
    rank = pairs.size - num_pairs + (num_pairs - 1) // 2
    middle = _order_statistics(pairs, rank, wants_next=num_pairs % 2 == 0)
    at_median = bandwidth_at(middle, pairs, num_particles, rule)
    mean_squared = jnp.sum(squared_distances) / (2 * num_pairs)
    at_mean = root(mean_squared) / _distances_over_bandwidth(num_particles, rule)
    bandwidth = jnp.where(at_median > 0, at_median, at_mean)
    return jnp.where(bandwidth > 0, bandwidth, 1.0), middle


def bandwidth_at(
    middle: tuple[jax.Array, jax.Array], entries: jax.Array, num_particles: int, rule: Rule
) -> jax.Array:
    """Returns the bandwidth of a median between ``middle``, as a function of ``entries``."""
    lower, upper = (root(_entries_equal_to(value, entries)) for value in middle)
    return 0.5 * (lower + upper) / _distances_over_bandwidth(num_particles, rule)


def _distances_over_bandwidth(num_particles: int, rule: Rule) -> float:
    """Returns the median distance divided by the bandwidth."""
    return 1.0 if rule == "median" else math.sqrt(2.0 * math.log(num_particles))


def _entries_equal_to(value: jax.Array, entries: jax.Array) -> jax.Array:
    """Returns ``value`` as a mean over its equals in ``entries``; derivatives reach them."""
    is_equal = entries == value
    return jnp.sum(jnp.where(is_equal, entries, 0.0)) / jnp.sum(is_equal).astype(entries.dtype)


def _each_pair_once(squared_distances: jax.Array) -> jax.Array:
    """Returns (m, m / 2) with m = n or n + 1: every pair once, and zeros.

    One block joins the upper triangle of the first diagonal block and the lower triangle of the
    second. Its diagonal stays zero.
    """
    num_particles = squared_distances.shape[0]
    half, is_odd = (num_particles + 1) // 2, num_particles % 2
    below = jnp.pad(squared_distances[half:, half:], (0, is_odd))
    across = jnp.pad(squared_distances[:half, half:], ((0, 0), (0, is_odd)))
    is_above = jnp.triu(jnp.ones((half, half), bool), 1)
    return jnp.concatenate([jnp.where(is_above, squared_distances[:half, :half], below), across])


def _order_statistics(
    values: jax.Array, rank: int, *, wants_next: bool
) -> tuple[jax.Array, jax.Array]:
    """Returns the entry of zero-based ``rank`` and the next one (or the same one again).

    Non-negative floats are ordered like their bit patterns. So the entry is found by halving a
    range of patterns until it is alone: about log2(size) cheap passes, much less than a sort. The
    range starts above the zeros, because half of all patterns stand for numbers below 2.
    """
    integer = jnp.int64 if values.dtype == jnp.float64 else jnp.int32
    bits = jax.lax.bitcast_convert_type(jax.lax.stop_gradient(values), integer)

    # A range holds entries above ``low`` and at most ``high``, and counts those up to either end.
    def is_open(ends: tuple[jax.Array, ...]) -> jax.Array:
        low, high, up_to_low, up_to_high = ends
        return (high - low > 1) & (up_to_high - up_to_low > 1)

    def halve(ends: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        low, high, up_to_low, up_to_high = ends
        middle = low + (high - low) // 2
        up_to_middle = _count(bits <= middle)
        above = middle, high, up_to_middle, up_to_high
        below = low, middle, up_to_low, up_to_middle
        return optax.tree.where(up_to_middle <= rank, above, below)

    no_entry = jnp.iinfo(integer).max
    num_zeros = _count(bits <= 0)
    smallest = jnp.min(jnp.where(bits > 0, bits, no_entry))
    above_zeros = smallest - 1, jnp.max(bits), num_zeros, bits.size
    first = optax.tree.where(num_zeros <= rank, above_zeros, (-1, 0, 0, num_zeros))
    low, _, _, up_to_high = jax.lax.while_loop(is_open, halve, first)
    lower = jnp.min(jnp.where(bits > low, bits, no_entry))
    upper = lower
    if wants_next:
        next_larger = jnp.min(jnp.where(bits > lower, bits, no_entry))
        upper = jnp.where(up_to_high > rank + 1, lower, next_larger)
    as_value = partial(jax.lax.bitcast_convert_type, new_dtype=values.dtype)
    return as_value(lower), as_value(upper)


def _count(is_counted: jax.Array) -> jax.Array:
    """Number of entries of a matrix that are true, int32.

    Rows are counted by a matrix product with ones, exact in float32. On a CPU this is more than
    twice as fast as XLA's reduction, and counting is nearly all of the median's cost.
    """
    rows = is_counted.astype(jnp.float32) @ jnp.ones(is_counted.shape[1], jnp.float32)
    return jnp.sum(rows.astype(jnp.int32), dtype=jnp.int32)
