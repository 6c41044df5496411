"""Shared parts of the learning-gradient losses: terms at samples, metrics, penalty, checks."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax._checks import check_at_least, check_not_negative, check_whole_ladder
from ebmjax._precision import weighted_mean_square
from ebmjax.latent._model import (
    LatentModel,
    LatentParams,
    energy,
    gaussian_log_density,
    squared_error,
)
from ebmjax.types import Metrics


class SampleTerms(NamedTuple):
    """Terms of the model at its samples, differentiable in the parameters.

    Attributes:
      posterior_energies: at the last power's latents, shape (batch,).
      prior_energies: shape (num_prior,).
      squared_errors: at each power and observation, summed over the event, shape (num_powers,
        batch).
    """

    posterior_energies: jax.Array
    prior_energies: jax.Array
    squared_errors: jax.Array


def frozen_terms(
    params: LatentParams,
    model: LatentModel,
    observations: jax.Array,
    power_latents: jax.Array,
    prior_latents: jax.Array,
) -> SampleTerms:
    """Returns the terms at latents, with no gradient through the latents."""
    power_latents, prior_latents = jax.lax.stop_gradient((power_latents, prior_latents))
    return SampleTerms(
        energies(params, model, power_latents[-1]),
        energies(params, model, prior_latents),
        squared_errors(params, model, observations, power_latents),
    )


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
    observations: jax.Array, terms: SampleTerms, mean_log_likelihoods: jax.Array
) -> Metrics:
    """Returns the metrics of every learning-gradient loss."""
    return {
        "reconstruction_error": jnp.mean(terms.squared_errors[-1]) / observations[0].size,
        "mean_log_likelihoods": mean_log_likelihoods,
        "posterior_energy": jnp.mean(terms.posterior_energies),
        "prior_energy": jnp.mean(terms.prior_energies),
    }


def energy_penalty(terms: SampleTerms, energy_l2: Any) -> jax.Array:
    """Returns ``energy_l2`` times the sum of both kinds of energies' mean squares."""
    check_not_negative("energy_l2", energy_l2)
    energies = (terms.posterior_energies, terms.prior_energies)
    posterior, prior = (weighted_mean_square(energy_l2, energy) for energy in energies)
    return posterior + prior


def check_latents(
    observations: jax.Array,
    power_latents: jax.Array,
    prior_latents: jax.Array,
    powers: jax.Array | None = None,
) -> None:
    """Raises ValueError unless the latents belong to observations and a whole ladder of powers.

    Without a ladder they are those of one power.
    """
    if powers is not None:
        check_whole_ladder(powers)
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
