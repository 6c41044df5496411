"""A latent prior that is normalised and drawn without a chain."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr, ndtri

from ebmjax._checks import check_at_least
from ebmjax.types import Key, PyTree


class UnivariateEnergy(nn.Module):
    r"""Energy (...,) of z (..., d): a mixture of products of densities of one coordinate each.

    .. math::
        e^{-E(z)} = \sum_k w_k \prod_i \frac{e^{f_{ki}(u_i)}}{\int_0^1 e^{f_{ki}(v)} dv}, \qquad
        u_i = \Phi(z_i / \sigma_0)

    Each f is linear between ``num_knots`` equidistant knots. So the integral and the inverse of the
    distribution function are closed forms, and ``exp(-E(z)) N(z; 0, base_scale^2 I)`` integrates
    to 1: its log Z is 0. With one component all f start at 0, the base. Several start with
    different slopes, drawn from N(0, 1).

    Attributes:
      num_components: products of the mixture; with 1 the coordinates are independent.
      num_knots: of each f, at least 2.
      base_scale: sigma_0 of the model.

    Source: KAEM's priors (arXiv 2506.14167), with closed forms in place of quadrature.
    """

    num_components: int = 1
    num_knots: int = 33
    base_scale: float = 1.0

    @nn.compact
    def __call__(self, z: jax.Array) -> jax.Array:
        check_at_least("num_components", self.num_components, 1)
        check_at_least("num_knots", self.num_knots, 2)
        if jnp.ndim(z) == 0:
            raise ValueError("z must have shape (d,) or (..., d), got a scalar; use z[None].")
        log_weights = self.param("log_weights", nn.initializers.zeros, (self.num_components,))
        shape = self.num_components, z.shape[-1], self.num_knots
        heights = self.param("heights", self._slopes, shape)
        places = ndtr(z / self.base_scale) * (self.num_knots - 1)
        offsets = jnp.subtract.outer(places, jnp.arange(self.num_knots))
        hats = jnp.maximum(1.0 - jnp.abs(offsets), 0.0)
        # The hats of a coordinate add up to 1, so a constant may join the heights.
        log_shares = jax.nn.log_softmax(log_weights) / z.shape[-1]
        log_integrals = jax.nn.logsumexp(_log_masses(heights), axis=-1, keepdims=True)
        heights = heights - log_integrals + log_shares[:, None, None]
        values = jnp.einsum("...ij,kij->...k", hats, heights, precision="highest")
        return -jax.nn.logsumexp(values, axis=-1)

    def _slopes(self, key: Key, shape: tuple[int, ...]) -> jax.Array:
        slopes = jax.random.normal(key, shape[:2]) * (self.num_components > 1)
        return jnp.multiply.outer(slopes, jnp.linspace(-1.0, 1.0, self.num_knots))

    def sample(self, params: PyTree, key: Key, num: int) -> jax.Array:
        """Returns ``num`` exact independent draws, (num, d), by inverse transform."""
        log_weights, heights = params["params"]["log_weights"], params["params"]["heights"]
        component_key, cell_key, place_key = jax.random.split(key, 3)
        chosen = jax.random.categorical(component_key, log_weights, shape=(num,))
        cells = jax.random.categorical(cell_key, _log_masses(heights)[chosen])
        picked = jnp.take_along_axis(jnp.diff(heights)[chosen], cells[..., None], axis=-1)[..., 0]
        # Within a cell the density of u is exponential; the mirrored draw keeps exp below 1.
        steepness = jnp.abs(picked)
        uniform = jax.random.uniform(place_key, cells.shape, minval=1e-7)
        steep = jnp.maximum(steepness, 1e-3)
        place = -jnp.log1p(uniform * jnp.expm1(-steep)) / steep
        place = jnp.where(steepness > 1e-3, place, uniform)
        place = jnp.where(picked > 0, 1.0 - place, place)
        u = (cells + place) / (self.num_knots - 1)
        return self.base_scale * ndtri(jnp.clip(u, 1e-7, 1.0 - 1e-7))


def _log_masses(heights: Any) -> jax.Array:
    """Returns logs of the integrals of ``exp(f)`` over each cell, (..., num_knots - 1)."""
    half = 0.5 * jnp.abs(jnp.diff(heights))
    # log(sinh(h) / h), by its series where the quotient loses digits.
    large = jnp.maximum(half, 0.1)
    log_sinhc = large + jnp.log(-jnp.expm1(-2.0 * large) / (2.0 * large))
    squares = jnp.square(half)
    log_sinhc = jnp.where(half > 0.1, log_sinhc, squares / 6.0 - squares**2 / 180.0)
    means = 0.5 * (heights[..., 1:] + heights[..., :-1])
    return means + log_sinhc - jnp.log(heights.shape[-1] - 1)
