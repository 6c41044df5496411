"""Joint energy models (JEM, JEM++, SADA-JEM, SVGD in JEM), from their configuration."""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp

from ebmjax import data
from ebmjax.learning import JointNetwork, init_carry, make_gradient_fn, numbers_of
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.evaluators.distances import make_distances
from ebmjax.recipes.evaluators.evaluations import Evaluations, make_evaluators
from ebmjax.recipes.evaluators.table import wants
from ebmjax.recipes.models import build as common
from ebmjax.recipes.models.joint import checks, parts, plots
from ebmjax.recipes.models.joint.model import JointModel, TrainedJoint, densities_of
from ebmjax.recipes.parts import image_data
from ebmjax.recipes.parts.objectives.objective import chains_beta, noise_levels
from ebmjax.recipes.parts.objectives.table import draws
from ebmjax.training import init_state, make_train_step, warm_start


def build(config: Config, workdir: Path) -> common.Experiment:
    """The experiment of ``config`` (see ``joint/fields.py`` for the fields)."""
    images, config = image_data.load(config)
    checks.check(config, images.about[0])
    train = images.train
    learnt = parts.take_images(config, train)
    levels = noise_levels(config, train)
    classifier, chain_classifier = parts.classifiers(config, train.images.shape[1:], levels)
    streams = (config.train.positive_batch_size,)
    plan = common.plan(config, len(learnt.images), further_streams=streams)
    params_key, _, eval_key = common.root_keys(config)
    network_key, buffer_key = jax.random.split(params_key)

    policy = parts.NORM_POLICIES[config.model.get("norm_policy", "default")]
    params, statistics = jax.jit(classifier.init)(
        network_key, data.to_signed_unit(jnp.asarray(train.images[:2]))
    )
    objective = common.make_objective(config, train, plan.total_steps)
    has_energy = bool(config.loss.generative_weight)
    gone = set(range(config.data.num_classes)).difference(train.labels.tolist())
    if gone and has_energy and config.sampler.buffer.start == "informative":
        raise ConfigError(
            f"config.sampler.buffer.start=informative needs training images of every class, and of "
            f"{sorted(gone)[:5]} none are left ({images.about[0]}). Hold fewer out "
            "(config.data.holdout), read more (config.data.max_train), or start from "
            "uniform noise, --config.sampler.buffer.start=uniform."
        )
    chain_plan = parts.chain_plan(config, train) if has_energy else None
    trained_by = chain_plan if has_energy and draws(config) else None
    # A classifier alone has no chains in training, but may refine attacked images by such chains.
    is_refined = wants(config, "robustness") and config.evals.robustness.refine_steps
    refining = parts.chain_plan(config, train) if is_refined else None
    carry = init_carry(
        buffer_key,
        trained_by,
        num_shards=config.mesh.num_shards,
        buffer_size=config.sampler.buffer.size or 0,
        statistics=statistics,
        smoothing=config.loss.smoothing,
    )
    network = JointNetwork(classifier, chain_classifier, policy, config.loss.is_conditional)
    gradient_fn = make_gradient_fn(
        network,
        objective,
        view=parts.positive_view(config),
        classified_view=parts.make_classifier_view(config),
        plan=trained_by,
    )
    optimizer = partial(parts.optimizer, config, len(learnt.images) // config.train.batch_size)
    numbers = numbers_of({"objective": objective, "plan": trained_by})
    numbers["optimizer"] = {"learning_rate": config.optimizer.learning_rate}
    first_optimizer = optimizer(numbers["optimizer"])
    density_scale = 1.0 - chains_beta(config, config.loss, plan.total_steps)

    def logits_of(trained: TrainedJoint, x: jax.Array) -> jax.Array:
        """Returns logits that are log densities of the images and classes, as chains see them."""
        logits = classifier.apply(trained.params, trained.statistics, x)[0]
        if chain_plan is None or chain_plan.log_base is None:
            return logits
        share = trained.smoothing / density_scale
        return logits + share * chain_plan.log_base(x)[..., None]

    model = JointModel(
        plan=chain_plan,
        densities_of=densities_of(network, density_scale),
        train=train,
        distances=make_distances(config, train, images.monitored),
        config=config,
        network=network,
        density_scale=density_scale,
        levels=levels,
        refining=refining,
        logits_of=logits_of,
        held_out=images.monitored if config.data.holdout else None,
    )
    evaluations = Evaluations(
        folder=workdir,
        key=eval_key,
        evaluators=make_evaluators(config),
        config=config,
        interval=plan.monitor_every,
        models=(model.at, model.at),
        tests=(images.monitored, images.evaluated),
    )
    state = init_state(params, first_optimizer, carry)
    return common.Experiment(
        state=state,
        train_step=make_train_step(
            gradient_fn,
            optimizer,
            max_abs_loss=config.train.max_abs_loss,
            hold_fn=common.hold_fn(config),
        ),
        numbers=numbers,
        data=learnt,
        plan=plan,
        monitor=evaluations.monitor,
        draw=partial(common.draw_plots, plots.PANELS, workdir, config),
        evaluate=evaluations.evaluate,
        check_evaluate=evaluations.check,
        warm_start=lambda folder: warm_start(
            state, first_optimizer, folder, ("buffer", "statistics")
        ),
        use=model.at,
        about_data=images.about,
        config=config,
    )
