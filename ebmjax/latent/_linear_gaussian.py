"""A latent EBM with exact answers: a linear generator and a quadratic energy."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_factor, cho_solve

from ebmjax.latent._divergences import adjacent_divergences
from ebmjax.latent._model import LatentModel, LatentParams, gaussian_log_density


class QuadraticPrior(NamedTuple):
    """``E(z) = z^T precision z / 2 - shift^T z``."""

    precision: jax.Array
    shift: jax.Array


class LinearGenerator(NamedTuple):
    """``x = weight @ z + bias``."""

    weight: jax.Array
    bias: jax.Array


def _quadratic_energy(prior: QuadraticPrior, z: jax.Array) -> jax.Array:
    return 0.5 * jnp.sum(z * _dot(prior.precision, z)) - jnp.sum(prior.shift * z)


def _generate(generator: LinearGenerator, z: jax.Array) -> jax.Array:
    return _dot(generator.weight, z) + generator.bias


class LinearGaussian(LatentModel):
    """A ``LatentModel`` whose power posteriors are Gaussian, with closed forms of its integrals.

    It holds samplers and estimators to the truth. All methods take the parameters that ``params``
    makes, and one observation x of shape (event,); map over a batch with ``jax.vmap``.
    """

    def __new__(
        cls,
        energy_fn: Callable[..., Any] = _quadratic_energy,
        generator_fn: Callable[..., Any] = _generate,
        base_scale: float = 1.0,
        likelihood_scale: float = 0.3,
    ) -> "LinearGaussian":
        """Returns the model of ``E(z) = z^T A z / 2 - c^T z`` and ``x = W z + b``."""
        return super().__new__(cls, energy_fn, generator_fn, base_scale, likelihood_scale)

    @staticmethod
    def params(
        precision: jax.Array, shift: jax.Array, weight: jax.Array, bias: jax.Array
    ) -> LatentParams:
        """Returns the parameters A (d, d), c (d,), W (event, d) and b (event,).

        Of A only the symmetric part acts. Plus ``I / base_scale^2`` it must be positive definite.
        """
        return LatentParams(QuadraticPrior(precision, shift), LinearGenerator(weight, bias))

    def power_posterior(
        self, params: LatentParams, x: jax.Array, power: Any
    ) -> tuple[jax.Array, jax.Array]:
        """Returns mean (d,) and covariance (d, d) of p_t(z | x), t = ``power`` in [0, 1]."""
        precision, shift = self._tilt(params)
        weight, bias = params.generator
        strength = power / self.likelihood_scale**2
        precision = precision + strength * _dot(weight.T, weight)
        shift = shift + strength * _dot(weight.T, x - bias)
        factor = cho_factor(precision, lower=True)
        identity = jnp.eye(shift.size, dtype=shift.dtype)
        return cho_solve(factor, shift), cho_solve(factor, identity)

    def mean_log_likelihood(self, params: LatentParams, x: jax.Array, power: Any) -> jax.Array:
        """Returns ``E_t = E_{p_t}[log p(x | z)]``, a scalar in nats."""
        mean, covariance = self.power_posterior(params, x, power)
        weight, bias = params.generator
        offset = x - _dot(weight, mean) - bias
        squares = jnp.sum(jnp.square(offset)) + jnp.sum(weight * _dot(weight, covariance))
        return gaussian_log_density(squares, x.size, self.likelihood_scale)

    def terms(self, params: LatentParams, x: jax.Array, powers: jax.Array) -> dict[str, jax.Array]:
        """Returns the arguments of ``log_evidence`` by name, all but the powers."""
        energies = jax.vmap(lambda t: self.mean_log_likelihood(params, x, t))(powers)
        moments = jax.vmap(lambda t: self.power_posterior(params, x, t))(powers)
        forward, backward = adjacent_divergences(*moments)
        return {"mean_log_likelihoods": energies, "kl_forward": forward, "kl_backward": backward}

    def log_normalizer(self, params: LatentParams) -> jax.Array:
        """Returns the prior's ``log Z = log E_{N(0, base_scale^2 I)}[exp(-E(z))]``, a scalar."""
        precision, shift = self._tilt(params)
        factor = cho_factor(precision, lower=True)
        log_scales = jnp.log(jnp.diagonal(factor[0])) + jnp.log(self.base_scale)
        return 0.5 * jnp.sum(shift * cho_solve(factor, shift)) - jnp.sum(log_scales)

    def log_evidence(self, params: LatentParams, x: jax.Array) -> jax.Array:
        """Returns ``log p(x)`` by the Gaussian marginal of x, a scalar in nats."""
        mean, covariance = self.power_posterior(params, x, 0.0)
        weight, bias = params.generator
        noise = self.likelihood_scale**2 * jnp.eye(x.size, dtype=x.dtype)
        factor = cho_factor(_dot(weight, _dot(weight, covariance).T) + noise, lower=True)
        offset = x - _dot(weight, mean) - bias
        squares = jnp.sum(offset * cho_solve(factor, offset))
        log_det = 2.0 * jnp.sum(jnp.log(jnp.diagonal(factor[0])))
        return -0.5 * (squares + log_det + x.size * jnp.log(2.0 * jnp.pi))

    def _tilt(self, params: LatentParams) -> tuple[jax.Array, jax.Array]:
        """Returns precision and shift of the prior, the base included."""
        precision, shift = params.prior
        base = jnp.eye(shift.size, dtype=shift.dtype) / self.base_scale**2
        return 0.5 * (precision + precision.T) + base, shift


def _dot(a: jax.Array, b: jax.Array) -> jax.Array:
    # Closed forms are the reference: no TF32 on accelerators.
    return jnp.matmul(a, b, precision="highest")
