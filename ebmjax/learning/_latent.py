"""The learning gradient of the latent EBM, chains included, for the training loop."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._checks import check_at_least, check_fraction
from ebmjax._numbers import as_arguments
from ebmjax.latent import (
    LatentChains,
    LatentModel,
    LatentParams,
    sample_ladder,
    tempered_loss,
    through_chain_loss,
    vanilla_loss,
)
from ebmjax.learning._latent_carry import check_indices, check_latent_carry, put_chains, take_chains
from ebmjax.training import GradientFn, with_data_check
from ebmjax.types import Key, Metrics, PyTree


def make_latent_gradient_fn(
    model: LatentModel,
    chains: LatentChains,
    *,
    observe: Callable[[PyTree], jax.Array],
    powers: jax.Array | None = None,
    loss_fn: Callable[..., tuple[jax.Array, Metrics]] | None = None,
    num_chains: int = 1,
    identify: Callable[[PyTree], jax.Array] | None = None,
    reinit_prob: float = 0.0,
) -> GradientFn:
    """Draws prior and posterior latents by short chains and differentiates a surrogate loss.

    Without ``powers`` the gradient is the vanilla one. With them it is that of ``loss_fn``, whose
    node at power 0 are the prior's own chains and whose other nodes are chains on the power
    posteriors. Chains start afresh at every step where ``TrainState.carry`` is empty. Where it
    comes from ``init_latent_carry`` they persist: each goes on where it stood when its logical
    shard last saw its observation.

    Args:
      model: the latent EBM.
      chains: samplers and lengths.
      observe: a batch of the data, (examples, ...), to observations in the generator's range.
      powers: increasing from 0 to 1, shape (num_powers,); None for vanilla training.
      loss_fn: with powers any loss with the signature of ``tempered_loss`` (the default), without
        them any with that of ``vanilla_loss`` (the default). What it takes beyond that, such as
        ``energy_l2``, is bound by ``functools.partial``; ``covariance_loss`` is given
        ``num_chains`` that way.
      num_chains: chains for each observation and power, and as many prior chains.
      identify: a batch to the indices of its examples in the data, for persistent chains; ``fit``
        asks it about all data and refuses an index that the chains do not have.
      reinit_prob: of each persistent chain of the prior, to start anew from the base at a step. Its
        ends are then those of fresh chains of num_steps / reinit_prob steps in the mean.

    Returns:
      A ``GradientFn``. Its metrics are those of the loss, "loss", and, where the samplers report
      them, "prior_acceptance" and "posterior_acceptance" (one for each power above 0).
    """
    check_at_least("num_chains", num_chains, 1)
    check_fraction("reinit_prob", reinit_prob)
    loss_fn = loss_fn or (vanilla_loss if powers is None else tempered_loss)
    ladder = jnp.array([0.0, 1.0]) if powers is None else powers
    model_of = as_arguments(model)

    def gradient_fn(
        key: Key, params: LatentParams, carry: PyTree, batch: PyTree
    ) -> tuple[LatentParams, PyTree, Metrics]:
        model, observations = model_of(), jnp.repeat(observe(batch), num_chains, axis=0)
        indices = identify(batch) if identify else None
        expected = (len(observations), len(ladder) - 1, num_chains, chains.latent_dim)
        check_latent_carry(carry, indices, expected)
        start = take_chains(carry, indices)
        if reinit_prob and start.prior is not None:
            key, new_key = jax.random.split(key)
            start = start._replace(prior=_start_anew(new_key, start.prior, model, reinit_prob))
        samples, acceptance = sample_ladder(
            key,
            params,
            model,
            observations,
            ladder,
            chains,
            prior_start=start.prior,
            posterior_start=start.posterior,
        )

        def loss(params: LatentParams) -> tuple[jax.Array, Any]:
            if powers is None:
                posterior, prior = samples.power_latents[-1], samples.prior_latents
                return loss_fn(params, model, observations, posterior, prior)
            return loss_fn(params, model, observations, *samples, powers)

        (value, metrics), gradients = jax.value_and_grad(loss, has_aux=True)(params)
        carry = put_chains(carry, indices, samples.prior_latents, samples.power_latents[1:])
        return gradients, carry, {"loss": value, **metrics, **acceptance}

    def check_data(params: LatentParams, carry: PyTree, data: PyTree) -> None:
        del params
        if identify is not None:
            check_indices(carry, identify(data))

    return with_data_check(gradient_fn, check_data)


def _start_anew(key: Key, chains: jax.Array, model: LatentModel, prob: float) -> jax.Array:
    """Returns (chains, d) positions, of which each is a new draw of the base by chance."""
    choice_key, draw_key = jax.random.split(key)
    is_new = jax.random.bernoulli(choice_key, prob, (len(chains), 1))
    return jnp.where(is_new, model.base_scale * jax.random.normal(draw_key, chains.shape), chains)


def make_through_chain_gradient_fn(
    model: LatentModel,
    powers: jax.Array,
    chains: LatentChains,
    *,
    observe: Callable[[PyTree], jax.Array],
    **options: Any,
) -> GradientFn:
    """Differentiates ``ebmjax.latent.through_chain_loss``, which draws its own chains.

    Args:
      model: the latent EBM.
      powers: increasing from 0 to 1, shape (num_powers,).
      chains: samplers and lengths.
      observe: a batch of the data, (examples, ...), to observations in the generator's range.
      **options: ``num_chains`` and the weights of ``through_chain_loss``.

    Returns:
      A ``GradientFn`` without a carry, with the metrics of ``make_latent_gradient_fn``.
    """

    static = {name: options.pop(name) for name in ("kl_weight",) if name in options}
    numbers = as_arguments({"model": model, **options})

    def gradient_fn(
        key: Key, params: LatentParams, carry: PyTree, batch: PyTree
    ) -> tuple[LatentParams, PyTree, Metrics]:
        observations = observe(batch)

        def loss(params: LatentParams) -> tuple[jax.Array, Metrics]:
            return through_chain_loss(
                key,
                params,
                observations=observations,
                powers=powers,
                chains=chains,
                **static,
                **numbers(),
            )

        (value, metrics), gradients = jax.value_and_grad(loss, has_aux=True)(params)
        return gradients, carry, {"loss": value, **metrics}

    return gradient_fn
