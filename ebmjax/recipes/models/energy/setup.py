"""A density of images, with labels (JEM and its kin) or without, or of points."""

from functools import partial
from pathlib import Path

import jax

from ebmjax.learning import NoiseLevels, init_carry, make_gradient_fn, numbers_of
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.config.families import POINTS, extractor_name
from ebmjax.recipes.evaluators import profile
from ebmjax.recipes.evaluators.evaluations import make_distances
from ebmjax.recipes.evaluators.plots import panels
from ebmjax.recipes.evaluators.result_tables import FIDS
from ebmjax.recipes.folder.run_folder import read_rows
from ebmjax.recipes.models import build as common
from ebmjax.recipes.models.energy import checks, parts
from ebmjax.recipes.models.energy.model import EnergyModel, densities_of
from ebmjax.recipes.parts import image_data, points_data
from ebmjax.recipes.parts.objectives import chains_beta, draws, warn_of_objective

PANELS = (
    ("loss", ("loss", "cross_entropy", "kl_terms"), "linear"),
    ("accuracy", ("accuracy", "test_accuracy"), "linear"),
    ("calibration", ("test_ece", "test_brier"), "linear"),
    ("network's energy in training, nats", ("positive_energy", "negative_energy"), "linear"),
    ("energy, nats", ("test_energy", "sample_energy"), "linear"),
    ("log density, nats", ("test_log_density", "buffer_log_density"), "linear"),
    ("f of data - f of samples, nats", ("energy_gap", "log_density_gap"), "linear"),
    ("FID of samples ({extractor})", FIDS, "linear"),
    ("total variation from the data", ("density_tv", "sample_tv"), "linear"),
    ("KL(data || model), nats", ("density_kl",), "log"),
    ("chains", ("chain_acceptance_prob", "positive_weight", "smoothing"), "linear"),
    ("displacement and step of chains", ("chain_displacement", "chain_step_size"), "log"),
    ("weights", ("effective_sample_fraction", "effective_positive_fraction"), "linear"),
)
"""Panels of ``plots/training.png``: label, numbers of metrics.jsonl, scale."""


def build(config: Config, workdir: Path) -> common.Experiment:
    """The experiment of ``config`` (see ``energy/fields.py`` for the fields)."""
    truth, is_joint = None, config.family == "joint"
    has_density = config.loss.get("generative_weight", 1.0) > 0
    has_chains = has_density and draws(config.loss.name)
    if config.data.name in POINTS and not is_joint:
        images, truth, config = points_data.load(config)
    else:
        images, config = image_data.load(config, has_chains)
    checks.check_images(config, images.about[0])
    extractor = extractor_name(config) if truth is None else ""
    warnings = checks.warn_of_temperature(config) if truth else ()
    train = images.train
    learnt = parts.take_images(config, train, images.about[0])
    streams = (config.train.positive_batch_size,) if is_joint else ()
    plan = common.plan(config, len(learnt.images), further_streams=streams)
    network_key, buffer_key = jax.random.split(common.root_keys(config.seed)[0])

    objective = parts.make_objective(config, train, plan.total_steps)
    warnings += warn_of_objective(config)
    fitted = objective.numbers.get("fitted")
    levels = fitted if isinstance(fitted, NoiseLevels) else None
    network, init, logits_fn = parts.make_density(config, train.images.shape[1:], levels)
    params, statistics = jax.jit(init)(network_key)
    view = parts.make_view(config, config.data.get("augment_positives", True))
    classified_view = parts.make_view(config) if is_joint else None
    chain_plan = parts.chain_plan(config, train) if has_density else None
    trained_by = chain_plan if has_chains else None

    def draw() -> None:
        panels(workdir / "plots" / "training.png", read_rows(workdir), PANELS, config)
        profile.draw_panels(workdir / "plots" / "chains.png", profile.read(workdir))

    model = EnergyModel(
        plan=chain_plan,
        densities_of=densities_of(network),
        train=train,
        held_out=images.monitored if config.data.holdout else None,
        distances=None if truth else make_distances(config, extractor, train, images.monitored),
        config=config,
        network=network,
        logits_fn=logits_fn,
        beta_of=lambda state: chains_beta(
            {**config.loss, "step": state.carry.step[0]}, plan.total_steps
        ),
        levels=levels,
        truth=truth,
        output_scale=1.0 if truth is None else config.loss.get("output_scale", 1.0),
    )
    made = common.assemble(
        model,
        workdir,
        images._replace(about=(*images.about, *warnings)),
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
        draw=draw,
        kept=("buffer", "statistics") if is_joint else ("buffer",),
    )
    if truth is not None:
        made.check_evaluate()  # a grid that suits the points is needed from the first step on
    return made
