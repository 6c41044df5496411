"""Builds a latent EBM run from its configuration."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax.learning import init_latent_carry
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.evaluators.distances import RunDistances, check_weights
from ebmjax.recipes.evaluators.evaluations import with_users
from ebmjax.recipes.models import build as common
from ebmjax.recipes.models.latent import checks, gradient_variance, memory, parts, plots
from ebmjax.recipes.models.latent import pilot as latent_pilot
from ebmjax.recipes.models.latent import schedule as latent_schedule
from ebmjax.recipes.models.latent.evaluate import LatentEvaluation
from ebmjax.recipes.models.latent.monitor import LatentMonitor
from ebmjax.recipes.parts import image_data
from ebmjax.training import (
    TrainState,
    from_first,
    init_state,
    make_train_step,
    stack_states,
    warm_start,
)


def build(config: Config, workdir: Path) -> common.Experiment:
    """The experiment of ``config`` (see ``latent/fields.py`` for the fields)."""
    as_given = config
    images, config = image_data.load(config)
    checks.check(config)
    train, test = images.train, images.monitored
    checks.check_test_images(config, min(len(test.images), len(images.evaluated.images)))
    plan = common.plan(config, len(train.images))
    model, init = parts.model_of(config, train.images.shape[1:])
    shapes = jax.eval_shape(init, jax.random.key(0))
    memory.check_memory(config, model.generator_fn, shapes.generator)
    optimizer = parts.optimizer(config, len(train.images) // config.train.batch_size)
    examples = parts.Examples(train, jnp.arange(len(train.images)))

    def pilot(powers: jax.Array) -> latent_pilot.Pilot:
        params = init(common.root_keys(config)[0])
        return latent_pilot.run(config, model, params, optimizer, examples, powers)

    schedule = from_first(lambda: latent_schedule.schedule(as_given, workdir, pilot))
    gradient_fn = parts.gradient_fn(config, model, schedule.powers)

    def initial_state(repeat: int) -> TrainState:
        params_key, _, _ = common.root_keys(config, repeat)
        shards = _shards(config, params_key, len(train.images)) if config.sampler.persistent else ()
        return init_state(init(params_key), optimizer, shards)

    monitor = LatentMonitor(
        workdir=workdir,
        model=model,
        chains=parts.chains(config),
        powers=schedule.powers,
        gradient_fn=gradient_fn,
        train=examples,
        test=test.images[: config.eval.num_test],
        distances=RunDistances(train, test, config),
        interval=plan.monitor_every,
        config=config,
    )
    later = monitor
    if images.evaluated is not test:
        later = replace(monitor, test=images.evaluated.images[: config.eval.num_test])
    state = common.over_repeats(config, initial_state, stack_states)
    chains = ("prior", "posterior") if config.sampler.persistent else ()
    evaluation = LatentEvaluation(
        monitor=later, test=images.evaluated, config=config, pilot=schedule.pilot
    )
    monitored, evaluated = with_users(
        config,
        common.root_keys(config)[2],
        evaluation.use,
        (images.monitored, images.evaluated),
        monitor,
        evaluation,
    )
    return common.Experiment(
        state=state,
        train_step=make_train_step(
            gradient_fn,
            optimizer,
            gradient_metrics_fn=gradient_variance.over_coordinates,
            max_abs_loss=config.train.max_abs_loss,
        ),
        data=examples,
        plan=plan,
        monitor=monitored,
        draw=partial(plots.draw, workdir, config, np.asarray(schedule.powers)),
        evaluate=evaluated,
        use=evaluation.use,
        check_evaluate=partial(check_weights, config),
        warm_start=lambda folder: warm_start(state, optimizer, folder, chains),
        pilot=schedule.pilot,
        about_data=images.about,
        config=config,
    )


def _shards(config: Config, key: jax.Array, num_examples: int) -> Any:
    """Persistent chains for every example and power."""
    is_vanilla = config.loss.name == "vanilla"
    return init_latent_carry(
        jax.random.fold_in(key, 2),  # the networks' keys use 0 and 1
        num_shards=config.mesh.num_shards,
        batch_size=config.train.batch_size,
        num_examples=num_examples,
        num_powers=2 if is_vanilla else config.loss.num_intervals + 1,
        latent_dim=config.model.latent_dim,
        num_chains=config.loss.chains_per_observation,
    )
