"""Learning gradients of the log evidence, as losses over frozen samples.

Each loss is a surrogate: its gradient is minus the learning gradient averaged over the batch. Its
value bounds nothing and may drift. No loss draws samples or differentiates through them.
"""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._checks import check_at_least, check_powers
from ebmjax._precision import energy_penalty
from ebmjax.evidence import trapezium_weights
from ebmjax.latent._model import (
    LatentModel,
    LatentParams,
    energy,
    gaussian_log_density,
    squared_error,
)
from ebmjax.types import Metrics


def vanilla_loss(
    params: LatentParams,
    model: LatentModel,
    observations: jax.Array,
    posterior_latents: jax.Array,
    prior_latents: jax.Array,
    *,
    energy_l2: Any = 0.0,
) -> tuple[jax.Array, Metrics]:
    r"""Returns the loss of maximum likelihood, from posterior and prior samples.

    Estimates, with :math:`f = -E`,

    .. math::
        \nabla_\alpha \log p(x) = E_{p(z|x)} \nabla f_\alpha - E_{p(z)} \nabla f_\alpha, \qquad
        \nabla_\beta \log p(x) = E_{p(z|x)} \nabla \log p_\beta(x | z)

    It is unbiased for exact samples; short chains bring a bias.

    Args:
      params: to differentiate with respect to.
      model: the latent EBM.
      observations: shape (batch, *event).
      posterior_latents: one draw from each observation's posterior, shape (batch, d).
      prior_latents: shape (num_prior, d).
      energy_l2: weight of the penalty that keeps energies bounded: the mean squared energy of the
        posterior samples plus that of the prior samples; may be traced.

    Returns:
      The scalar loss and metrics: ``reconstruction_error``, the squared error a pixel at the
      posterior samples; ``mean_log_likelihoods``, shape (1,), in nats; ``posterior_energy`` and
      ``prior_energy``, means over samples.

    Source: Pang et al. 2020; thermodynamic-integration thesis, Eq. 7 and 8; Du & Mordatch 2019
    for the penalty.
    """
    latents = posterior_latents[None]
    check_latents(observations, latents, prior_latents)
    penalty, metrics = _summarise(params, model, observations, latents, prior_latents, energy_l2)
    return _contrast(model, metrics) - metrics["mean_log_likelihoods"][0] + penalty, metrics


def tempered_loss(
    params: LatentParams,
    model: LatentModel,
    observations: jax.Array,
    power_latents: jax.Array,
    prior_latents: jax.Array,
    powers: jax.Array,
    *,
    energy_l2: Any = 0.0,
) -> tuple[jax.Array, Metrics]:
    r"""Trains the generator along the powers, as the thesis does, and the prior by contrast.

    With trapezium weights w and power posteriors :math:`p_i` it estimates

    .. math::
        d_\beta = \textstyle\sum_i w_i\, E_{p_i} \nabla \log p_\beta(x | z)

    and the prior's part of ``vanilla_loss``. The generator's part is stable and cheap, and biased
    even for exact samples: it holds the power posteriors fixed, and lacks what ``covariance_loss``
    adds.

    Args:
      params, model, observations, prior_latents, energy_l2: as in ``vanilla_loss``.
      power_latents: a draw for each power and observation, shape (num_powers, batch, d), from the
        prior (first power) to the posterior (last).
      powers: increasing from 0 to 1, shape (num_powers,).

    Returns:
      The scalar loss and the metrics of ``vanilla_loss``, with ``mean_log_likelihoods``, the
      :math:`E_t` averaged over the batch, of shape (num_powers,).

    Source: thermodynamic-integration thesis, Eq. 19 without its divergences. Its public code loses
    the prior's contrast.
    """
    loss, metrics = frozen_prior_loss(
        params, model, observations, power_latents, prior_latents, powers, energy_l2=energy_l2
    )
    return _contrast(model, metrics) + loss, metrics


def telescoped_loss(
    params: LatentParams,
    model: LatentModel,
    observations: jax.Array,
    power_latents: jax.Array,
    prior_latents: jax.Array,
    powers: jax.Array,
    *,
    energy_l2: Any = 0.0,
) -> tuple[jax.Array, Metrics]:
    r"""Returns a loss with the gradient of the exact thermodynamic identity.

    Each interval contributes :math:`\nabla \log Z_i - \nabla \log Z_{i-1}`. The sum telescopes to
    power 1 minus power 0, which ``vanilla_loss`` estimates. The powers between only help the chains
    arrive (``warm_start``) and fill the metrics. It is unbiased for exact samples. Arguments and
    returns are those of ``tempered_loss``.

    Source: Calderhead & Girolami 2009, differentiated.
    """
    check_latents(observations, power_latents, prior_latents, powers)
    loss, metrics = vanilla_loss(
        params, model, observations, power_latents[-1], prior_latents, energy_l2=energy_l2
    )
    fixed, latents = jax.lax.stop_gradient((params, power_latents[:-1]))
    errors = squared_errors(fixed, model, observations, latents)
    between = log_likelihoods(model, observations, jnp.mean(errors, axis=1))
    along = jnp.concatenate([between, metrics["mean_log_likelihoods"]])
    return loss, {**metrics, "mean_log_likelihoods": along}


