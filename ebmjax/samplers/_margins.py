"""Monotone maps of pixels to standard normal variables, by histograms of data."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr, ndtri
from jax.scipy.stats import norm

from ebmjax._checks import check_at_least

LEVEL = 2.0 / 256.0
"""Width of a grey level of dequantised images in [-1, 1]."""
SMALLEST = 1e-6
"""Probability below and above which a pixel has the normal variable of this quantile."""


class Margins(NamedTuple):
    """One monotone map a pixel, by a distribution function that is linear in every bin.

    Attributes:
      edges: of the bins, increasing, (b + 1,).
      shares: probability of each bin, positive, (b, *shape).
    """

    edges: jax.Array
    shares: jax.Array

    def gaussianise(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns normal variables of pixels ``x`` (*shape), and the logs of the map's slopes.

        Pixels at an end or beyond, which dequantised images do not have, count as the middle of the
        outermost bin.
        """
        lows, highs, widths = self._bins()
        x = jnp.where(x <= lows[0], lows[0] + 0.5 * widths[0], x)
        x = jnp.where(x >= highs[-1], highs[-1] - 0.5 * widths[-1], x)
        quantile = jnp.sum(self.shares * jnp.clip((x[None] - lows) / widths, 0.0, 1.0), axis=0)
        g = ndtri(jnp.clip(quantile, SMALLEST, 1.0 - SMALLEST))
        is_own = (x[None] >= lows) & (x[None] < highs)
        density = jnp.sum(jnp.where(is_own, self.shares / widths, 0.0), axis=0)
        return g, jnp.log(density) - norm.logpdf(g)

    def restore(self, g: jax.Array) -> jax.Array:
        """Returns pixels (*shape), the inverse of ``gaussianise``."""
        lows, _, widths = self._bins()
        below = jnp.cumsum(self.shares, axis=0) - self.shares
        parts = jnp.clip((ndtr(g)[None] - below) / self.shares, 0.0, 1.0)
        return lows[0] + jnp.sum(widths * parts, axis=0)

    def _bins(self) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Returns lower ends, upper ends and widths, each (b, 1, ...)."""
        ends = self.edges.reshape(-1, *[1] * (self.shares.ndim - 1))
        return ends[:-1], ends[1:], jnp.diff(ends, axis=0)


def fit_margins(images: Any, *, num_bins: int = 8) -> Margins:
    """Fits histograms to dequantised images: a bin for black, one for white, others between them.

    A pixel's histogram leans on that of all pixels, as if this were one more image.

    Args:
      images: (n, *shape) in [-1, 1], of which a grey level is ``LEVEL`` wide.
      num_bins: bins between black and white, of equal width.
    """
    check_at_least("num_bins", num_bins, 1)
    x = np.asarray(images)
    inner = np.linspace(-1 + LEVEL, 1 - LEVEL, num_bins + 1)
    edges = np.concatenate([[-1.0], inner, [1.0]])
    places = np.digitize(x, inner)
    counts = np.stack([np.sum(places == place, axis=0) for place in range(num_bins + 2)])
    whole = counts.reshape(len(counts), -1).mean(axis=1) / len(x) + 0.01 * np.diff(edges)
    shares = counts + whole.reshape(-1, *[1] * (x.ndim - 1))
    shares = shares / shares.sum(axis=0)
    return Margins(jnp.asarray(edges, jnp.float32), jnp.asarray(shares, jnp.float32))
