"""The latent EBM's normalising constants by annealed importance sampling."""

import jax
import jax.numpy as jnp

from ebmjax._checks import check_at_least
from ebmjax.evidence import (
    AnnealingPath,
    Estimate,
    annealed_importance_sampling,
    estimate_difference,
    log_mean_exp,
)
from ebmjax.latent._model import (
    LatentModel,
    LatentParams,
    energy,
    gaussian_log_density,
    log_likelihood,
)
from ebmjax.types import Key, LogDensityFn, SamplerFn


def path_to_prior(params: LatentParams, model: LatentModel) -> AnnealingPath:
    """Returns the path from the normalised base to the prior; the ratio is the prior's Z."""
    return AnnealingPath(_log_base_fn(model), lambda z: -energy(params, model, z))


def path_to_posterior(
    params: LatentParams, model: LatentModel, observation: jax.Array
) -> AnnealingPath:
    """Returns the path from the normalised base to a posterior; the ratio is Z p(x)."""
    return AnnealingPath(
        _log_base_fn(model),
        lambda z: log_likelihood(params, model, z, observation) - energy(params, model, z),
    )


def ais_log_normalizer(
    key: Key,
    params: LatentParams,
    model: LatentModel,
    powers: jax.Array,
    latent_dim: int,
    *,
    num_chains: int,
    sampler: SamplerFn,
    num_steps: int,
) -> Estimate:
    """Returns ``log Z`` of the prior's tilt, by annealing exact draws of the base to the prior.

    Args:
      key: consumed.
      params, model: the latent EBM, whose generator is not used.
      powers: shape (num_powers,), increasing from 0 to 1.
      latent_dim: d (static).
      num_chains: at least 2 (static).
      sampler, num_steps: as in ``annealed_importance_sampling``.

    Returns:
      Scalars, in nats.
    """
    path = path_to_prior(params, model)
    return _anneal_from_base(
        key, model, path, powers, (num_chains, latent_dim), sampler=sampler, num_steps=num_steps
    )


def ais_log_evidence(
    key: Key,
    params: LatentParams,
    model: LatentModel,
    observation: jax.Array,
    powers: jax.Array,
    latent_dim: int,
    *,
    log_normalizer: Estimate,
    num_chains: int,
    sampler: SamplerFn,
    num_steps: int,
) -> Estimate:
    """Returns ``log p(x)`` of one x, by annealing exact draws of the base to the posterior.

    The chains estimate ``log Z + log p(x)``. The prior's ``log Z``, the same for all observations,
    is passed as ``log_normalizer`` and subtracted. For a batch, ``jax.vmap`` over keys and
    observations: the estimates then share the error of ``log_normalizer``.

    Args:
      key: consumed.
      params, model: the latent EBM.
      observation: one x, in the generator's event shape.
      powers: shape (num_powers,), increasing from 0 to 1.
      latent_dim: d (static).
      log_normalizer: from ``ais_log_normalizer`` with a separate key, or any other estimate.
      num_chains: at least 2 (static).
      sampler, num_steps: as in ``annealed_importance_sampling``.

    Returns:
      Scalars, in nats; the two standard errors are combined.

    Source: Neal 2001.
    """
    path = path_to_posterior(params, model, observation)
    total = _anneal_from_base(
        key, model, path, powers, (num_chains, latent_dim), sampler=sampler, num_steps=num_steps
    )
    return estimate_difference(total, log_normalizer)


def _anneal_from_base(
    key: Key,
    model: LatentModel,
    path: AnnealingPath,
    powers: jax.Array,
    shape: tuple[int, int],
    *,
    sampler: SamplerFn,
    num_steps: int,
) -> Estimate:
    check_at_least("num_chains", shape[0], 2)
    check_at_least("latent_dim", shape[1], 1)
    start_key, chain_key = jax.random.split(key)
    start = model.base_scale * jax.random.normal(start_key, shape)
    # The same value; within shard_map it now varies over the mesh as the observation does.
    start = jnp.where(jnp.isfinite(path.log_tilt_fn(start[0])), start, start)
    samples = annealed_importance_sampling(
        chain_key, start, powers, *path, sampler=sampler, num_steps=num_steps
    )
    return log_mean_exp(samples.log_weights)


def _log_base_fn(model: LatentModel) -> LogDensityFn:
    return lambda z: gaussian_log_density(jnp.sum(jnp.square(z)), z.size, model.base_scale)
