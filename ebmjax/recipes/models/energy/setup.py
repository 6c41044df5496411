"""A density of images, with labels (JEM and its kin) or without, or of points."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax

from ebmjax.learning import init_carry, make_gradient_fn, numbers_of
from ebmjax.recipes.config.checks import is_points
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.evaluators.distances import make_distances
from ebmjax.recipes.models import build as common
from ebmjax.recipes.models.energy import checks, parts
from ebmjax.recipes.models.energy.model import EnergyModel, densities_of
from ebmjax.recipes.models.energy.plots import PANELS
from ebmjax.recipes.parts import image_data, points_data
from ebmjax.recipes.parts.objectives.objective import chains_beta, noise_levels
from ebmjax.recipes.parts.objectives.table import draws, warn_of_objective


def build(config: Config, workdir: Path) -> common.Experiment:
    """The experiment of ``config`` (see ``energy/fields.py`` for the fields)."""
    truth, is_joint = None, config.family == "joint"
    if not is_joint and is_points(config):
        images, truth, config = points_data.load(config)
    else:
        images, config = image_data.load(config)
    checks.check(config, images.about[0])
    train = images.train
    learnt = parts.take_images(config, train, images.about[0])
    streams = (config.train.positive_batch_size,) if is_joint else ()
    plan = common.plan(config, len(learnt.images), further_streams=streams)
    params_key, _, eval_key = common.root_keys(config)
    network_key, buffer_key = jax.random.split(params_key)

    levels = noise_levels(config, train)
    density = parts.make_density(config, train.images.shape[1:], levels)
    params, statistics = jax.jit(density.init)(network_key)
    chain_plan = refining = None
    if checks.learns_density(config):
        chain_plan = parts.chain_plan(config, train)
    # A classifier alone has no chains in training, but may refine attacked images by such chains.
    if checks.refines(config):
        refining = chain_plan or parts.chain_plan(config, train)
    trained_by = chain_plan if chain_plan and draws(config) else None
    objective = parts.make_objective(config, train, plan.total_steps)
    gradient_fn = make_gradient_fn(
        density.network,
        objective,
        view=parts.make_view(config, is_augmented=config.data.get("augment_positives", True)),
        classified_view=parts.make_view(config) if is_joint else None,
        plan=trained_by,
    )
    carry = init_carry(
        buffer_key,
        trained_by,
        num_shards=config.mesh.num_shards,
        buffer_size=config.sampler.buffer.size or 0,
        statistics=statistics,
        smoothing=config.loss.get("smoothing", 1.0),
    )

    def beta_at(step: Any) -> Any:
        return chains_beta(config, {**config.loss, "step": step}, plan.total_steps)

    model = EnergyModel(
        plan=chain_plan,
        densities_of=densities_of(density.network),
        train=train,
        held_out=images.monitored if config.data.holdout else None,
        distances=make_distances(config, train, images.monitored) if truth is None else None,
        config=config,
        network=density.network,
        logits_fn=density.logits,
        beta_of=lambda state: beta_at(state.carry.step[0]),
        levels=levels,
        refining=refining,
        truth=truth,
        output_scale=1.0 if truth is None else checks.output_scale(config),
    )
    factor = config.evals.get("step_factor", 1.0)
    finished = replace(
        model,
        plan=chain_plan if factor == 1.0 else parts.chain_plan(config, train, factor),
        step_factor=factor,
        beta_of=lambda state: beta_at(plan.total_steps),
        programs={},
    )
    numbers = numbers_of({"objective": objective, "plan": trained_by})
    numbers["optimizer"] = {"learning_rate": config.optimizer.learning_rate}
    steps_per_epoch = len(learnt.images) // config.train.batch_size
    made = common.assemble(
        config,
        workdir,
        images,
        plan=plan,
        data=learnt,
        params=params,
        carry=carry,
        optimizer=partial(parts.make_optimizer, config, steps_per_epoch),
        numbers=numbers,
        gradient_fn=gradient_fn,
        models=(model, finished),
        key=eval_key,
        draw=partial(common.draw_plots, PANELS[config.family], workdir, config),
        kept=("buffer", "statistics") if is_joint else ("buffer",),
    )
    lines = (*made.about_data, *warn_of_objective(config))
    if truth is not None:
        made.check_evaluate()  # a grid that suits the points is needed from the first step on
        lines += checks.warn_of_temperature(config)
    return made._replace(about_data=lines)
