"""Runs the chains of the learning gradients, at every power from prior to posterior."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ebmjax._checks import check_whole_ladder
from ebmjax.latent._model import LatentModel, LatentParams
from ebmjax.latent._sampling import SamplerFn, sample_power_posteriors, sample_prior
from ebmjax.samplers import FactorGaussian
from ebmjax.types import Key, Metrics


class LatentChains(NamedTuple):
    """Short chains of latents: one on the prior, and one on every power posterior.

    Attributes:
      latent_dim: d.
      prior_sampler: log density to sampler, such as ``functools.partial(sgld, step_size=0.16)``.
      prior_steps: steps of each prior chain, at power 0.
      posterior_sampler: log density to sampler, for the powers above 0.
      posterior_steps: steps of each chain at each power above 0.
      warm_start: whether the powers above 0 are annealed instead of started afresh.
      posterior_start: observations (batch, *event) to the latents (batch, d) where the chains above
        power 0 start, such as ``principal_latents``; None for draws of the base.
    """

    latent_dim: int
    prior_sampler: SamplerFn
    prior_steps: int
    posterior_sampler: SamplerFn
    posterior_steps: int
    warm_start: bool = False
    posterior_start: Callable[[jax.Array], jax.Array] | None = None


class LadderSamples(NamedTuple):
    """Samples of a whole ladder, in the order of the losses' arguments.

    Call a loss as ``loss_fn(params, model, observations, *samples, powers)``; ``vanilla_loss``
    takes ``power_latents[-1]`` instead of ``power_latents``.

    Attributes:
      power_latents: one latent for each power and observation, shape (num_powers, batch, d): the
        prior's chains at the first power, the posterior's at the last.
      prior_latents: the prior's chains again, shape (batch, d).
    """

    power_latents: jax.Array
    prior_latents: jax.Array


def sample_ladder(
    key: Key,
    params: LatentParams,
    model: LatentModel,
    observations: jax.Array,
    powers: jax.Array,
    chains: LatentChains,
    *,
    prior_start: jax.Array | None = None,
    posterior_start: jax.Array | None = None,
) -> tuple[LadderSamples, Metrics]:
    """Returns the end of one chain at every power for each observation, as the losses need them.

    It is differentiable in ``params``, as ``sample_prior`` is.

    Args:
      key: consumed.
      params, model: the latent EBM.
      observations: shape (batch, *event).
      powers: the whole ladder, increasing from 0 to 1, shape (num_powers,), as for losses and
        ``log_evidence``. Vanilla training uses ``[0, 1]``.
      chains: samplers and lengths (static).
      prior_start: where the prior's chains continue, shape (batch, d).
      posterior_start: where the other chains continue, shape (num_powers - 1, batch, d); None for
        the start that ``chains`` say.

    Returns:
      ``LadderSamples`` and, if the samplers report them, "prior_acceptance" (scalar) and
      "posterior_acceptance" (one for each power above 0).
    """
    check_whole_ladder(powers)
    prior_key, posterior_key = jax.random.split(key)
    if posterior_start is None and chains.posterior_start is not None:
        first = chains.posterior_start(observations)
        posterior_start = jnp.broadcast_to(first, (len(powers) - 1, *first.shape))
    prior_latents, prior_info = sample_prior(
        prior_key,
        params,
        model,
        observations.shape[0],
        chains.latent_dim,
        sampler=chains.prior_sampler,
        num_steps=chains.prior_steps,
        start=prior_start,
    )
    above, posterior_info = sample_power_posteriors(
        posterior_key,
        params,
        model,
        observations,
        powers[1:],
        chains.latent_dim,
        sampler=chains.posterior_sampler,
        num_steps=chains.posterior_steps,
        warm_start=chains.warm_start,
        start=posterior_start,
    )
    named = {"prior_acceptance": prior_info, "posterior_acceptance": posterior_info}
    acceptance = {
        name: info["acceptance_prob"] for name, info in named.items() if "acceptance_prob" in info
    }
    return LadderSamples(jnp.concatenate([prior_latents[None], above]), prior_latents), acceptance


def principal_latents(base: FactorGaussian, observations: jax.Array, latent_dim: int) -> jax.Array:
    """Returns the observations' principal components in units of their deviations, (batch, d).

    Over the observations that ``base`` was fitted to, they have mean 0 and about the variance 1 of
    a latent EBM's base. So chains that start there need few steps to the posterior. Coordinates
    beyond the directions of ``base`` are 0.

    Args:
      base: one Gaussian of ``samplers.fit_factor_gaussian``.
      observations: (batch, *event).
      latent_dim: d (static).
    """
    flat = (observations - base.mean[None]).reshape(len(observations), -1)
    directions, variances = base.directions[:, -latent_dim:], base.variances[-latent_dim:]
    components = flat @ (directions / jnp.sqrt(variances)[None])
    return jnp.pad(components, ((0, 0), (0, latent_dim - components.shape[1])))
