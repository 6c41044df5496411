"""An energy of images (IGEBM and what followed) or of points, from its configuration."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax

from ebmjax.learning import EnergyNetwork, init_carry, make_gradient_fn, numbers_of
from ebmjax.recipes.config.checks import is_points
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.evaluators.distances import make_distances
from ebmjax.recipes.evaluators.evaluations import Evaluations, make_evaluators
from ebmjax.recipes.models import build as common
from ebmjax.recipes.models.energy import checks, parts, plots
from ebmjax.recipes.models.energy.model import EnergyModel, densities_of
from ebmjax.recipes.models.energy.points import points_model
from ebmjax.recipes.parts import image_data, points_data
from ebmjax.recipes.parts.objectives.objective import chains_beta, noise_levels
from ebmjax.recipes.parts.objectives.table import draws, warn_of_objective
from ebmjax.training import init_state, make_train_step, warm_start


def build(config: Config, workdir: Path) -> common.Experiment:
    """The experiment of ``config`` (see ``energy/fields.py`` for the fields)."""
    truth = None
    if is_points(config):
        images, truth, config = points_data.load(config)
    else:
        images, config = image_data.load(config)
    checks.check(config)
    train = images.train
    plan = common.plan(config, len(train.images))
    params_key, _, eval_key = common.root_keys(config)
    network_key, buffer_key = jax.random.split(params_key)

    image_shape = train.images.shape[1:]
    levels = noise_levels(config, train)
    energy_of, init = parts.model_of(config, image_shape, levels)
    chain_plan = parts.chain_plan(config, train)
    trained_by = chain_plan if draws(config) else None
    live = parts.live_steps(config)
    objective = common.make_objective(config, train, plan.total_steps, live)
    gradient_fn = make_gradient_fn(
        EnergyNetwork(energy_of, chain_plan.num_classes),
        objective,
        view=parts.view(config),
        plan=trained_by,
    )
    optimizer = partial(parts.optimizer, config, plan.total_steps)
    numbers = numbers_of({"objective": objective, "plan": trained_by})
    numbers["optimizer"] = {"learning_rate": config.optimizer.learning_rate}
    first_optimizer = optimizer(numbers["optimizer"])
    carry = init_carry(
        buffer_key,
        trained_by,
        num_shards=config.mesh.num_shards,
        buffer_size=config.sampler.buffer.size or 0,
    )

    def beta_at(step: Any) -> Any:
        return chains_beta(config, {**config.loss, "step": step}, plan.total_steps)

    make_model = EnergyModel if truth is None else partial(points_model, truth)
    model = make_model(
        plan=chain_plan,
        densities_of=densities_of(energy_of),
        train=train,
        distances=make_distances(config, train, images.monitored) if truth is None else None,
        config=config,
        energy_of=energy_of,
        levels=levels,
        beta_of=lambda state: beta_at(state.carry.step[0]),
    )
    factor = config.evals.step_factor
    finished = replace(
        model,
        plan=chain_plan if factor == 1.0 else parts.chain_plan(config, train, factor),
        step_factor=factor,
        beta_of=lambda state: beta_at(plan.total_steps),
        programs={},
    )
    evaluations = Evaluations(
        folder=workdir,
        key=eval_key,
        evaluators=make_evaluators(config),
        config=config,
        interval=plan.monitor_every,
        models=(model.at, finished.at),
        tests=(images.monitored, images.evaluated),
    )
    if truth is not None:  # a grid that suits the points is needed from the first step on
        evaluations.check()
    state = init_state(jax.jit(init)(network_key), first_optimizer, carry)
    return common.Experiment(
        state=state,
        train_step=make_train_step(
            gradient_fn,
            optimizer,
            max_abs_loss=config.train.max_abs_loss,
            hold_fn=common.hold_fn(config),
        ),
        numbers=numbers,
        data=train,
        plan=plan,
        monitor=evaluations.monitor,
        draw=partial(common.draw_plots, plots.PANELS, workdir, config),
        evaluate=evaluations.evaluate,
        check_evaluate=evaluations.check,
        warm_start=lambda folder: warm_start(state, first_optimizer, folder, ("buffer",)),
        use=finished.at,
        about_data=(*images.about, *warn_of_objective(config), *checks.warn_of_temperature(config)),
        config=config,
    )
