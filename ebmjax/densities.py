"""Log densities: from energies, tempered, restricted, composed; analytic ones with known moments.

A log density is a function of one position (one chain) that returns a scalar, unnormalised.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma, polygamma

from ebmjax._checks import (
    check_box,
    check_labels,
    check_positive,
    check_scalar,
)
from ebmjax.types import EnergyFn, LogDensityFn, PyTree


def from_energy(energy_fn: EnergyFn) -> LogDensityFn:
    """The log density ``-energy``: the one place in the library where the sign flips."""
    return lambda position: -energy_fn(position)


def tempered(log_density_fn: LogDensityFn, temperature: float | jax.Array) -> LogDensityFn:
    """``log_density / temperature``, a positive scalar: flatter than the original above 1."""
    check_positive("temperature", temperature, is_scalar=True)
    return lambda position: log_density_fn(position) / temperature


def power_posterior(
    log_prior_fn: LogDensityFn, log_likelihood_fn: LogDensityFn, power: float | jax.Array
) -> LogDensityFn:
    """``power * log_likelihood + log_prior``: the prior at power 0, the posterior at power 1.

    Source: thermodynamic-integration thesis, section 2; Friel & Pettitt 2008.
    """
    return lambda position: power * log_likelihood_fn(position) + log_prior_fn(position)


def product(
    log_density_fns: Sequence[LogDensityFn], powers: Sequence[float | jax.Array] | None = None
) -> LogDensityFn:
    r"""The product of densities: ``sum(power * log_density)``, the weighted sum of minus energies.

    .. math:: \log p(x) = \sum_i w_i \log p_i(x)

    A negative power is a negation: the product turns away from what :math:`p_i` likes. The others
    must then fall faster than :math:`p_i^{w_i}` rises, or the product has no integral. Where a
    power is not positive, its density must be above 0 wherever the others are.

    Args:
      log_density_fns: of the same position; at least one.
      powers: :math:`w_i`, a scalar for each, may be traced; None for all 1.

    Source: Hinton 2002 (products of experts); Du et al. 2020 (arXiv 2004.06030).
    """
    fns = tuple(log_density_fns)
    weights = (1.0,) * len(fns) if powers is None else tuple(powers)
    _check_members("powers", weights, fns)

    def log_product(position: PyTree) -> jax.Array:
        terms = [weight * fn(position) for weight, fn in zip(weights, fns, strict=True)]
        return sum(terms[1:], start=terms[0])

    return log_product


def mixture(
    log_density_fns: Sequence[LogDensityFn], weights: Sequence[float | jax.Array] | None = None
) -> LogDensityFn:
    r"""The weighted sum of densities: ``logsumexp(log(weight) + log_density)``.

    .. math:: \log p(x) = \log \sum_i w_i\, p_i(x)

    The densities are summed as they are, unnormalised: a component's share of the mass is in
    proportion to :math:`w_i Z_i`. So energies of different runs, whose constants are free, need
    estimates of log Z (``ebmjax.evaluate``) before their shares mean anything.

    Args:
      log_density_fns: of the same position; at least one.
      weights: :math:`w_i`, a positive scalar for each, may be traced; None for all 1.

    Source: Du et al. 2020 (arXiv 2004.06030).
    """
    fns = tuple(log_density_fns)
    shares = (1.0,) * len(fns) if weights is None else tuple(weights)
    _check_members("weights", shares, fns)
    for one in shares:
        check_positive("weights", one)

    def log_mixture(position: PyTree) -> jax.Array:
        logs = jnp.stack([jnp.asarray(fn(position)) for fn in fns])
        factors = jnp.stack([jnp.asarray(one, logs.dtype) for one in shares])
        return jax.nn.logsumexp(logs, b=factors)

    return log_mixture


def guide(
    log_density_fn: LogDensityFn,
    logits_fn: Callable[[PyTree], jax.Array],
    label: int | jax.Array,
    weight: float | jax.Array,
) -> LogDensityFn:
    r"""A density that a classifier draws to one class.

    .. math:: \log p(x) + w \log p(y \mid x)

    Weight 0 is the density itself. Weight 1 is the class's own density where classifier and density
    agree. Larger weights ask for images of which the classifier is surer.

    Args:
      log_density_fn: :math:`\log p`.
      logits_fn: position to logits (classes,), whose softmax is :math:`p(y \mid x)`.
      label: :math:`y`, from 0; may be traced.
      weight: :math:`w`, a scalar; may be traced.

    Source: Dhariwal & Nichol 2021 (arXiv 2105.05233), section 4.
    """
    check_scalar("weight", weight)

    def log_probability(position: PyTree) -> jax.Array:
        logits = jnp.asarray(logits_fn(position))
        if logits.ndim != 1:
            raise ValueError(f"logits_fn must return logits (classes,), got shape {logits.shape}.")
        check_labels("label", label, (), len(logits))
        return jax.nn.log_softmax(logits)[label]

    return power_posterior(log_density_fn, log_probability, weight)


def condition(log_density_fn: LogDensityFn, given: Any, mask: Any) -> LogDensityFn:
    """The density of the free entries of a position, while all others stay as they are given.

    Its position is ``given[mask]``; ``given.at[mask].set(position)`` is the whole one.

    Args:
      log_density_fn: of a position that is one array, such as an image (H, W, C).
      given: such an array, whose free entries are not used.
      mask: bools of its first axes, such as (H, W), True where entries are free (static).
    """
    free, whole = np.asarray(mask), jnp.asarray(given)
    if free.dtype != bool or free.shape != whole.shape[: free.ndim]:
        raise ValueError(
            f"mask must be bools of the first axes of given, {whole.shape}; got {free.dtype} of "
            f"shape {free.shape}."
        )
    return lambda position: log_density_fn(whole.at[free].set(position))


def observe(
    log_density_fn: LogDensityFn, operator: Callable[..., Any], observed: Any, noise_scale: Any
) -> LogDensityFn:
    r"""The posterior of a position of which an operator was observed under Gaussian noise.

    .. math:: \log p(x \mid y) = \log p(x) - \frac{|A(x) - y|^2}{2 s^2} + \text{const}

    Args:
      log_density_fn: :math:`\log p`.
      operator: :math:`A`, from a position to an array; linear or not, with a gradient.
      observed: :math:`y`, of the shape of ``operator(position)``.
      noise_scale: :math:`s`, a positive scalar in units of y; may be traced.
    """
    check_positive("noise_scale", noise_scale, is_scalar=True)

    def log_likelihood(position: PyTree) -> jax.Array:
        seen, shape = jnp.asarray(operator(position)), jnp.shape(observed)
        if seen.shape != shape:
            raise ValueError(f"operator must return an array of shape {shape}, got {seen.shape}.")
        return -0.5 * jnp.sum(jnp.square((seen - observed) / noise_scale))

    return power_posterior(log_density_fn, log_likelihood, 1.0)


def _check_members(name: str, numbers: Sequence[Any], fns: Sequence[LogDensityFn]) -> None:
    if not fns or len(numbers) != len(fns):
        raise ValueError(
            f"{name} must be one for each of at least one density, got {len(numbers)} for "
            f"{len(fns)}."
        )
    for one in numbers:
        check_scalar(name, one)


def within_box(log_density_fn: LogDensityFn, low: Any, high: Any) -> LogDensityFn:
    """The density restricted to ``[low, high]`` in every coordinate: ``-inf`` outside.

    A sampler that accepts or rejects (MALA) then samples the truncated density exactly; every move
    outside is lost. For samplers that never reject take ``ebmjax.samplers.reflect``, or project the
    chain with ``clamp``.
    """
    check_box(low, high)

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
