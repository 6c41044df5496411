"""Points with an exact, normalised log density: mixtures and rings."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax._checks import check_at_least, check_not_negative, check_positive, is_traced, trim
from ebmjax.types import Key


def circle_means(num: int, radius: float = 1.0) -> jax.Array:
    """Returns ``num`` points evenly spaced on a circle, (num, 2), the first at (radius, 0)."""
    check_at_least("num", num, 1)
    check_positive("radius", radius)
    angles = 2 * jnp.pi * jnp.arange(num, dtype=jnp.result_type(float)) / num
    return radius * jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=-1)


def gaussian_mixture_points(
    key: Key, num: int, *, means: Any, scale: Any, weights: Any = None
) -> jax.Array:
    """Draws from a mixture of Gaussians of one width, shape (num, d).

    Args:
      key: consumed.
      num: of points, at least 1 (static).
      means: (k, d), in units of the position.
      scale: standard deviation of every component in every coordinate, in the same units.
      weights: (k,) shares of the components, scaled to sum to 1. None: equal.
    """
    check_at_least("num", num, 1)
    means, log_weights = _components("means", means, 2, scale, weights)
    component_key, noise_key = jax.random.split(key)
    component = jax.random.categorical(component_key, log_weights, shape=(num,))
    return means[component] + scale * jax.random.normal(noise_key, (num, means.shape[1]))


def gaussian_mixture_log_density(
    position: jax.Array, *, means: Any, scale: Any, weights: Any = None
) -> jax.Array:
    """Returns ``gaussian_mixture_points``'s normalised log density at ``position`` (d,), nats.

    Example:
      >>> one = gaussian_mixture_log_density(jnp.zeros(2), means=jnp.zeros((1, 2)), scale=1.0)
      >>> round(float(jnp.exp(-one)), 4)  # 2 pi
      6.2832
    """
    means, log_weights = _components("means", means, 2, scale, weights)
    _check_position(position, means.shape[1])
    squares = jnp.sum(jnp.square(position[None, :] - means), axis=1)
    dimension = means.shape[1]
    log_peak = -dimension * (jnp.log(jnp.asarray(scale)) + 0.5 * math.log(2 * math.pi))
    return jax.nn.logsumexp(log_weights - 0.5 * squares / jnp.square(scale)) + log_peak


def ring_points(key: Key, num: int, *, radii: Any, scale: Any, weights: Any = None) -> jax.Array:
    """Draws from rings around the origin of the plane, shape (num, 2).

    A point lies in a uniform direction at the absolute value of a distance from N(radius, scale^2).

    Args:
      key, num: as for ``gaussian_mixture_points``.
      radii: (k,), positive, in units of the position.
      scale: standard deviation of the distance, in the same units.
      weights: (k,) shares of the rings. None: equal, so outer rings have a lower density.
    """
    check_at_least("num", num, 1)
    check_positive("radii", radii)
    radii, log_weights = _components("radii", radii, 1, scale, weights)
    ring_key, noise_key, angle_key = jax.random.split(key, 3)
    ring = jax.random.categorical(ring_key, log_weights, shape=(num,))
    distance = radii[ring] + scale * jax.random.normal(noise_key, (num,))
    angle = jax.random.uniform(angle_key, (num,), maxval=2 * jnp.pi)
    # A negative distance is the opposite direction, which is equally likely.
    return distance[:, None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=-1)


def ring_log_density(
    position: jax.Array, *, radii: Any, scale: Any, weights: Any = None
) -> jax.Array:
    r"""Returns the normalised log density of ``ring_points`` at ``position`` (2,), nats.

    .. math::
        p(x) = \frac{1}{2 \pi |x|} \sum_k w_k
            \left[ N(|x|; R_k, s^2) + N(-|x|; R_k, s^2) \right]

    which is infinite at the origin, where it has almost no mass if radii are many scales.

    Example:
      >>> value = ring_log_density(jnp.array([0.0, 2.0]), radii=[2.0], scale=0.1)
      >>> expected = 1 / (2 * jnp.pi * 2.0) / (0.1 * jnp.sqrt(2 * jnp.pi))
      >>> bool(jnp.isclose(jnp.exp(value), expected))
      True
    """
    check_positive("radii", radii)
    radii, log_weights = _components("radii", radii, 1, scale, weights)
    _check_position(position, 2)
    distance = jnp.sqrt(jnp.sum(jnp.square(position)))
    offsets = jnp.concatenate([distance - radii, distance + radii]) / scale
    terms = jnp.tile(log_weights, 2) - 0.5 * jnp.square(offsets)
    log_area = jnp.log(distance) + jnp.log(jnp.asarray(scale)) + 1.5 * math.log(2 * math.pi)
    return jax.nn.logsumexp(terms) - log_area


def _components(
    name: str, places: Any, num_axes: int, scale: Any, weights: Any
) -> tuple[jax.Array, jax.Array]:
    """Returns the components' places as floats, and the logarithms of their shares, (k,)."""
    check_positive("scale", scale, is_scalar=True)
    places = jnp.asarray(places, jnp.result_type(float))
    if places.ndim != num_axes or places.size == 0:
        expected = "(components, d)" if num_axes == 2 else "(components,)"
        raise ValueError(f"{name} must have shape {expected}, got shape {places.shape}.")
    if weights is None:
        weights = np.ones(len(places))
    check_not_negative("weights", weights)
    weights = jnp.asarray(weights, places.dtype)
    if weights.shape != (len(places),) or not (is_traced(weights) or np.any(weights > 0)):
        raise ValueError(
            f"weights must be one for each of the {len(places)} {name}, not all zero, got "
            f"{trim(weights)}."
        )
    return places, jnp.log(weights / jnp.sum(weights))


def _check_position(position: Any, dimension: int) -> None:
    if jnp.shape(position) != (dimension,):
        raise ValueError(
            f"position must be one point of shape ({dimension},), got shape "
            f"{jnp.shape(position)}; for many use jax.vmap."
        )
