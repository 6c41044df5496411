"""The latent EBM with thermodynamic integration, from its configuration."""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ebmjax import data, latent, metrics, networks
from ebmjax.training import init_state, make_latent_gradient_fn, make_train_step
from experiments import build as common
from experiments import thermo_plots
from experiments.config import Config
from experiments.errors import ConfigError
from experiments.thermo_evaluation import ThermoEvaluation
from experiments.validate import choose

ESTIMATORS = {
    "vanilla": None,
    "tempered": latent.tempered_loss,
    "telescoped": latent.telescoped_loss,
}
COVARIANCES = {name: name for name in ("full", "diagonal", "shrunk")}


def build(config: Config, workdir: Path) -> common.Experiment:
    """The experiment of ``config`` (see ``configs/thermo_digits.py`` for the fields)."""
    loss_fn = choose("loss.estimator", config.loss.estimator, ESTIMATORS)
    _check_gaussians(config)
    train, test = common.images(config)
    _check_test_images(config, len(test.images))
    plan = common.plan(config, len(train.images))
    params_key, _, eval_key = common.root_keys(config)
    model, params = _model(config, params_key, train.images.shape[1:])
    powers = latent.power_schedule(config.loss.num_intervals, config.loss.exponent)
    chains = {
        "latent_dim": config.model.latent_dim,
        "prior_sampler": common.sampler(config, "sampler.prior"),
        "prior_steps": config.sampler.prior.num_steps,
        "posterior_sampler": common.sampler(config, "sampler.posterior"),
        "posterior_steps": config.sampler.posterior.num_steps,
        "warm_start": config.sampler.warm_start,
    }
    gradient_fn = make_latent_gradient_fn(
        model,
        observe=lambda batch: data.to_signed_unit(batch.images),
        powers=None if loss_fn is None else powers,
        loss_fn=loss_fn or latent.tempered_loss,
        **chains,
    )
    optimizer = _optimizer(config, config.train.batch_size, len(train.images))
    train_step = make_train_step(
        gradient_fn,
        optimizer,
        gradient_metrics_fn=lambda gradients: {
            "coordinate_gradient_variance": metrics.coordinate_gradient_variance(gradients)
        },
    )
    evaluation = ThermoEvaluation(
        workdir=workdir,
        key=eval_key,
        model=model,
        chains=chains,
        powers=powers,
        gradient_fn=gradient_fn,
        train=train,
        test=test.images[: config.eval.num_test],
        config=config,
    )
    return common.Experiment(
        state=init_state(params, optimizer),
        train_step=train_step,
        data=train,
        plan=plan,
        evaluate=evaluation,
        draw=partial(thermo_plots.draw, workdir, np.asarray(powers)),
    )


def _check_gaussians(config: Config) -> None:
    """Refuses a Gaussian fit that an image's chains cannot carry, before anything is trained."""
    covariance = choose("loss.kl_covariance", config.loss.kl_covariance, COVARIANCES)
    num_chains, latent_dim = config.eval.evidence_chains, config.model.latent_dim
    if covariance == "full" and num_chains <= latent_dim:
        raise ConfigError(
            f"config.eval.evidence_chains={num_chains} cannot carry the full covariance of "
            f"config.model.latent_dim={latent_dim} dimensions. Take more than {latent_dim}, or "
            "--config.loss.kl_covariance=shrunk or =diagonal."
        )


def _check_test_images(config: Config, num_images: int) -> None:
    for name, available in (("num_test", num_images), ("evidence_images", config.eval.num_test)):
        if config.eval[name] > available:
            raise ConfigError(
                f"config.eval.{name} must be at most {available}, the number of "
                f"{'test' if name == 'num_test' else 'evaluated'} images; got {config.eval[name]}."
            )


def _model(
    config: Config, key: jax.Array, image_shape: tuple[int, ...]
) -> tuple[latent.LatentModel, latent.LatentParams]:
    """The model of ``config.model`` and its initial parameters."""
    energy = networks.LatentEnergy(hidden=config.model.prior_hidden)
    generator = networks.ConvGenerator(
        features=config.model.generator_features, channels=image_shape[-1]
    )
    z = jnp.zeros(config.model.latent_dim)
    produced = jax.eval_shape(lambda: generator.init_with_output(key, z)[0]).shape
    if produced != tuple(image_shape):
        raise ConfigError(
            f"config.model.generator_features={config.model.generator_features} makes images of "
            f"shape {produced}, but the data have {tuple(image_shape)}. Each entry doubles the "
            "side from 4 on; or set --config.data.image_size."
        )
    energy_key, generator_key = jax.random.split(key)
    model = latent.LatentModel(
        energy_fn=energy.apply,
        generator_fn=generator.apply,
        base_scale=config.model.base_scale,
        likelihood_scale=config.model.likelihood_scale,
    )
    params = latent.LatentParams(energy.init(energy_key, z), generator.init(generator_key, z))
    return model, params


def _optimizer(config: Config, batch_size: int, num_examples: int) -> optax.GradientTransformation:
    """One Adam for the prior, one for the generator."""
    steps_per_epoch = num_examples // batch_size
    return optax.multi_transform(
        {name: common.adam(config, name, steps_per_epoch) for name in latent.LatentParams._fields},
        latent.LatentParams(*latent.LatentParams._fields),
    )
