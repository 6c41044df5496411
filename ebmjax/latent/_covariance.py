"""The derivative of the thermodynamic integral, by covariances under each power posterior."""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._checks import check_at_least
from ebmjax.evidence import trapezium_weights
from ebmjax.latent._losses import (
    check_latents,
    energies,
    energy_penalty,
    log_likelihoods,
    sample_metrics,
    squared_errors,
)
from ebmjax.latent._model import LatentModel, LatentParams
from ebmjax.types import Metrics


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
    sum, which tends to the gradient of the log evidence as the intervals narrow. Covariances (over
    n - 1) belong to one observation, so each observation needs several chains. The prior does not
    depend on the observation: at power 0 every chain serves all observations, through their mean
    log likelihood. That keeps the expectation and lowers the variance. The variance is that of
    :math:`\ell`, hundreds of nats for images under short chains. Expect instability there.

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
    values, errors = _log_likelihoods(params, model, observations, latents)
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


def _covariances(values: jax.Array, log_law: jax.Array, group: int) -> jax.Array:
    """Returns covariances of log likelihoods with the log law, averaged over groups, (num_powers,).

    Both arguments have shape (num_powers, groups * group). A group's chains share their law. Only
    the law is differentiated, not ``values``.
    """
    values, log_law = (array.reshape(len(array), -1, group) for array in (values, log_law))
    # Centring one factor suffices; dividing by group - 1 corrects for the estimated mean.
    centred = jax.lax.stop_gradient(values - jnp.mean(values, axis=2, keepdims=True))
    return jnp.mean(jnp.sum(centred * log_law, axis=2), axis=1) / (group - 1)


def _log_likelihoods(
    params: LatentParams, model: LatentModel, observations: jax.Array, latents: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Returns log likelihoods, (num_powers, chains), and squared errors of the powers above 0.

    At power 0 they are means over all observations.
    """
    errors = squared_errors(params, model, observations, latents[1:])
    # The mean is the error to the mean observation plus the spread around it: no pair is formed.
    centre = jnp.broadcast_to(jnp.mean(observations, axis=0), observations.shape)
    to_centre = squared_errors(params, model, centre, latents[:1])
    at_prior = to_centre + jnp.sum(jnp.var(observations, axis=0))
    return log_likelihoods(model, observations, jnp.concatenate([at_prior, errors])), errors
