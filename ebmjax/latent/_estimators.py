"""Learning gradients of the log evidence, as losses over frozen samples.

Each loss is a surrogate: its gradient is minus the learning gradient averaged over the batch; its
value is no bound on anything and may drift. None samples, and none lets a gradient into a sample.
"""

import jax
import jax.numpy as jnp

from ebmjax.latent._model import (
    LatentModel,
    LatentParams,
    energy,
    gaussian_log_density,
    squared_error,
)
from ebmjax.latent._schedule import check_whole_ladder, trapezium_weights
from ebmjax.types import Metrics


def vanilla_loss(
    params: LatentParams,
    model: LatentModel,
    observations: jax.Array,
    posterior_latents: jax.Array,
    prior_latents: jax.Array,
) -> tuple[jax.Array, Metrics]:
    r"""Maximum likelihood from posterior and prior samples.

    Estimates, with :math:`f = -E`,

    .. math::
        \nabla_\alpha \log p(x) = E_{p(z|x)} \nabla f_\alpha - E_{p(z)} \nabla f_\alpha, \qquad
        \nabla_\beta \log p(x) = E_{p(z|x)} \nabla \log p_\beta(x | z)

    Unbiased for exact samples; short chains bring their own bias.

    Args:
      params: to differentiate with respect to.
      model: the latent EBM.
      observations: shape (batch, *event).
      posterior_latents: one draw from each observation's posterior, shape (batch, d).
      prior_latents: shape (num_prior, d).

    Returns:
      The scalar loss and metrics: ``reconstruction_error``, the squared error a pixel at the
      posterior samples; ``mean_log_likelihoods``, shape (1,), in nats; ``posterior_energy`` and
      ``prior_energy``, means over samples.

    Raises:
      ValueError: if the shapes do not belong together.

    Source: Pang et al. 2020; thermodynamic-integration thesis, Eq. 7 and 8.
    """
    _check_latents(observations, posterior_latents[None], prior_latents)
    return _surrogate(
        params, model, observations, posterior_latents[None], prior_latents, jnp.ones(1)
    )


def tempered_loss(
    params: LatentParams,
    model: LatentModel,
    observations: jax.Array,
    power_latents: jax.Array,
    prior_latents: jax.Array,
    powers: jax.Array,
) -> tuple[jax.Array, Metrics]:
    r"""The thesis's training of the generator along the powers, with the prior's contrast kept.

    With trapezium weights w and power posteriors :math:`p_i` it estimates

    .. math::
        d_\beta = \textstyle\sum_i w_i\, E_{p_i} \nabla \log p_\beta(x | z), \qquad
        d_\alpha = E_{p(z|x)} \nabla f_\alpha - E_{p(z)} \nabla f_\alpha

    The prior's part is that of ``vanilla_loss``. The generator's is biased even for exact
    samples: it differentiates the thermodynamic integral with its power posteriors held fixed,
    and so lacks :math:`t\, Cov_t(\log p, \nabla \log p)` at every power. It is stable and cheap.

    Args:
      params: to differentiate with respect to.
      model: the latent EBM.
      observations: shape (batch, *event).
      power_latents: a draw for each power and observation, shape (num_powers, batch, d): the
        prior's at the first, the posterior's at the last.
      prior_latents: shape (num_prior, d).
      powers: increasing from 0 to 1, shape (num_powers,).

    Returns:
      The scalar loss and the metrics of ``vanilla_loss``, with ``mean_log_likelihoods``, the
      :math:`E_t` averaged over the batch, of shape (num_powers,).

    Raises:
      ValueError: if the shapes do not belong together or concrete ``powers`` are no whole ladder.

    Source: thermodynamic-integration thesis, Eq. 19 without its divergences; the prior's contrast
    is the one that its public code loses.
    """
    check_whole_ladder(powers)
    _check_latents(observations, power_latents, prior_latents, jnp.shape(powers)[0])
    weights = trapezium_weights(powers)
    return _surrogate(params, model, observations, power_latents, prior_latents, weights)


def telescoped_loss(
    params: LatentParams,
    model: LatentModel,
    observations: jax.Array,
    power_latents: jax.Array,
    prior_latents: jax.Array,
    powers: jax.Array,
) -> tuple[jax.Array, Metrics]:
    r"""The gradient of the exact thermodynamic identity, of which only the ends remain.

    Each interval contributes :math:`\nabla \log Z_i - \nabla \log Z_{i-1}`, where
    :math:`\nabla_\alpha \log Z_t = E_t \nabla f_\alpha` and :math:`\nabla_\beta \log Z_t = t\,
    E_t \nabla \log p_\beta(x | z)`. The sum telescopes to power 1 less power 0: what
    ``vanilla_loss`` estimates, whatever the powers between. They only help the chains arrive
    (``warm_start``) and fill the metrics. Unbiased for exact samples.

    Args, returns and errors are those of ``tempered_loss``.

    Source: Calderhead & Girolami 2009, differentiated.
    """
    check_whole_ladder(powers)
    _check_latents(observations, power_latents, prior_latents, jnp.shape(powers)[0])
    loss, metrics = vanilla_loss(params, model, observations, power_latents[-1], prior_latents)
    frozen = jax.lax.stop_gradient(params)
    errors = _squared_errors(frozen, model, observations, power_latents[:-1])
    between = _mean_log_likelihoods(model, observations, errors)
    along = jnp.concatenate([between, metrics["mean_log_likelihoods"]])
    return loss, {**metrics, "mean_log_likelihoods": along}


def _surrogate(
    params: LatentParams,
    model: LatentModel,
    observations: jax.Array,
    power_latents: jax.Array,
    prior_latents: jax.Array,
    generator_weights: jax.Array,
) -> tuple[jax.Array, Metrics]:
    posterior_energy = _mean_energy(params, model, power_latents[-1])
    prior_energy = _mean_energy(params, model, prior_latents)
    errors = _squared_errors(params, model, observations, power_latents)
    log_likelihoods = _mean_log_likelihoods(model, observations, errors)
    loss = posterior_energy - prior_energy - jnp.sum(generator_weights * log_likelihoods)
    return loss, {
        "reconstruction_error": jnp.mean(errors[-1]) / observations[0].size,
        "mean_log_likelihoods": log_likelihoods,
        "posterior_energy": posterior_energy,
        "prior_energy": prior_energy,
    }


def _mean_energy(params: LatentParams, model: LatentModel, latents: jax.Array) -> jax.Array:
    frozen = jax.lax.stop_gradient(latents)
    return jnp.mean(jax.vmap(lambda z: energy(model, params, z))(frozen))


def _squared_errors(
    params: LatentParams, model: LatentModel, observations: jax.Array, power_latents: jax.Array
) -> jax.Array:
    """Shape (num_powers, batch), summed over the event."""
    frozen = jax.lax.stop_gradient(power_latents)
    over_batch = jax.vmap(lambda z, x: squared_error(model, params, z, x))
    return jax.vmap(over_batch, in_axes=(0, None))(frozen, observations)


def _mean_log_likelihoods(
    model: LatentModel, observations: jax.Array, squared_errors: jax.Array
) -> jax.Array:
    size = observations[0].size
    return gaussian_log_density(jnp.mean(squared_errors, axis=1), size, model.likelihood_scale)


def _check_latents(
    observations: jax.Array,
    power_latents: jax.Array,
    prior_latents: jax.Array,
    num_powers: int = 1,
) -> None:
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
