"""The latent EBM's normalising constants by annealed importance sampling."""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._checks import check_at_least
from ebmjax.evidence import (
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

Path = tuple[LogDensityFn, LogDensityFn]


def path_to_prior(params: LatentParams, model: LatentModel) -> Path:
    """Returns ``(log_base_fn, log_tilt_fn)`` from the base to the prior; the ratio is its Z."""
    return _log_base_fn(model), lambda z: -energy(params, model, z)


def path_to_posterior(params: LatentParams, model: LatentModel, observation: jax.Array) -> Path:
    """Returns ``(log_base_fn, log_tilt_fn)`` from the base to a posterior; the ratio is Z p(x)."""
    return _log_base_fn(
        model
    ), lambda z: log_likelihood(params, model, z, observation) - energy(params, model, z)


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
    """
    options = {"num_chains": num_chains, "sampler": sampler, "num_steps": num_steps}
    return _anneal(key, model, path_to_prior(params, model), powers, latent_dim, **options)


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

    The chains estimate ``log Z + log p(x)``; the prior's ``log Z``, the same for all observations,
    is subtracted. For a batch, ``jax.vmap`` over keys and observations.

    Args:
      key, params, model, powers, latent_dim, num_chains, sampler, num_steps: as in
        ``ais_log_normalizer``.
      observation: one x, in the generator's event shape.
      log_normalizer: from ``ais_log_normalizer`` with a separate key, or any other estimate.

    Source: Neal 2001.
    """
    path = path_to_posterior(params, model, observation)
    options = {"num_chains": num_chains, "sampler": sampler, "num_steps": num_steps}
    total = _anneal(key, model, path, powers, latent_dim, **options)
    return estimate_difference(total, log_normalizer)


def _anneal(
    key: Key,
    model: LatentModel,
    path: Path,
    powers: jax.Array,
    latent_dim: int,
    *,
    num_chains: int,
    **options: Any,
) -> Estimate:
    check_at_least("num_chains", num_chains, 2)
    check_at_least("latent_dim", latent_dim, 1)
    start_key, chain_key = jax.random.split(key)
    start = model.base_scale * jax.random.normal(start_key, (num_chains, latent_dim))
    # The same value; within shard_map it now varies over the mesh as the observation does.
    start = jnp.where(jnp.isfinite(path[1](start[0])), start, start)
    samples = annealed_importance_sampling(chain_key, start, powers, *path, **options)
    return log_mean_exp(samples.log_weights)


def _log_base_fn(model: LatentModel) -> LogDensityFn:
    return lambda z: gaussian_log_density(jnp.sum(jnp.square(z)), z.size, model.base_scale)
