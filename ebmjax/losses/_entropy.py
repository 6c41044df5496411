"""Entropy of a cloud of particles from the distance of each to its nearest neighbour."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def nearest_neighbour_entropy(particles: Any) -> jax.Array:
    r"""The Kozachenko-Leonenko estimate of the differential entropy that particles came from.

    .. math::
        \hat H = \psi(n) - \psi(1) + \log V_d + \frac d n \sum_i \log r_i

    with :math:`r_i` the Euclidean distance from particle i to its nearest neighbour and
    :math:`V_d` the volume of the unit ball. For independent draws its bias and variance vanish as
    n grows, slowly in high dimension; for interacting particles, which keep their distance, it
    reads high. Compare values at equal n and d only.

    Float32 cannot tell distances below eps times the largest absolute coordinate, and nearer
    neighbours, coincident particles among them, count as being that far apart. So the estimate is
    finite, and still moves by d log c when all is scaled by c. Differentiable, with no gradient
    from pairs at that floor.

    Args:
      particles: shape (n, ...), n at least 2; everything after the first axis is one event of d
        numbers. Cost: n^2 d.

    Returns:
      Scalar, float32, nats.

    Raises:
      TypeError, ValueError: if ``particles`` are not floating point, fewer than two, or empty.

    Source: Kozachenko & Leonenko 1987; used for the entropy of samples in Du et al. 2021.

    Example:
      >>> square = jnp.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
      >>> bool(jnp.isclose(nearest_neighbour_entropy(square), 1 + 1 / 2 + 1 / 3 + jnp.log(jnp.pi)))
      True
    """
    dtype, shape = jnp.result_type(particles), jnp.shape(particles)
    if not jnp.issubdtype(dtype, jnp.floating):
        raise TypeError(f"particles must hold floating-point numbers, got dtype {dtype}.")
    if len(shape) == 0 or shape[0] < 2 or 0 in shape:
        raise ValueError(
            f"particles must be at least two along the first axis, shape (n, ...), got {shape}."
        )
    points = jnp.asarray(particles, jnp.float32).reshape(shape[0], -1)
    n, d = points.shape
    finfo = jnp.finfo(jnp.float32)
    scale = jax.lax.stop_gradient(jnp.maximum(jnp.max(jnp.abs(points)), finfo.tiny))
    # In units of the largest coordinate, so that squares neither overflow nor vanish.
    points = points / scale
    squares = jnp.sum(jnp.square(points[:, None] - points[None, :]), axis=-1)
    nearest = jnp.min(jnp.where(jnp.eye(n, dtype=bool), jnp.inf, squares), axis=1)
    log_distance = 0.5 * jnp.log(jnp.maximum(nearest, finfo.eps**2)) + jnp.log(scale)

    log_ball = 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d + 1)
    harmonic = float(np.sum(1.0 / np.arange(1, n)))  # digamma(n) - digamma(1)
    return harmonic + log_ball + d * jnp.mean(log_distance)
