"""Differentiates the log evidence's estimate through its chains."""

from typing import Annotated, Any

import jax
import jax.numpy as jnp

from ebmjax._checks import check_at_least, check_not_negative, check_powers
from ebmjax._precision import energy_penalty
from ebmjax._ranges import NOT_NEGATIVE, one_of
from ebmjax.evidence import log_evidence
from ebmjax.latent._chains import LatentChains, sample_ladder
from ebmjax.latent._divergences import fitted_divergences
from ebmjax.latent._losses import (
    energies,
    log_likelihoods,
    sample_metrics,
    squared_errors,
)
from ebmjax.latent._model import LatentModel, LatentParams
from ebmjax.types import Key, Metrics


def through_chain_loss(
    key: Key,
    params: LatentParams,
    model: LatentModel,
    observations: jax.Array,
    powers: jax.Array,
    chains: LatentChains,
    *,
    num_chains: int = 1,
    kl_weight: Annotated[float, NOT_NEGATIVE] = 0.0,
    kl_covariance: Annotated[str, one_of("full", "diagonal")] = "diagonal",
    energy_l2: Any = 0.0,
) -> tuple[jax.Array, Metrics]:
    r"""Returns minus the log evidence's estimate from short chains, which are part of the graph.

    .. math::
        L = -\overline{\textstyle\sum_i \left\{ w_i\, \hat E_i + \tfrac{\eta}{2} \left[
            \widehat{KL}(p_{i-1} \| p_i) - \widehat{KL}(p_i \| p_{i-1}) \right] \right\}}

    where the bar is the mean over observations. This is the training that the thesis describes: a
    pathwise derivative of every step of every chain, with the noise held fixed. For a sampler that
    never rejects (ULA), it is unbiased for the loss's expectation under the short chains' law. A
    sampler that rejects jumps as the parameters change, which no derivative sees.

    The backward pass keeps the states of the chains, about 2 * num_steps * num_powers * batch *
    num_chains * d numbers, and computes each step again.

    Args:
      key: consumed.
      params: to differentiate with respect to.
      model: the latent EBM.
      observations: each once, shape (batch, *event).
      powers: increasing from 0 to 1, shape (num_powers,).
      chains: samplers and lengths (static).
      num_chains: independent chains of each observation at every power (static).
      kl_weight: :math:`\eta`, weight of the divergences; 0 for the trapezium sum alone (static).
        Above 0, Gaussians are fitted to the chains of each observation at each power.
      kl_covariance: covariances of these Gaussians, as in ``fitted_divergences``
      energy_l2: as in ``vanilla_loss``; the penalty does not differentiate its samples.

    Returns:
      The scalar loss in nats and the metrics of ``tempered_loss``; if the samplers report them,
      also ``prior_acceptance`` (scalar) and ``posterior_acceptance`` (one for each power above 0).

    Source: thermodynamic-integration thesis, Eq. 22, with the sign of Calderhead & Girolami 2009.
    """
    check_powers(powers, is_whole=True)
    check_not_negative("kl_weight", kl_weight)
    check_at_least("num_chains", num_chains, 2 if kl_weight > 0 else 1)
    if chains.exchange_every:
        raise ValueError(
            "through_chain_loss needs chains.exchange_every=0, since no derivative sees a swap."
        )
    observations = jnp.repeat(observations, num_chains, axis=0)
    latents, acceptance = sample_ladder(key, params, model, observations, powers, chains)
    errors = squared_errors(params, model, observations, latents)
    log_likelihood = log_likelihoods(model, observations, errors)
    own = latents.reshape(len(latents), -1, num_chains, latents.shape[-1])
    means = jnp.mean(log_likelihood.reshape(own.shape[:3]), axis=2)
    if kl_weight == 0:
        evidence = log_evidence(means, powers)
    else:
        forward, backward = fitted_divergences(own, covariance=kl_covariance)
        evidence = log_evidence(
            means, powers, kl_forward=forward, kl_backward=backward, kl_weight=kl_weight
        )
    fixed = jax.lax.stop_gradient(latents)
    ends = energies(params, model, fixed[-1]), energies(params, model, fixed[0])
    loss = energy_penalty(energy_l2, *ends) - jnp.mean(evidence)
    along = jnp.mean(log_likelihood, axis=1)
    return loss, {**sample_metrics(observations, *ends, errors, along), **acceptance}
