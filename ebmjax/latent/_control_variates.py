r"""Stein's control variates for covariances with the log likelihood under a power posterior.

For every field a(z) of latents, with s the score of the power posterior p_t and any function g,

.. math::
    h = \nabla \cdot a + a \cdot s \quad\Rightarrow\quad
    E_{p_t} h = 0, \qquad E_{p_t}\, h\, g = -E_{p_t}\, a \cdot \nabla_z g,

so :math:`Cov_t(\ell, g) = Cov_t(\ell - h, g) - E_t\, a \cdot \nabla_z g`. The part of the log
likelihood :math:`\ell` that h explains no longer multiplies the noise of g. If p_t is Gaussian and
:math:`\ell` quadratic, the field

.. math::
    a(z) = -\Sigma m - \tfrac12 S (z - \bar z), \qquad
    m = E_t \nabla \ell, \quad \Sigma = Cov_t(z), \quad S = Cov_t(z, \nabla \ell)

leaves nothing of :math:`\ell` but a constant, whatever the dimension.

Source: Stein's identity. Oates, Papamarkou & Girolami 2016 use it for the mean log likelihood of
thermodynamic integration; here it serves that mean's derivative.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

# Keeps the least squares solvable if both parts of a field explain the same.
_RIDGE = 1e-3


class ControlVariate(NamedTuple):
    """A fit for chains in groups that share a law, each group in two halves.

    Attributes:
      residuals: log likelihoods minus the explained part, shape (groups, 2, half), up to a constant
        in every half.
      fields: a at every chain, shape (groups, 2, half, d).
    """

    residuals: jax.Array
    fields: jax.Array


def stein_control(
    values: jax.Array, slopes: jax.Array, scores: jax.Array, latents: jax.Array
) -> ControlVariate:
    r"""Returns each half's control variate, from a field in which that half has no part.

    m and :math:`\bar z` are means over the group's other half. :math:`\Sigma` and S are covariances
    within the other halves of all groups. Each part of the field has a multiplier, fitted to the
    log likelihoods of the other groups. So with independent draws the covariances stay unbiased for
    any model. With a single group there is nothing to fit, so multipliers and field are 0.

    Args:
      values: log likelihoods at one power, shape (groups, 2, half), half at least 2.
      slopes: their gradients in the latents, shape (groups, 2, half, d).
      scores: scores of the power posteriors, shape (groups, 2, half, d).
      latents: positions of the chains, shape (groups, 2, half, d).
    """
    groups, _, half, _ = latents.shape
    mean_slope, middle = (jnp.flip(jnp.mean(a, axis=2), 1) for a in (slopes, latents))
    spread, joint = (
        jnp.flip(jnp.einsum("ghni,ghnj->hij", _centre(latents), _centre(a)), 0)
        / (groups * (half - 1))
        for a in (latents, slopes)
    )
    linear = -jnp.einsum("hij,ghj->ghi", spread, mean_slope)[:, :, None]
    offsets = latents - middle[:, :, None]
    quadratic = -0.5 * jnp.einsum("hij,ghnj->ghni", joint, offsets)
    # Divergences are constants, and a covariance ignores constants.
    explained = [jnp.sum(part * scores, axis=-1) for part in (linear, quadratic)]
    first, second = _multipliers(values, *explained)
    return ControlVariate(
        residuals=values - first[..., None] * explained[0] - second[..., None] * explained[1],
        fields=first[..., None, None] * linear + second[..., None, None] * quadratic,
    )


def _multipliers(
    values: jax.Array, first: jax.Array, second: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Returns multipliers of two explanations of ``values``: least squares over all other groups.

    Arguments have shape (groups, 2, half), the multipliers (groups, 2).
    """

    def product(a: jax.Array, b: jax.Array) -> jax.Array:
        within = jnp.sum(_centre(a) * _centre(b), axis=2)
        return jnp.sum(within, axis=0, keepdims=True) - within

    def inverse_root(squares: jax.Array) -> jax.Array:
        return jnp.where(squares > 0, jax.lax.rsqrt(jnp.where(squares > 0, squares, 1.0)), 0.0)

    scales = inverse_root(product(first, first)), inverse_root(product(second, second))
    overlap = product(first, second) * scales[0] * scales[1]
    moments = product(first, values) * scales[0], product(second, values) * scales[1]
    diagonal = 1.0 + _RIDGE
    determinant = diagonal**2 - jnp.square(overlap)
    return (
        scales[0] * (diagonal * moments[0] - overlap * moments[1]) / determinant,
        scales[1] * (diagonal * moments[1] - overlap * moments[0]) / determinant,
    )


def _centre(array: jax.Array) -> jax.Array:
    return array - jnp.mean(array, axis=2, keepdims=True)
