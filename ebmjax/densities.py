"""Log densities: from energies, tempered, restricted, bridged; analytic ones with known moments.

A log density is a function of one position (one chain) that returns a scalar, unnormalised.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma, polygamma

from ebmjax._checks import check_box, check_interval, check_positive, check_scalar
from ebmjax.types import EnergyFn, LogDensityFn, PyTree


def from_energy(energy_fn: EnergyFn) -> LogDensityFn:
    """The log density ``-energy``: the one place in the library where the sign flips.

    Example:
      >>> log_density_fn = from_energy(lambda x: 0.5 * x**2)
      >>> float(log_density_fn(2.0))
      -2.0
    """
    return lambda position: -energy_fn(position)


def tempered(log_density_fn: LogDensityFn, temperature: float | jax.Array) -> LogDensityFn:
    """``log_density / temperature``, a positive scalar: flatter than the original above 1."""
    check_scalar("temperature", temperature)
    check_positive("temperature", temperature)
    return lambda position: log_density_fn(position) / temperature


def power_posterior(
    log_prior_fn: LogDensityFn, log_likelihood_fn: LogDensityFn, power: float | jax.Array
) -> LogDensityFn:
    """``power * log_likelihood + log_prior``: the prior at power 0, the posterior at power 1.

    Source: thermodynamic-integration thesis, section 2; Friel & Pettitt 2008.
    """
    return lambda position: power * log_likelihood_fn(position) + log_prior_fn(position)


def within_box(log_density_fn: LogDensityFn, low: Any, high: Any) -> LogDensityFn:
    """The density restricted to ``[low, high]`` in every coordinate: ``-inf`` outside.

    A sampler that accepts or rejects (MALA) then samples the truncated density exactly; every move
    outside is lost. For samplers that never reject take ``ebmjax.samplers.reflect``, or project the
    chain with ``clamp``.
    """
    check_interval(low, high)

    def restricted(position: PyTree) -> jax.Array:
        check_box(low, high, position)
        leaves = [jnp.all((leaf >= low) & (leaf <= high)) for leaf in jax.tree.leaves(position)]
        return jnp.where(jnp.all(jnp.stack(leaves)), log_density_fn(position), -jnp.inf)

    return restricted


class Target(NamedTuple):
    """A log density whose moments are known, to hold samplers against.

    Attributes:
      log_density_fn: position of shape ``mean.shape`` to a scalar.
      mean: exact mean, coordinate by coordinate.
      variance: exact variance, coordinate by coordinate.
    """

    log_density_fn: LogDensityFn
    mean: jax.Array
    variance: jax.Array


def gaussian(mean: jax.Array, covariance: jax.Array) -> Target:
    """The normal density with ``mean`` of shape (d,) and ``covariance`` of shape (d, d)."""
    precision = jnp.linalg.inv(covariance)

    def log_density_fn(position: jax.Array) -> jax.Array:
        offset = position - mean
        return -0.5 * offset @ precision @ offset

    return Target(log_density_fn, mean, jnp.diagonal(covariance))


def log_gamma(concentration: jax.Array) -> Target:
    """Independent logarithms of Gamma(concentration, 1) draws: smooth and skewed to the left.

    An asymmetric target: a sign error that a Gaussian forgives shows here. ``concentration`` has
    the position's shape; the mean is digamma(concentration), the variance trigamma(concentration).
    """
    concentration = jnp.asarray(concentration)

    def log_density_fn(position: jax.Array) -> jax.Array:
        return jnp.sum(concentration * position - jnp.exp(position))

    return Target(log_density_fn, digamma(concentration), polygamma(1, concentration))
