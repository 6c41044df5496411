"""The chains that every learning gradient needs: the prior's and those of the powers above 0."""

from typing import Any

import jax

from ebmjax.latent._model import LatentModel, LatentParams
from ebmjax.latent._sampling import SamplerFn, sample_power_posteriors, sample_prior
from ebmjax.types import Key, Metrics


def sample_ladder(
    key: Key,
    model: LatentModel,
    params: LatentParams,
    observations: jax.Array,
    powers: Any,
    latent_dim: int,
    *,
    prior_sampler: SamplerFn,
    prior_steps: int,
    posterior_sampler: SamplerFn,
    posterior_steps: int,
    warm_start: bool = False,
    prior_start: jax.Array | None = None,
    posterior_start: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array, Metrics]:
    """Ends of one chain on the prior and one at every power for each observation.

    Differentiable in ``params``, as ``sample_prior`` is.

    Args:
      key: consumed.
      model: the latent EBM.
      params: its parameters.
      observations: shape (batch, *event).
      powers: those above 0, as in ``sample_power_posteriors``; 1 alone for the posterior.
      latent_dim: d (static).
      prior_sampler: log density to sampler, such as ``functools.partial(sgld, step_size=0.16)``.
      prior_steps: of each chain of the prior (static).
      posterior_sampler: likewise for the powers.
      posterior_steps: of each chain at each power (static).
      warm_start: whether the powers are annealed instead of started afresh (static).
      prior_start: where the prior's chains go on from, shape (batch, d).
      posterior_start: where those of the powers do, shape (num_powers, batch, d).

    Returns:
      The prior's latents (batch, d), those of the powers (num_powers, batch, d) and, where the
      samplers report it, "prior_acceptance", a scalar, and "posterior_acceptance", (num_powers,).

    Raises:
      ValueError: as ``sample_prior`` and ``sample_power_posteriors`` do.
    """
    prior_key, posterior_key = jax.random.split(key)
    prior_latents, prior_info = sample_prior(
        prior_key,
        model,
        params,
        observations.shape[0],
        latent_dim,
        sampler=prior_sampler,
        num_steps=prior_steps,
        start=prior_start,
    )
    latents, posterior_info = sample_power_posteriors(
        posterior_key,
        model,
        params,
        observations,
        powers,
        latent_dim,
        sampler=posterior_sampler,
        num_steps=posterior_steps,
        warm_start=warm_start,
        start=posterior_start,
    )
    named = {"prior_acceptance": prior_info, "posterior_acceptance": posterior_info}
    acceptance = {
        name: info["acceptance_prob"] for name, info in named.items() if "acceptance_prob" in info
    }
    return prior_latents, latents, acceptance
