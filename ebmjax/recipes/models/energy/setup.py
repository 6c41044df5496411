"""A density of images, with labels (JEM and its kin) or without, or of points."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax

from ebmjax.learning import NoiseLevels, init_carry, make_gradient_fn, numbers_of
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.config.families import POINTS, warn_of_features
from ebmjax.recipes.evaluators.evaluations import make_distances
from ebmjax.recipes.evaluators.result_tables import FIDS
from ebmjax.recipes.models import build as common
from ebmjax.recipes.models.energy import checks, parts
from ebmjax.recipes.models.energy.model import EnergyModel, densities_of
from ebmjax.recipes.parts import image_data, points_data
from ebmjax.recipes.parts.objectives import chains_beta, draws, warn_of_objective

PANELS = {
    "energy": (
        ("loss", ("loss", "kl_terms"), "linear"),
        ("network's energy in training, nats", ("positive_energy", "negative_energy"), "linear"),
        ("energy, nats", ("test_energy", "sample_energy"), "linear"),
        ("acceptance in training", ("chain_acceptance_prob",), "linear"),
        ("FID of samples ({extractor})", FIDS, "linear"),
        ("total variation from the data", ("density_tv", "sample_tv"), "linear"),
        ("KL(data || model), nats", ("density_kl",), "log"),
        ("chains", ("chain_displacement", "chain_step_size"), "log"),
        (
            "robust objective",
            ("positive_weight", "effective_sample_fraction", "effective_positive_fraction"),
            "linear",
        ),
    ),
    "joint": (
        ("loss", ("loss", "cross_entropy"), "linear"),
        ("accuracy", ("accuracy", "test_accuracy"), "linear"),
        ("calibration", ("test_ece", "test_brier"), "linear"),
        ("log density, nats", ("test_log_density", "buffer_log_density"), "linear"),
        ("-f in training, nats", ("positive_energy", "negative_energy"), "linear"),
        ("f of data - f of samples, nats", ("energy_gap", "log_density_gap"), "linear"),
        ("FID of the buffer ({extractor})", FIDS, "linear"),
        ("chains", ("chain_acceptance_prob", "positive_weight", "smoothing"), "linear"),
        ("squared displacement of a chain, a pixel", ("chain_displacement",), "linear"),
    ),
}
"""Panels of ``plots/training.png``, by family: label, numbers of metrics.jsonl, scale."""


def build(config: Config, workdir: Path) -> common.Experiment:
    """The experiment of ``config`` (see ``energy/fields.py`` for the fields)."""
    truth, is_joint = None, config.family == "joint"
    has_density = config.loss.get("generative_weight", 1.0) > 0
    has_chains = has_density and draws(config.loss.name)
    if config.data.name in POINTS and not is_joint:
        images, truth, config = points_data.load(config)
    else:
        images, config = image_data.load(config, has_chains)
    is_refined = checks.refines(config)
    checks.check_images(config, images.about[0])
    warnings = warn_of_features(config) if truth is None else checks.warn_of_temperature(config)
    train = images.train
    learnt = parts.take_images(config, train, images.about[0])
    streams = (config.train.positive_batch_size,) if is_joint else ()
    plan = common.plan(config, len(learnt.images), further_streams=streams)
    params_key, _, eval_key = common.root_keys(config.seed)
    network_key, buffer_key = jax.random.split(params_key)

    objective = parts.make_objective(config, train, plan.total_steps)
    fitted, advice = objective.numbers.get("fitted"), warn_of_objective(config)
    levels = fitted if isinstance(fitted, NoiseLevels) else None
    density = parts.make_density(config, train.images.shape[1:], levels)
    params, statistics = jax.jit(density.init)(network_key)
    view = parts.make_view(config, is_augmented=config.data.get("augment_positives", True))
    classified_view = parts.make_view(config) if is_joint else None
    # A classifier alone has no chains in training, but may refine attacked images by such chains.
    planned = parts.chain_plan(config, train) if has_density or is_refined else None
    chain_plan, refining = (planned if has_density else None), (planned if is_refined else None)
    trained_by = chain_plan if has_chains else None
    gradient_fn = make_gradient_fn(
        density.network,
        objective,
        view=view,
        classified_view=classified_view,
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
        return chains_beta({**config.loss, "step": step}, plan.total_steps)

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
    made = common.assemble(
        config,
        workdir,
        images,
        plan=plan,
        data=learnt,
        params=params,
        carry=carry,
        optimizer=partial(
            parts.make_optimizer,
            total_steps=plan.total_steps,
            steps_per_epoch=len(learnt.images) // config.train.batch_size,
            own=common.find_optimizer(config),
            **config.optimizer,
        ),
        numbers=numbers,
        gradient_fn=gradient_fn,
        models=(model, finished),
        key=eval_key,
        draw=partial(common.draw_plots, PANELS[config.family], workdir, config),
        kept=("buffer", "statistics") if is_joint else ("buffer",),
    )
    if truth is not None:
        made.check_evaluate()  # a grid that suits the points is needed from the first step on
    return made._replace(about_data=(*images.about, *warnings, *advice))
