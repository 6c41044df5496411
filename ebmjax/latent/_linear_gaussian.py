"""A latent EBM with exact answers: a linear generator and a quadratic energy.

Its power posteriors are Gaussian, so every quantity of thermodynamic integration has a closed form.
It is the test bed of this folder's samplers and estimators.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_factor, cho_solve

from ebmjax._checks import check_positive
from ebmjax.latent._divergences import adjacent_divergences
from ebmjax.latent._model import LatentModel, LatentParams, gaussian_log_density


class QuadraticPrior(NamedTuple):
    """``E(z) = z^T precision z / 2 - shift^T z``.

    Attributes:
      precision: shape (d, d), of which only the symmetric part acts. Plus ``I / base_scale^2`` it
        must be positive definite.
      shift: shape (d,).
    """

    precision: jax.Array
    shift: jax.Array


class LinearGenerator(NamedTuple):
    """``x = weight @ z + bias``.

    Attributes:
      weight: shape (event, d).
      bias: shape (event,).
    """

    weight: jax.Array
    bias: jax.Array


class GaussianMoments(NamedTuple):
    """The exact law of one power posterior.

    Attributes:
      mean: shape (d,).
      covariance: shape (d, d).
    """

    mean: jax.Array
    covariance: jax.Array


class ThermodynamicTerms(NamedTuple):
    """Exact values of the arguments of ``log_evidence``.

    Attributes:
      mean_log_likelihoods: shape (num_powers,), in nats.
      kl_forward: ``KL(p_i || p_{i+1})``, shape (num_powers - 1,).
      kl_backward: ``KL(p_{i+1} || p_i)``, shape (num_powers - 1,).
    """

    mean_log_likelihoods: jax.Array
    kl_forward: jax.Array
    kl_backward: jax.Array


def linear_gaussian_model(*, base_scale: float = 1.0, likelihood_scale: float = 0.3) -> LatentModel:
    """Returns the model whose params are ``LatentParams(QuadraticPrior, LinearGenerator)``.

    Example:
      >>> import jax.numpy as jnp
      >>> params = LatentParams(
      ...     QuadraticPrior(jnp.zeros((1, 1)), jnp.zeros(1)),
      ...     LinearGenerator(jnp.ones((1, 1)), jnp.zeros(1)),
      ... )
      >>> model = linear_gaussian_model(likelihood_scale=1.0)
      >>> posterior = linear_gaussian_power_posterior(params, model, jnp.array([2.0]), 1.0)
      >>> round(float(posterior.mean[0]), 6)
      1.0
    """
    check_positive("base_scale", base_scale)
    check_positive("likelihood_scale", likelihood_scale)
    return LatentModel(_quadratic_energy, _generate, base_scale, likelihood_scale)


def linear_gaussian_power_posterior(
    params: LatentParams, model: LatentModel, observation: jax.Array, power: Any
) -> GaussianMoments:
    """Returns the exact Gaussian ``p_t(z | x)``: the prior at power 0, the posterior at power 1.

    Args:
      params: the model's parameters.
      model: from ``linear_gaussian_model``.
      observation: one x, shape (event,); map over a batch with ``jax.vmap``.
      power: t in [0, 1], a scalar.

    Returns:
      Mean (d,) and covariance (d, d), by Cholesky of the posterior precision.
    """
    precision, shift = _natural_parameters(params, model, observation, power)
    factor = cho_factor(precision, lower=True)
    return GaussianMoments(
        cho_solve(factor, shift), cho_solve(factor, jnp.eye(shift.size, dtype=shift.dtype))
    )


def linear_gaussian_mean_log_likelihood(
    params: LatentParams, model: LatentModel, observation: jax.Array, power: Any
) -> jax.Array:
    """Returns the exact ``E_t = E_{p_t}[log p(x | z)]`` of one observation, a scalar in nats."""
    mean, covariance = linear_gaussian_power_posterior(params, model, observation, power)
    weight, bias = params.generator
    offset = observation - _dot(weight, mean) - bias
    squares = jnp.sum(jnp.square(offset)) + jnp.sum(weight * _dot(weight, covariance))
    return gaussian_log_density(squares, observation.size, model.likelihood_scale)


def linear_gaussian_terms(
    params: LatentParams, model: LatentModel, observation: jax.Array, powers: jax.Array
) -> ThermodynamicTerms:
    """Returns one observation's exact mean log likelihoods and divergences along ``powers``."""
    energies = jax.vmap(
        lambda t: linear_gaussian_mean_log_likelihood(params, model, observation, t)
    )(powers)
    mean, covariance = jax.vmap(
        lambda t: linear_gaussian_power_posterior(params, model, observation, t)
    )(powers)
    return ThermodynamicTerms(energies, *adjacent_divergences(mean, covariance))


def linear_gaussian_log_normalizer(params: LatentParams, model: LatentModel) -> jax.Array:
    """Returns the prior's exact ``log Z = log E_{N(0, base_scale^2 I)}[exp(-E(z))]``, a scalar."""
    precision, shift = _prior_natural_parameters(params, model)
    factor = cho_factor(precision, lower=True)
    log_scales = jnp.log(jnp.diagonal(factor[0])) + jnp.log(model.base_scale)
    return 0.5 * jnp.sum(shift * cho_solve(factor, shift)) - jnp.sum(log_scales)


def linear_gaussian_log_evidence(
    params: LatentParams, model: LatentModel, observation: jax.Array
) -> jax.Array:
    """Returns one observation's exact ``log p(x)``, by x's Gaussian marginal; a scalar in nats."""
    mean, covariance = linear_gaussian_power_posterior(params, model, observation, 0.0)
    weight, bias = params.generator
    noise = model.likelihood_scale**2 * jnp.eye(observation.size, dtype=observation.dtype)
    factor = cho_factor(_dot(weight, _dot(weight, covariance).T) + noise, lower=True)
    offset = observation - _dot(weight, mean) - bias
    squares = jnp.sum(offset * cho_solve(factor, offset))
    log_det = 2.0 * jnp.sum(jnp.log(jnp.diagonal(factor[0])))
    return -0.5 * (squares + log_det + observation.size * jnp.log(2.0 * jnp.pi))


def _quadratic_energy(prior: QuadraticPrior, z: jax.Array) -> jax.Array:
    return 0.5 * jnp.sum(z * _dot(prior.precision, z)) - jnp.sum(prior.shift * z)


def _generate(generator: LinearGenerator, z: jax.Array) -> jax.Array:
    return _dot(generator.weight, z) + generator.bias


def _prior_natural_parameters(
    params: LatentParams, model: LatentModel
) -> tuple[jax.Array, jax.Array]:
    precision, shift = params.prior
    base = jnp.eye(shift.size, dtype=shift.dtype) / model.base_scale**2
    return 0.5 * (precision + precision.T) + base, shift


def _natural_parameters(
    params: LatentParams, model: LatentModel, observation: jax.Array, power: Any
) -> tuple[jax.Array, jax.Array]:
    precision, shift = _prior_natural_parameters(params, model)
    weight, bias = params.generator
    strength = power / model.likelihood_scale**2
    return (
        precision + strength * _dot(weight.T, weight),
        shift + strength * _dot(weight.T, observation - bias),
    )


def _dot(a: jax.Array, b: jax.Array) -> jax.Array:
    # Closed forms are the reference: no TF32 on accelerators.
    return jnp.matmul(a, b, precision="highest")