def frozen_prior_loss(
    params: LatentParams,
    model: LatentModel,
    observations: jax.Array,
    power_latents: jax.Array,
    prior_latents: jax.Array,
    powers: jax.Array,
    *,
    energy_l2: Any = 0.0,
) -> tuple[jax.Array, Metrics]:
    """Trains the generator alone, as the thesis's public code does; only for its published curves.

    With samples held fixed, the trapezium sum does not depend on the prior, whose gradient is zero
    or, with ``energy_l2``, the penalty's. Use ``tempered_loss`` to train, which only adds the
    prior's contrast. Arguments and returns are those of ``tempered_loss``.

    Source: thermodynamic-integration thesis, Eq. 19, as its public code differentiates it.
    """
    check_latents(observations, power_latents, prior_latents, powers)
    penalty, metrics = _summarise(
        params, model, observations, power_latents, prior_latents, energy_l2
    )
    along = metrics["mean_log_likelihoods"]
    return penalty - jnp.sum(trapezium_weights(powers) * along), metrics


def covariance_loss(
    params: LatentParams,
    model: LatentModel,
    observations: jax.Array,
    power_latents: jax.Array,
    prior_latents: jax.Array,
    powers: jax.Array,
    *,
    num_chains: int,
    energy_l2: Any = 0.0,
) -> tuple[jax.Array, Metrics]:
    r"""Returns a loss whose gradient is the trapezium sum's, moving power posteriors included.

    With :math:`\ell = \log p_\beta(x | z)`, :math:`f = -E` and trapezium weights w it estimates

    .. math::
        d_\alpha = \textstyle\sum_i w_i\, Cov_{t_i}(\ell, \nabla f_\alpha), \qquad
        d_\beta = \textstyle\sum_i w_i \left( E_{t_i} \nabla \ell
            + t_i\, Cov_{t_i}(\ell, \nabla \ell) \right)

    for each observation, and averages over observations. With exact samples it is unbiased for that
    sum, which tends to the gradient of the log evidence as the intervals narrow. Each observation
    needs several chains; at power 0 every chain serves all observations, through their mean log
    likelihood. The variance is that of :math:`\ell`: hundreds of nats under short chains of images.

    Args:
      params, model, powers, energy_l2: as in ``tempered_loss``.
      observations: ``jnp.repeat(x, num_chains, axis=0)``, shape (batch * num_chains, *event).
      power_latents: independent chains, shape (num_powers, batch * num_chains, d): the prior's at
        the first power, the posterior's at the last.
      prior_latents: shape (num_prior, d); used only for metrics and penalty.
      num_chains: chains of each observation, at least 2 (static).

    Returns:
      The scalar loss, a surrogate of which only the gradient has a meaning, and the metrics of
      ``tempered_loss``.

    Source: Calderhead & Girolami 2009, the trapezium rule differentiated (score function).
    """
    check_latents(observations, power_latents, prior_latents, powers)
    check_at_least("num_chains", num_chains, 2)
    if observations.shape[0] % num_chains != 0:
        raise ValueError(
            f"num_chains must divide the {observations.shape[0]} observations, got {num_chains=}. "
            "Repeat each with jnp.repeat(x, num_chains, axis=0)."
        )
    latents, prior_latents = jax.lax.stop_gradient((power_latents, prior_latents))
    errors = squared_errors(params, model, observations, latents[1:])
    # At power 0 over all observations: the error to the mean one plus the spread around it.
    centre = jnp.broadcast_to(jnp.mean(observations, axis=0), observations.shape)
    to_centre = squared_errors(params, model, centre, latents[:1])
    at_prior = to_centre + jnp.sum(jnp.var(observations, axis=0))
    values = log_likelihoods(model, observations, jnp.concatenate([at_prior, errors]))
    grid = energies(params, model, latents)
    ends = grid[-1], energies(params, model, prior_latents)
    powers = jnp.asarray(powers)
    along = jnp.mean(values, axis=1)
    log_law = powers[:, None] * values - grid
    prior = _covariances(values[:1], log_law[:1], values.shape[1])
    moving = jnp.concatenate([prior, _covariances(values[1:], log_law[1:], num_chains)])
    integral = jnp.sum(trapezium_weights(powers) * (along + moving))
    metrics = sample_metrics(observations, *ends, errors, along)
    return energy_penalty(energy_l2, *ends) - integral, metrics


