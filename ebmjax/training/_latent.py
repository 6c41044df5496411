"""The learning gradient of the latent EBM, chains included, for the training loop."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax.latent import (
    LatentModel,
    LatentParams,
    sample_power_posteriors,
    sample_prior,
    tempered_loss,
    vanilla_loss,
)
from ebmjax.training._step import GradientFn
from ebmjax.types import Key, LogDensityFn, Metrics, PyTree, Sampler

SamplerFn = Callable[[LogDensityFn], Sampler]


def make_latent_gradient_fn(
    model: LatentModel,
    *,
    latent_dim: int,
    observe: Callable[[PyTree], jax.Array],
    prior_sampler: SamplerFn,
    prior_steps: int,
    posterior_sampler: SamplerFn,
    posterior_steps: int,
    powers: jax.Array | None = None,
    loss_fn: Callable[..., tuple[jax.Array, Metrics]] = tempered_loss,
    warm_start: bool = False,
) -> GradientFn:
    """Draws prior and posterior latents by short chains and differentiates a surrogate loss.

    Without ``powers`` the gradient is the vanilla one (``ebmjax.latent.vanilla_loss``). With them
    it is that of ``loss_fn``, whose node at power 0 are the prior's own chains and whose other
    nodes are chains on the power posteriors.

    Args:
      model: the latent EBM.
      latent_dim: d.
      observe: a batch of the data, (examples, ...), to observations in the generator's range.
      prior_sampler: log density to sampler, such as ``functools.partial(sgld, step_size=0.16)``.
      prior_steps: of each prior chain.
      posterior_sampler: likewise.
      posterior_steps: of each posterior chain, at each power.
      powers: increasing from 0 to 1, shape (num_powers,); None for vanilla training.
      loss_fn: ``tempered_loss`` or ``telescoped_loss``; unused without ``powers``.
      warm_start: whether power posteriors are annealed instead of started afresh.

    Returns:
      A ``GradientFn`` without shard state. Its metrics are those of the loss, "loss", and, where
      the samplers report them, "prior_acceptance" and "posterior_acceptance" (one for each power
      above 0).
    """
    sampled_powers = jnp.ones(1) if powers is None else powers[1:]

    def gradient_fn(
        key: Key, params: LatentParams, shard: PyTree, batch: PyTree
    ) -> tuple[LatentParams, PyTree, Metrics]:
        prior_key, posterior_key = jax.random.split(key)
        observations = observe(batch)
        prior_latents, prior_info = sample_prior(
            prior_key,
            model,
            params,
            observations.shape[0],
            latent_dim,
            sampler=prior_sampler,
            num_steps=prior_steps,
        )
        latents, posterior_info = sample_power_posteriors(
            posterior_key,
            model,
            params,
            observations,
            sampled_powers,
            latent_dim,
            sampler=posterior_sampler,
            num_steps=posterior_steps,
            warm_start=warm_start,
        )

        def loss(params: LatentParams) -> tuple[jax.Array, Any]:
            if powers is None:
                return vanilla_loss(params, model, observations, latents[0], prior_latents)
            nodes = jnp.concatenate([prior_latents[None], latents])
            return loss_fn(params, model, observations, nodes, prior_latents, powers)

        (value, metrics), gradients = jax.value_and_grad(loss, has_aux=True)(params)
        metrics = {"loss": value, **metrics}
        if "acceptance_prob" in prior_info:
            metrics["prior_acceptance"] = prior_info["acceptance_prob"]
        if "acceptance_prob" in posterior_info:
            metrics["posterior_acceptance"] = posterior_info["acceptance_prob"]
        return gradients, shard, metrics

    return gradient_fn
