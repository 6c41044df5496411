"""The latent EBM: an energy-tilted Gaussian prior under a Gaussian generator."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax._checks import check_positive
from ebmjax._precision import at_least_float32
from ebmjax.samplers import FactorGaussian
from ebmjax.types import LogDensityFn, PyTree


class LatentParams(NamedTuple):
    """The two sets of learned parameters.

    Attributes:
      prior: PyTree for ``LatentModel.energy_fn``.
      generator: PyTree for ``LatentModel.generator_fn``.
    """

    prior: PyTree
    generator: PyTree


class LatentModel(NamedTuple):
    r"""Functions and scales that define the model, for one example without a batch axis.

    .. math::
        z \sim p_\alpha(z) = \exp(-E_\alpha(z))\, \mathcal N(z; 0, \sigma_0^2 I) / Z_\alpha,
        \qquad x = g_\beta(z) + \sigma_l\, \xi

    Attributes:
      energy_fn: ``energy_fn(prior_params, z) -> scalar`` for z of shape (d,); low is likely.
      generator_fn: ``generator_fn(generator_params, z) -> x``, of any event shape.
      base_scale: :math:`\sigma_0`, standard deviation of the base Gaussian, in units of z.
      likelihood_scale: :math:`\sigma_l`, standard deviation of the noise, in units of x.
      draw_prior_fn: ``draw_prior_fn(prior_params, key, num)`` to exact draws (num, d), of an energy
        whose log Z is 0, such as ``networks.UnivariateEnergy``. Then the prior needs no chain, and
        the contrast no draws. None for chains.

    Source: Pang et al. 2020; thermodynamic-integration thesis, Eq. 1, 2 and 9.
    """

    energy_fn: Callable[..., Any]
    generator_fn: Callable[..., Any]
    base_scale: float = 1.0
    likelihood_scale: float = 0.3
    draw_prior_fn: Callable[..., jax.Array] | None = None


def log_prior(params: LatentParams, model: LatentModel, z: jax.Array) -> jax.Array:
    """Returns ``-E(z) + log N(z; 0, base_scale^2 I)`` of one latent (d,), a scalar in nats.

    It is the log prior plus the constant log Z of the tilt (thesis, Eq. 1).
    """
    check_positive("base_scale", model.base_scale)
    squares = jnp.sum(at_least_float32(jnp.square(z)))
    return gaussian_log_density(squares, z.size, model.base_scale) - energy(params, model, z)


def log_likelihood(
    params: LatentParams, model: LatentModel, z: jax.Array, x: jax.Array
) -> jax.Array:
    """Returns ``log N(x; generator(z), likelihood_scale^2 I)`` of one pair, a scalar in nats.

    Args:
      params, model: the latent EBM, whose prior is not used.
      z: one latent, shape (d,).
      x: one observation, in the generator's event shape.

    Source: thermodynamic-integration thesis, Eq. 9, with its constant.
    """
    check_positive("likelihood_scale", model.likelihood_scale)
    return gaussian_log_density(squared_error(params, model, z, x), x.size, model.likelihood_scale)


def path_to_prior(params: LatentParams, model: LatentModel) -> tuple[LogDensityFn, LogDensityFn]:
    """Returns ``(log_base_fn, log_tilt_fn)`` from the base to the prior; the ratio is its Z."""
    return _log_base_fn(model), lambda z: -energy(params, model, z)


def path_to_posterior(
    params: LatentParams, model: LatentModel, observation: jax.Array
) -> tuple[LogDensityFn, LogDensityFn]:
    """Returns ``(log_base_fn, log_tilt_fn)`` from the base to a posterior; the ratio is Z p(x)."""
    return _log_base_fn(
        model
    ), lambda z: log_likelihood(params, model, z, observation) - energy(params, model, z)


def _log_base_fn(model: LatentModel) -> LogDensityFn:
    return lambda z: gaussian_log_density(jnp.sum(jnp.square(z)), z.size, model.base_scale)


def principal_latents(base: FactorGaussian, observations: jax.Array, latent_dim: int) -> jax.Array:
    """Returns the observations' principal components in units of their deviations, (batch, d).

    Over the observations that ``base`` was fitted to, they have mean 0 and about the variance 1 of
    a latent EBM's base. So chains that start there need few steps to the posterior. Coordinates
    beyond the directions of ``base`` are 0.

    Args:
      base: one Gaussian of ``samplers.fit_factor_gaussian``.
      observations: (batch, *event).
      latent_dim: d (static).
    """
    flat = (observations - base.mean[None]).reshape(len(observations), -1)
    directions, variances = base.directions[:, -latent_dim:], base.variances[-latent_dim:]
    components = flat @ (directions / jnp.sqrt(variances)[None])
    return jnp.pad(components, ((0, 0), (0, latent_dim - components.shape[1])))


def energy(params: LatentParams, model: LatentModel, z: jax.Array) -> jax.Array:
    """Returns ``energy_fn`` of one latent; raises unless it is a scalar."""
    value = jnp.asarray(model.energy_fn(params.prior, z))
    if value.shape != ():
        raise ValueError(
            f"energy_fn must return a scalar for one latent of shape {z.shape}, got shape "
            f"{value.shape}. Take [0] of a one-unit output layer; batches are vmapped outside."
        )
    return value


def squared_error(
    params: LatentParams, model: LatentModel, z: jax.Array, x: jax.Array
) -> jax.Array:
    """Returns ``||x - generator(z)||^2`` of one pair, summed in at least float32."""
    mean = model.generator_fn(params.generator, z)
    if mean.shape != x.shape:
        raise ValueError(
            f"generator_fn returned shape {mean.shape} for one latent of shape {z.shape}, but one "
            f"observation has shape {x.shape}; they must be equal."
        )
    offset = (x - mean).astype(at_least_float32(mean).dtype)
    return jnp.sum(jnp.square(offset))


def gaussian_log_density(squares: jax.Array, size: int, scale: float) -> jax.Array:
    """Returns ``log N`` of ``size`` independent coordinates with sum of squared offsets
    ``squares``."""
    return -0.5 * (squares / scale**2 + size * jnp.log(2.0 * jnp.pi * scale**2))
