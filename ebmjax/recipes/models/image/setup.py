"""An energy of images (IGEBM and what followed), from its configuration."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import jax

from ebmjax.learning import init_carry, make_image_gradient_fn
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.evaluators.distances import Distances
from ebmjax.recipes.evaluators.extractors import check_weights
from ebmjax.recipes.models import build as common
from ebmjax.recipes.models.image import checks, objectives, parts, plots
from ebmjax.recipes.models.image.evaluate import make_evaluation
from ebmjax.recipes.models.image.monitor import ImageMonitor
from ebmjax.recipes.parts import image_data
from ebmjax.training import init_state, make_train_step, warm_start


def build(config: Config, workdir: Path) -> common.Experiment:
    """The experiment of ``config`` (see ``image/fields.py`` for the fields)."""
    images, config = image_data.load(config)
    checks.check(config)
    train, test = images.train, images.monitored
    plan = common.plan(config, len(train.images))
    params_key, _, eval_key = common.root_keys(config)
    network_key, buffer_key = jax.random.split(params_key)

    image_shape = train.images.shape[1:]
    energy_of, init = parts.model_of(config, image_shape)
    chain_plan = parts.chain_plan(config, image_shape)
    beta_fn = objectives.beta_fn(config, plan.total_steps)
    gradient_fn = objectives.gradient_without_chains(config, energy_of)
    draws = gradient_fn is None
    if gradient_fn is None:
        gradient_fn = make_image_gradient_fn(
            energy_of,
            objectives.loss(config),
            view=parts.view(config),
            plan=chain_plan,
            beta_fn=beta_fn,
            live=parts.live_steps(config),
            batch_axis=common.batch_axis(config),
        )
    optimizer = parts.optimizer(config)
    carry = init_carry(
        buffer_key,
        chain_plan if draws else None,
        num_shards=config.mesh.num_shards,
        buffer_size=config.sampler.buffer.size or 0,
        counts_steps=True,
    )
    monitor = ImageMonitor(
        workdir=workdir,
        key=eval_key,
        energy_of=energy_of,
        plan=chain_plan,
        test=test,
        distances=Distances(train, test, config),
        beta_fn=beta_fn,
        config=config,
    )
    later = monitor if images.evaluated is test else replace(monitor, test=images.evaluated)
    evaluation = make_evaluation(later, config, image_shape)
    state = init_state(jax.jit(init)(network_key), optimizer, carry)
    return common.Experiment(
        state=state,
        train_step=make_train_step(
            gradient_fn,
            optimizer,
            max_abs_loss=config.train.max_abs_loss,
            hold_fn=common.hold_fn(config),
        ),
        data=train,
        plan=plan,
        monitor=monitor,
        draw=partial(plots.draw, workdir, config),
        evaluate=evaluation,
        check_evaluate=partial(check_weights, config),
        warm_start=lambda folder: warm_start(state, optimizer, folder, ("buffer",)),
        use=evaluation.use,
        tests=(images.monitored.images, images.evaluated.images),
        about_data=images.about,
        config=config,
    )