def _contrast(model: LatentModel, metrics: Metrics) -> jax.Array:
    """Returns the prior's loss; where log Z is 0 the mean gradient of prior draws is exactly 0."""
    prior_energy = metrics["prior_energy"] if model.draw_prior_fn is None else 0.0
    return metrics["posterior_energy"] - prior_energy


def _covariances(values: jax.Array, log_law: jax.Array, group: int) -> jax.Array:
    """Returns covariances of log likelihoods with the log law, averaged over groups, (num_powers,).

    Both arguments have shape (num_powers, groups * group). A group's chains share their law. Only
    the law is differentiated, not ``values``.
    """
    values, log_law = (array.reshape(len(array), -1, group) for array in (values, log_law))
    # Centring one factor suffices; dividing by group - 1 corrects for the estimated mean.
    centred = jax.lax.stop_gradient(values - jnp.mean(values, axis=2, keepdims=True))
    return jnp.mean(jnp.sum(centred * log_law, axis=2), axis=1) / (group - 1)


def _summarise(
    params: LatentParams,
    model: LatentModel,
    observations: jax.Array,
    power_latents: jax.Array,
    prior_latents: jax.Array,
    energy_l2: Any,
) -> tuple[jax.Array, Metrics]:
    """Returns penalty and metrics at latents, with no gradient through the latents."""
    latents, prior_latents = jax.lax.stop_gradient((power_latents, prior_latents))
    ends = energies(params, model, latents[-1]), energies(params, model, prior_latents)
    errors = squared_errors(params, model, observations, latents)
    along = log_likelihoods(model, observations, jnp.mean(errors, axis=1))
    return energy_penalty(energy_l2, *ends), sample_metrics(observations, *ends, errors, along)


def energies(params: LatentParams, model: LatentModel, latents: jax.Array) -> jax.Array:
    """Returns energies, shape (...), of latents (..., d)."""
    flat = jax.vmap(lambda z: energy(params, model, z))(latents.reshape(-1, latents.shape[-1]))
    return flat.reshape(latents.shape[:-1])


def squared_errors(
    params: LatentParams, model: LatentModel, observations: jax.Array, power_latents: jax.Array
) -> jax.Array:
    """Returns squared errors of shape (num_powers, batch), summed over the event."""
    over_batch = jax.vmap(lambda z, x: squared_error(params, model, z, x))
    return jax.vmap(over_batch, in_axes=(0, None))(power_latents, observations)


def log_likelihoods(model: LatentModel, observations: jax.Array, errors: jax.Array) -> jax.Array:
    """Returns log likelihoods of single observations in nats, from (mean) squared errors."""
    return gaussian_log_density(errors, observations[0].size, model.likelihood_scale)


def sample_metrics(
    observations: jax.Array,
    posterior_energies: jax.Array,
    prior_energies: jax.Array,
    errors: jax.Array,
    mean_log_likelihoods: jax.Array,
) -> Metrics:
    """Returns the metrics of every loss, from ``errors`` whose last row is the posterior's."""
    return {
        "reconstruction_error": jnp.mean(errors[-1]) / observations[0].size,
        "mean_log_likelihoods": mean_log_likelihoods,
        "posterior_energy": jnp.mean(posterior_energies),
        "prior_energy": jnp.mean(prior_energies),
    }


def check_latents(
    observations: jax.Array,
    power_latents: jax.Array,
    prior_latents: jax.Array,
    powers: jax.Array | None = None,
) -> None:
    """Raises ValueError unless the latents belong to observations and a whole ladder of powers."""
    if powers is not None:
        check_powers(powers, is_whole=True)
    check_at_least("the number of observations", observations.shape[0], 1)
    num_powers = 1 if powers is None else len(powers)
    expected = (num_powers, observations.shape[0])
    if power_latents.ndim != 3 or power_latents.shape[:2] != expected:
        raise ValueError(
            f"latents must have one draw for each of {num_powers} powers and {expected[1]} "
            f"observations, shape (*{expected}, d), got {power_latents.shape}."
        )
    if prior_latents.ndim != 2 or prior_latents.shape[1] != power_latents.shape[2]:
        raise ValueError(
            f"prior_latents must have shape (num_prior, {power_latents.shape[2]}), got "
            f"{prior_latents.shape}."
        )
