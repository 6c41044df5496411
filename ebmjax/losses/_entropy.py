"""Entropy of particles, estimated from distances to nearest neighbours."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax._precision import as_floats


def nearest_neighbour_entropy(particles: Any, references: Any = None) -> jax.Array:
    r"""Returns the Kozachenko-Leonenko estimate of the differential entropy of the particles' law.

    .. math::
        \hat H = \psi(n) - \psi(1) + \log V_d + \frac d n \sum_i \log r_i

    with :math:`r_i` the Euclidean distance from particle i to the nearest other particle and
    :math:`V_d` the volume of the unit ball. For independent draws, bias and variance vanish as n
    grows, slowly in high dimension. For interacting particles, which keep their distance, it is too
    high. Compare values at equal n and d only.

    The particles' dtype (float32 for narrower ones) cannot resolve distances below eps times the
    largest absolute coordinate. Nearer neighbours count as that far apart, so the estimate is
    finite, and still moves by d log c when everything is scaled by c. It is differentiable; pairs
    at that floor give no gradient.

    With ``references`` the neighbours are sought among those instead, and :math:`\psi(n)` becomes
    :math:`\psi(m + 1)`. That estimates the cross-entropy :math:`-E_q \log p` of the particles' law
    q to the references' law p, which is the entropy if both are equal. References are constants;
    the gradient pushes each particle away from its nearest. Draw them independently of the
    particles: a chain is always near its start.

    Args:
      particles: shape (n, ...), n at least 2; everything after the first axis is one event of d
        numbers. Cost: n^2 d. With references n may be 1.
      references: None, or shape (m, ...), m at least 1, events as in ``particles``. Cost: n m d in
        time, n m + (n + m) d in memory. If squared distances are equal in float32, any of these
        references may be taken.

    Returns:
      Scalar, float32 or float64 as the particles are, nats.

    Source: Kozachenko & Leonenko 1987; used for the entropy of samples in Du et al. 2021.

    Example:
      >>> square = jnp.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
      >>> bool(jnp.isclose(nearest_neighbour_entropy(square), 1 + 1 / 2 + 1 / 3 + jnp.log(jnp.pi)))
      True
    """
    clouds = [as_floats("particles", particles, "(n, ...)", ndim=None)]
    if references is None and len(clouds[0]) < 2:
        raise ValueError("particles must be at least two without references, got one.")
    if references is not None:
        others = as_floats("references", references, "(m, ...)", ndim=None)
        others = jax.lax.stop_gradient(others)
        clouds.append(others.astype(clouds[0].dtype))
        if clouds[1].shape[1:] != clouds[0].shape[1:]:
            raise ValueError(
                f"references must hold events of shape {clouds[0].shape[1:]}, as particles do; got "
                f"shape {clouds[1].shape}."
            )
    clouds = [cloud.reshape(len(cloud), -1) for cloud in clouds]
    limits = jnp.finfo(clouds[0].dtype)
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(cloud)) for cloud in clouds]))
    scale = jax.lax.stop_gradient(jnp.maximum(largest, limits.tiny))
    # In units of the largest coordinate, so that squares neither overflow nor vanish.
    points, *others = [cloud / scale for cloud in clouds]
    squares = _to_references(points, others[0]) if others else _to_each_other(points)
    log_distance = 0.5 * jnp.log(jnp.maximum(squares, limits.eps**2)) + jnp.log(scale)

    d = points.shape[1]
    num_others = len(others[0]) if others else len(points) - 1
    log_ball = 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d + 1)
    harmonic = float(np.sum(1.0 / np.arange(1, num_others + 1)))  # digamma(n) - digamma(1)
    return harmonic + log_ball + d * jnp.mean(log_distance)


def _to_each_other(points: jax.Array) -> jax.Array:
    """Returns squared distances (n,) from each of ``points`` (n, d) to the nearest other one."""
    squares = jnp.sum(jnp.square(points[:, None] - points[None, :]), axis=-1)
    return jnp.min(jnp.where(jnp.eye(len(points), dtype=bool), jnp.inf, squares), axis=1)


def _to_references(points: jax.Array, references: jax.Array) -> jax.Array:
    """Returns squared distances (n,) from ``points`` (n, d) to the nearest of ``references``.

    The Gram matrix shows which one is nearest. Its distance is then taken by subtraction, because
    cancellation in the Gram matrix would lose small distances.
    """
    centre = jnp.mean(references, axis=0, keepdims=True)
    a, b = jax.lax.stop_gradient(points) - centre, references - centre
    products = jnp.matmul(a, b.T, precision=jax.lax.Precision.HIGHEST)
    nearest = jnp.argmin(jnp.sum(jnp.square(b), axis=1)[None] - 2.0 * products, axis=1)
    return jnp.sum(jnp.square(points - references[nearest]), axis=1)
