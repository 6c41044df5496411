"""Builds a latent EBM run from its configuration."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data, latent
from ebmjax.learning import init_latent_carry, numbers_of
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.config.families import warn_of_features
from ebmjax.recipes.evaluators.evaluations import make_distances
from ebmjax.recipes.evaluators.gradient_variance import over_coordinates
from ebmjax.recipes.models import build as common
from ebmjax.recipes.models.latent import checks, parts, plots, schedule
from ebmjax.recipes.models.latent.model import LatentEBM
from ebmjax.recipes.parts import image_data
from ebmjax.recipes.parts.start_distributions import rescale_images
from ebmjax.training import from_first


def build(config: Config, workdir: Path) -> common.Experiment:
    """The experiment of ``config`` (see ``latent/fields.py`` for the fields)."""
    as_given = config
    images, config = image_data.load(config)
    checks.check(config)
    images = images._replace(about=(*images.about, *warn_of_features(config)))
    train, tests = images.train, (images.monitored, images.evaluated)
    checks.check_test_images(config, min(len(test.images) for test in tests))
    plan = common.plan(config, len(train.images))
    networks, init = parts.model_of(config, train.images.shape[1:])
    chains = parts.chains(config, train)
    optimizer = partial(parts.optimizer, config, len(train.images) // config.train.batch_size)
    rates = {name: dict(config.optimizer[name]) for name in parts.PARTS}
    examples = parts.Examples(train, jnp.arange(len(train.images)))

    def pilot(powers: jax.Array) -> schedule.Pilot:
        params = init(common.root_keys(config.seed)[0])
        return schedule.run_pilot(
            config, networks, params, optimizer(rates), chains, examples, powers
        )

    placed = from_first(lambda: schedule.schedule(as_given, workdir, pilot))
    gradient_fn = parts.gradient_fn(config, networks, chains, placed.powers)
    numbers = numbers_of({"model": networks, "chains": chains})
    numbers |= {"loss_fn": {"energy_l2": config.loss.energy_l2}, "optimizer": rates}
    if config.loss.name != "vanilla":
        numbers["powers"] = placed.powers

    params_key, _, eval_key = common.root_keys(config.seed)
    model = LatentEBM(
        train=train,
        distances=make_distances(config, train, images.monitored),
        config=config,
        networks=networks,
        chains=chains,
        powers=placed.powers,
        gradient_fn=gradient_fn,
        examples=examples,
        pilot=placed.pilot,
    )
    return common.assemble(
        config,
        workdir,
        images,
        plan=plan,
        data=examples,
        params=init(params_key),
        carry=_carry(config, params_key, train, chains),
        optimizer=optimizer,
        numbers=numbers,
        gradient_fn=gradient_fn,
        models=(model, replace(model, is_finished=True)),
        key=eval_key,
        draw=partial(plots.draw, workdir, config, np.asarray(placed.powers)),
        kept=("prior", "posterior") if config.sampler.persistent else (),
        pilot=placed.pilot,
        gradient_metrics_fn=over_coordinates,
    )


def _carry(
    config: Config, key: jax.Array, train: data.ImageData, chains: latent.LatentChains
) -> Any:
    """Returns chains for every example and power, if they persist."""
    if not config.sampler.persistent:
        return ()
    start, num_examples = None, len(train.labels)
    if chains.posterior_start is not None:
        images = rescale_images(train)
        blocks = np.array_split(np.arange(num_examples), -(-num_examples // 1000))
        start = jnp.concatenate([chains.posterior_start(images[rows]) for rows in blocks])
    is_vanilla = config.loss.name == "vanilla"
    return init_latent_carry(
        jax.random.fold_in(key, 2),  # the networks' keys use 0 and 1
        num_shards=config.mesh.num_shards,
        batch_size=config.train.batch_size,
        num_examples=num_examples,
        num_powers=2 if is_vanilla else config.loss.num_intervals + 1,
        latent_dim=config.model.latent_dim,
        num_chains=config.loss.chains_per_observation,
        posterior_start=start,
    )
