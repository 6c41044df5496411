"""Log evidence of test images by independent estimators."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data, latent
from ebmjax.recipes.core import build as common
from ebmjax.recipes.core.fields import Config
from ebmjax.recipes.latent.checks import EVIDENCE_EXPONENT, JACKKNIFE_GROUPS, SMC_REPEATS
from ebmjax.samplers import mala


def compare(
    keys: Sequence[jax.Array],
    params: Sequence[latent.LatentParams],
    model: latent.LatentModel,
    images: np.ndarray,
    config: Config,
) -> dict[str, Any]:
    """Applies ``config.eval.evidence_methods`` to the first ``evidence_images`` images.

    All move by MALA with ``evidence_step_size``, ``evidence_chains`` chains an image, one image
    after the other. Their ladder has ``evidence_intervals`` at ``evidence_exponent``, whatever the
    run's schedule. "thermodynamic" and "stepping_stone" start from long chains on the prior and
    need no normalising constant. "ais" and "smc" start from exact draws of the base Gaussian and
    subtract the prior's log Z, estimated in the same way.

    Args:
      keys: one for each repeat.
      params: parameters of each repeat.
      model: the latent EBM.
      images: uint8, (N, H, W, C).
      config: sections model and eval are read.

    Returns:
      Method to ``log_evidence`` and ``standard_error``, arrays over images, and their ``mean``, all
      in nats; several repeats are a leading axis. Without ``evidence_divergences``, "thermodynamic"
      is called "trapezium".
    """
    observations = data.to_signed_unit(jnp.asarray(images[: config.eval.evidence_images]))
    report = {}
    for i, name in enumerate(config.eval.evidence_methods):
        run = jax.jit(partial(METHODS[name], model=model, config=config))
        estimates = [
            run(jax.random.fold_in(key, i), one, observations=observations)
            for key, one in zip(keys, params, strict=True)
        ]
        estimate = common.stack_arrays(estimates)
        report[_reported_name(name, config)] = {
            "log_evidence": estimate.value,
            "standard_error": estimate.standard_error,
            "mean": np.mean(estimate.value, axis=-1),
        }
    return report


def _reported_name(method: str, config: Config) -> str:
    is_trapezium = method == "thermodynamic" and not config.eval.evidence_divergences
    return "trapezium" if is_trapezium else method


def _sampler(config: Config) -> Callable[..., Any]:
    return partial(mala, step_size=config.eval.evidence_step_size)


def _powers(config: Config) -> jax.Array:
    return latent.power_schedule(config.eval.evidence_intervals, EVIDENCE_EXPONENT)


def _image_by_image(
    one: Callable[[jax.Array, jax.Array], latent.Estimate], keys: jax.Array, observations: jax.Array
) -> latent.Estimate:
    """Calls ``one(key, observation)`` in turn, so that only one image's chains are in memory."""
    return jax.lax.map(lambda pair: one(*pair), (keys, observations))


def _ladder(
    key: jax.Array,
    params: latent.LatentParams,
    model: latent.LatentModel,
    observation: jax.Array,
    powers: jax.Array,
    config: Config,
) -> tuple[jax.Array, jax.Array]:
    """Returns annealed chains of one image, (powers, chains, d), and their log likelihoods."""
    num_steps, latent_dim = config.eval.evidence_steps, config.model.latent_dim
    repeated = jnp.repeat(observation[None], config.eval.evidence_chains, axis=0)
    samples, _ = latent.sample_ladder(
        key,
        params,
        model,
        repeated,
        powers,
        latent_dim,
        prior_sampler=_sampler(config),
        prior_steps=num_steps * config.eval.evidence_intervals,
        posterior_sampler=_sampler(config),
        posterior_steps=num_steps,
        warm_start=True,
    )
    of_pair = partial(latent.log_likelihood, params, model)
    values = jax.lax.map(lambda z: jax.vmap(of_pair)(z, repeated), samples.power_latents)
    return samples.power_latents, values


def _thermodynamic(
    key: jax.Array,
    params: latent.LatentParams,
    model: latent.LatentModel,
    observations: jax.Array,
    config: Config,
) -> latent.Estimate:
    """Returns the sum with full covariances (``checks`` ensures enough chains), or without."""
    powers = _powers(config)

    def one(key: jax.Array, x: jax.Array) -> latent.Estimate:
        nodes, values = _ladder(key, params, model, x, powers, config)
        if not config.eval.evidence_divergences:
            return latent.thermodynamic_log_evidence(values, powers)
        return with_divergences(nodes, values, powers)

    return _image_by_image(one, jax.random.split(key, len(observations)), observations)


