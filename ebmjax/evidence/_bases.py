"""Bases of log Z: a Gaussian fitted to data, and densities in a box unfolded onto it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

from ebmjax._checks import check_box, check_positive
from ebmjax.samplers import (
    FactorGaussian,
    fit_factor_gaussian,
    fold_into_box,
)
from ebmjax.types import Key, LogDensityFn, PyTree

NUM_IMAGES = 2
"""Mirror images of a box on each side, in pairs. A coordinate reaches one width beyond it."""


class Base(NamedTuple):
    """A normalised density that can be drawn from, such as a distribution of distrax or flowjax.

    Attributes:
      draw: key to one position.
      log_density_fn: one position to its log density, with every constant.
      coordinates: one Gaussian, in whose whitened coordinates chains move; None for the positions'
        own. It is as if the sampler's step had this Gaussian's covariance.
    """

    draw: Callable[[Key], PyTree]
    log_density_fn: LogDensityFn
    coordinates: FactorGaussian | None = None


def gaussian_base(
    positions: Any, labels: Any = None, *, num_directions: int = 512, jitter: float | None = None
) -> Base:
    """Fits a Gaussian to data, or a mixture with one Gaussian a class, in the classes' shares.

    Chains then move in coordinates where the Gaussian of all data is N(0, I).

    Args:
      positions: (n, *shape), floating point, at least two.
      labels: (n,) integers from 0, every one of them there; None for one Gaussian.
      num_directions: that have their own variance, of a Gaussian; see ``fit_factor_gaussian``.
      jitter: variance added along every direction; None for a thousandth of the mean variance.

    Source: Tipping & Bishop 1999.
    """
    positions = np.asarray(positions)
    if jitter is None:
        jitter = max(1e-3 * float(np.mean(np.var(positions, axis=0))), 1e-12)
    options: dict[str, Any] = {"num_directions": num_directions, "jitter": jitter}
    whole = fit_factor_gaussian(positions, **options)
    fitted = whole if labels is None else fit_factor_gaussian(positions, labels, **options)

    def draw(key: Key) -> jax.Array:
        label_key, start_key = jax.random.split(key)
        return fitted.draw(start_key, jax.random.categorical(label_key, fitted.log_weights))

    return Base(draw, fitted.log_density, whole.one(0))


def unfold(
    log_density_fn: LogDensityFn, low: Any, high: Any, *, mean: Any, scale: Any
) -> LogDensityFn:
    r"""Extends a density of one array in a box to the whole space, with the same integral.

    A position x beyond the walls counts as the place y in the box to which it folds by reflection.
    A coordinate's mirror images share the density by their weights under a Gaussian:

    .. math::
        \tilde p(x) = p(y) \prod_i \frac{N(x_i; m_i, s_i)}{\sum_{y'} N(y'_i; m_i, s_i)}

    So a Gaussian can be the base of a density in a box, whose draws folded are inside it.

    Args:
      log_density_fn: one position in the box to a scalar.
      low, high: ends of the box; they broadcast to a position.
      mean, scale: m and s, which broadcast to a position; s is at most a third of the width.
    """
    check_box(low, high)
    check_positive("scale", scale)
    width = jnp.asarray(high) - jnp.asarray(low)
    scale = jnp.minimum(jnp.asarray(scale), width / 3)

    def unfolded(x: jax.Array) -> jax.Array:
        y = fold_into_box(x, low, high)[0]
        turns = 2.0 * jnp.arange(-NUM_IMAGES, NUM_IMAGES + 1)
        images = [x0 + turn * width for x0 in (y, 2.0 * low - y) for turn in turns]
        weights = jnp.stack([norm.logpdf(image, mean, scale) for image in images])
        shares = norm.logpdf(x, mean, scale) - jax.nn.logsumexp(weights, axis=0)
        return log_density_fn(y) + jnp.sum(shares)

    return unfolded
