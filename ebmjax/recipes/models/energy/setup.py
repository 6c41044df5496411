"""A density of images, with labels (JEM and its kin) or without, or of points."""

from functools import partial
from pathlib import Path

import jax

from ebmjax.learning import init_carry, make_gradient_fn, numbers_of
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.config.families import ABOUT, POINTS, extractor_name
from ebmjax.recipes.evaluators.evaluations import make_distances
from ebmjax.recipes.models import build as common
from ebmjax.recipes.models.energy import checks, parts
from ebmjax.recipes.models.energy.model import EnergyModel
from ebmjax.recipes.parts import image_data, points_data
from ebmjax.recipes.parts.objectives import draws, warn_of_objective
from ebmjax.recipes.parts.start_distributions import write_base


def build(config: Config, workdir: Path) -> common.Experiment:
    """The experiment of ``config`` (see ``energy/fields.py`` for the fields)."""
    truth, is_joint = None, config.family == "joint"
    has_density = config.loss.get("generative_weight", 1.0) > 0
    has_chains = has_density and draws(config.loss.name)
    if not is_joint and config.data.name in POINTS:
        images, truth, config = points_data.load(config)
    else:
        images, config = image_data.load(config, has_chains)
    checks.check(config, images.about[0])
    extractor = extractor_name(config) if truth is None else ""
    train, number = images.train, config.data.get("num_per_class")
    learnt = train if number is None else parts.take_images(train, number)
    plan = common.plan(config, len(learnt.images))
    network_key, buffer_key = jax.random.split(common.root_keys(config.seed)[0])

    objective = parts.make_objective(config, train, plan.total_steps)
    about = (*images.about, *ABOUT.get(extractor, ()), *warn_of_objective(config))
    make = parts.make_classifier if is_joint else parts.make_energy
    network, init, logits_fn = make(config, train.images.shape[1:])
    params, statistics = jax.jit(init)(network_key)
    view = parts.make_view(config, config.data.get("augment_positives", True))
    classified_view = parts.make_view(config, is_classified=True) if is_joint else None
    base, about_base = parts.find_base(config, train, workdir) if has_density else (None, ())
    chain_plan = parts.chain_plan(config, train, base) if has_density else None
    trained_by = chain_plan if has_chains else None

    model = EnergyModel(
        plan=chain_plan,
        base=base,
        train=train,
        class_names=images.class_names,
        held_out=images.monitored if config.data.holdout else None,
        distances=None if truth else make_distances(config, extractor, train, images.monitored),
        config=config,
        network=network,
        logits_fn=logits_fn,
        total_steps=plan.total_steps,
        truth=truth,
        output_scale=1.0 if truth is None else config.loss.get("output_scale", 1.0),
    )
    made = common.assemble(
        model,
        workdir,
        images._replace(about=(*about, *about_base)),
        plan=plan,
        data=learnt,
        params=params,
        carry=init_carry(
            buffer_key,
            trained_by,
            num_shards=config.mesh.num_shards,
            buffer_size=config.sampler.buffer.size or 0,
            statistics=statistics,
            smoothing=config.loss.get("smoothing", 1.0),
        ),
        optimizer=partial(
            parts.make_optimizer,
            config,
            plan.total_steps,
            len(learnt.images) // config.train.batch_size,
        ),
        numbers={
            **numbers_of({"objective": objective, "plan": trained_by}),
            "optimizer": {"learning_rate": config.optimizer.learning_rate},
        },
        gradient_fn=make_gradient_fn(
            network,
            objective,
            view=view,
            classified_view=classified_view,
            plan=trained_by,
        ),
        kept=("buffer", "statistics") if is_joint else ("buffer",),
        save=partial(write_base, base, workdir),
    )
    if truth is not None:
        made.check_evaluate()  # a grid that suits the points is needed from the first step on
    return made