def with_divergences(
    nodes: jax.Array, log_likelihoods: jax.Array, powers: jax.Array
) -> latent.Estimate:
    """Returns one image's thermodynamic sum with fitted divergences, and its whole error.

    The error is the jackknife's over ``JACKKNIFE_GROUPS`` groups of chains. It includes the
    divergences, which ``thermodynamic_log_evidence`` leaves out, and chains that remember the power
    below. It is too large: by 30 to 60 % with three to four exact draws for each of 16 or 80
    dimensions, by less with more.

    Args:
      nodes: (powers, chains, d), a chain at the same place at every power.
      log_likelihoods: (powers, chains).
      powers: (powers,), from 0 to 1.
    """
    num_chains = nodes.shape[1]
    size = num_chains // JACKKNIFE_GROUPS

    def value(nodes: jax.Array, log_likelihoods: jax.Array) -> jax.Array:
        forward, backward = latent.fitted_divergences(nodes)
        means = log_likelihoods.mean(axis=1)
        return latent.log_evidence(means, powers, kl_forward=forward, kl_backward=backward)

    def without(group: jax.Array) -> jax.Array:
        kept = (jnp.arange(num_chains - size) + (group + 1) * size) % num_chains
        return value(nodes[:, kept], log_likelihoods[:, kept])

    parts = jax.lax.map(without, jnp.arange(JACKKNIFE_GROUPS))
    error = jnp.sqrt(JACKKNIFE_GROUPS - 1) * jnp.std(parts)
    return latent.Estimate(value(nodes, log_likelihoods), error)


def _stepping_stone(
    key: jax.Array,
    params: latent.LatentParams,
    model: latent.LatentModel,
    observations: jax.Array,
    config: Config,
) -> latent.Estimate:
    powers = _powers(config)

    def one(key: jax.Array, x: jax.Array) -> latent.Estimate:
        _, values = _ladder(key, params, model, x, powers, config)
        return latent.stepping_stone_log_evidence(values, powers)

    return _image_by_image(one, jax.random.split(key, len(observations)), observations)


def _ais(
    key: jax.Array,
    params: latent.LatentParams,
    model: latent.LatentModel,
    observations: jax.Array,
    config: Config,
) -> latent.Estimate:
    options: dict[str, Any] = {
        "num_chains": config.eval.evidence_chains,
        "sampler": _sampler(config),
        "num_steps": config.eval.evidence_steps,
    }
    powers, latent_dim = _powers(config), config.model.latent_dim
    prior_key, *keys = jax.random.split(key, 1 + len(observations))
    prior = latent.ais_log_normalizer(prior_key, params, model, powers, latent_dim, **options)

    def one(key: jax.Array, x: jax.Array) -> latent.Estimate:
        return latent.ais_log_evidence(
            key, params, model, x, powers, latent_dim, log_normalizer=prior, **options
        )

    return _image_by_image(one, jnp.stack(keys), observations)


def _smc(
    key: jax.Array,
    params: latent.LatentParams,
    model: latent.LatentModel,
    observations: jax.Array,
    config: Config,
) -> latent.Estimate:
    """Splits the chains of the other methods into ``SMC_REPEATS`` independent populations."""
    size = config.eval.evidence_chains // SMC_REPEATS
    shape = (SMC_REPEATS, size, config.model.latent_dim)
    powers = _powers(config)

    def log_normalizer(key: jax.Array, path: latent.AnnealingPath) -> latent.Estimate:
        start_key, run_key = jax.random.split(key)
        start = model.base_scale * jax.random.normal(start_key, shape)
        return latent.smc_log_normalizer(
            run_key,
            start,
            powers,
            *path,
            sampler=_sampler(config),
            num_steps=config.eval.evidence_steps,
        )

    prior_key, *keys = jax.random.split(key, 1 + len(observations))
    prior = log_normalizer(prior_key, latent.path_to_prior(params, model))

    def one(key: jax.Array, x: jax.Array) -> latent.Estimate:
        joint = log_normalizer(key, latent.path_to_posterior(params, model, x))
        return latent.estimate_difference(joint, prior)

    return _image_by_image(one, jnp.stack(keys), observations)


METHODS = {
    "thermodynamic": _thermodynamic,
    "stepping_stone": _stepping_stone,
    "ais": _ais,
    "smc": _smc,
}
