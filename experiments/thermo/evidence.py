"""The log evidence of test images by estimators that share no more than the model."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data, latent
from ebmjax.samplers import mala
from experiments import build as common
from experiments.config import Config

SMC_REPEATS = 8
"""Independent populations of tempered SMC: ``eval.evidence_chains`` are dealt out to them."""


def compare(
    keys: Sequence[jax.Array],
    model: latent.LatentModel,
    params: Sequence[latent.LatentParams],
    images: np.ndarray,
    config: Config,
) -> dict[str, Any]:
    """Each method of ``config.eval.evidence_methods`` on the first ``evidence_images`` images.

    All move by MALA with ``evidence_step_size`` on a ladder of its own, ``evidence_intervals`` at
    ``evidence_exponent`` whatever the run's schedule, with ``evidence_chains`` chains an image.
    "thermodynamic" and "stepping_stone" start from long chains on the prior and need no normalising
    constant; "ais" and "smc" start from exact draws of the base Gaussian and subtract the prior's
    log Z, which they estimate the same way.

    Args:
      keys: one for each repeat.
      model: the latent EBM.
      params: of each repeat.
      images: uint8, (N, H, W, C).
      config: sections model, loss and eval are read.

    Returns:
      Method to ``log_evidence`` and ``standard_error``, arrays over images, and their ``mean``, all
      in nats; with several repeats behind a leading axis of them.
    """
    observations = data.to_signed_unit(jnp.asarray(images[: config.eval.evidence_images]))
    report = {}
    for i, name in enumerate(config.eval.evidence_methods):
        method = partial(METHODS[name], model, config)
        run = jax.jit(method)
        estimates = [
            run(jax.random.fold_in(key, i), one, observations)
            for key, one in zip(keys, params, strict=True)
        ]
        estimate = common.stack_arrays(estimates)
        report[name] = {
            "log_evidence": estimate.value,
            "standard_error": estimate.standard_error,
            "mean": np.mean(estimate.value, axis=-1),
        }
    return report


def _sampler(config: Config) -> Callable[..., Any]:
    return partial(mala, step_size=config.eval.evidence_step_size)


def _powers(config: Config) -> jax.Array:
    return latent.power_schedule(config.eval.evidence_intervals, config.eval.evidence_exponent)


def _ladder(
    model: latent.LatentModel, config: Config, key: jax.Array, params: Any, observations: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Annealed chains, (powers, chains, images, d), and their log likelihoods without d."""
    powers, num_chains = _powers(config), config.eval.evidence_chains
    num_steps, latent_dim = config.eval.evidence_steps, config.model.latent_dim
    repeated = jnp.tile(observations, (num_chains,) + (1,) * (observations.ndim - 1))
    prior_key, power_key = jax.random.split(key)
    prior, _ = latent.sample_prior(
        prior_key,
        model,
        params,
        len(repeated),
        latent_dim,
        sampler=_sampler(config),
        num_steps=num_steps * config.eval.evidence_intervals,
    )
    above, _ = latent.sample_power_posteriors(
        power_key,
        model,
        params,
        repeated,
        powers[1:],
        latent_dim,
        sampler=_sampler(config),
        num_steps=num_steps,
        warm_start=True,
    )
    nodes = jnp.concatenate([prior[None], above])
    of_pair = partial(latent.log_likelihood, model, params)
    values = jax.vmap(jax.vmap(of_pair), (0, None))(nodes, repeated)
    shape = (len(powers), num_chains, len(observations))
    return nodes.reshape(*shape, latent_dim), values.reshape(shape)


def _thermodynamic(
    model: latent.LatentModel, config: Config, key: jax.Array, params: Any, observations: jax.Array
) -> latent.Estimate:
    nodes, log_likelihoods = _ladder(model, config, key, params, observations)
    forward, backward = latent.fitted_divergences(
        jnp.moveaxis(nodes, 1, 2), covariance=config.loss.kl_covariance
    )
    return latent.thermodynamic_log_evidence(
        log_likelihoods, _powers(config), kl_forward=forward, kl_backward=backward
    )


def _stepping_stone(
    model: latent.LatentModel, config: Config, key: jax.Array, params: Any, observations: jax.Array
) -> latent.Estimate:
    _, log_likelihoods = _ladder(model, config, key, params, observations)
    return latent.stepping_stone_log_evidence(log_likelihoods, _powers(config))


def _ais(
    model: latent.LatentModel, config: Config, key: jax.Array, params: Any, observations: jax.Array
) -> latent.Estimate:
    options: dict[str, Any] = {
        "num_chains": config.eval.evidence_chains,
        "sampler": _sampler(config),
        "num_steps": config.eval.evidence_steps,
    }
    powers, latent_dim = _powers(config), config.model.latent_dim
    normalizer_key, *keys = jax.random.split(key, 1 + len(observations))
    log_normalizer = latent.ais_log_normalizer(
        normalizer_key, model, params, powers, latent_dim, **options
    )
    return jax.vmap(
        lambda key, x: latent.ais_log_evidence(
            key, model, params, x, powers, latent_dim, log_normalizer=log_normalizer, **options
        )
    )(jnp.stack(keys), observations)


def _smc(
    model: latent.LatentModel, config: Config, key: jax.Array, params: Any, observations: jax.Array
) -> latent.Estimate:
    """The chains of the other methods in ``SMC_REPEATS`` independent populations."""
    size = config.eval.evidence_chains // SMC_REPEATS
    shape = (SMC_REPEATS, size, config.model.latent_dim)

    def log_normalizer(key: jax.Array, path: latent.AnnealingPath) -> latent.Estimate:
        start_key, run_key = jax.random.split(key)
        start = model.base_scale * jax.random.normal(start_key, shape)
        return latent.smc_log_normalizer(
            run_key,
            start,
            _powers(config),
            *path,
            sampler=_sampler(config),
            num_steps=config.eval.evidence_steps,
        )

    prior_key, *keys = jax.random.split(key, 1 + len(observations))
    prior = log_normalizer(prior_key, latent.path_to_prior(model, params))
    joint = jax.lax.map(
        lambda pair: log_normalizer(pair[0], latent.path_to_posterior(model, params, pair[1])),
        (jnp.stack(keys), observations),
    )
    return latent.estimate_difference(joint, prior)


METHODS = {
    "thermodynamic": _thermodynamic,
    "stepping_stone": _stepping_stone,
    "ais": _ais,
    "smc": _smc,
}
