"""Every field of a latent EBM's configuration, with the digits' values."""

from functools import partial
from typing import Any

from ebmjax._ranges import (
    COUNT,
    COUNTS,
    EXPONENT,
    FLAG,
    FRACTION,
    POSITIVE,
    PROBABILITY,
    UP_TO_ONE,
    one_of,
    one_of_or_function,
    optional,
)
from ebmjax.latent import through_chain_loss
from ebmjax.recipes.config.common_fields import (
    ACTIVATIONS,
    OF_IMAGES,
    OURS,
    configure_images,
    family,
    pick_fields,
)
from ebmjax.recipes.config.declare import Field, When, field, rare, read_fields, under, when_is
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.evaluators import table as evaluators
from ebmjax.recipes.parts.samplers import SINGLE, TEMPERATURE, sections

SHARED = ("step_size", "temperature")
"""Fields of a sampler that the prior's chains and the posterior's each have."""
SAMPLERS = {
    name: SINGLE[name]
    for name in ("gradient_descent", "sgld", "psgld", "mala", "underdamped_langevin", "hmc")
}
"""Samplers of latents, which move one chain at a time: each chain has a separate density."""
OBJECTIVES = ("vanilla", "tempered", "telescoped", "covariance", "through_chain", "frozen_prior")

_NAME = one_of_or_function(*SAMPLERS)
_SHARING = When(
    "no config.sampler.prior.name or no config.sampler.posterior.name",
    lambda c: "sampler.name" in naming(c).values(),
)
_OPTIONS = under(read_fields(through_chain_loss), when_is("loss.name", "through_chain"))


def naming(config: Config) -> dict[str, str]:
    """Returns the field that names the sampler, for "prior" and "posterior"."""
    own = {name: f"sampler.{name}.name" for name in ("prior", "posterior")}
    return {name: one if config.get(one) else "sampler.name" for name, one in own.items()}


def _chains(name: str, step_size: float, num_steps: int) -> dict[str, Field]:
    section = f"sampler.{name}"
    has_temperature = When(
        f"a sampler with a temperature, config.sampler.name=sgld or config.{section}.name=sgld",
        lambda c: c.get(naming(c)[name]) != "gradient_descent",
    )
    return {
        f"{section}.name": rare(None, optional(_NAME), "its own sampler; None: sampler.name"),
        f"{section}.step_size": field(step_size, POSITIVE, "the score is multiplied by it"),
        f"{section}.temperature": field(1.0, POSITIVE, TEMPERATURE, has_temperature),
        f"{section}.num_steps": field(num_steps, COUNT, "steps of a chain"),
    }


_NEURAL = When("config.model.prior=neural", lambda c: c.get("model.prior") != "univariate")
_NETWORKS: dict[str, Field] = {
    **pick_fields(model={"dtype": "float32"}),
    "model.prior": rare(
        "neural", one_of("neural", "univariate"), "a network, or normalised and drawn exactly"
    ),
    "model.prior_components": field(
        400, COUNT, "products in its mixture", when_is("model.prior", "univariate")
    ),
    "model.prior_hidden": field((100, 100), COUNT, "prior's hidden layers; none: linear", _NEURAL),
    "model.prior_activation": field("leaky_relu_0.1", one_of(*ACTIVATIONS), "prior's", _NEURAL),
    "model.generator": field("convolutions", one_of("convolutions", "dense"), "its layers"),
    "model.generator_features": field(
        None, optional(COUNTS), "widths of its layers; None: ..., 128, 64; dense: 512, 512"
    ),
    "model.generator_init": field(
        "lecun_normal", one_of("lecun_normal", "xavier_normal"), "its initial kernels"
    ),
}
FIELDS: dict[str, Field] = {
    **family("latent"),
    **OF_IMAGES,
    **pick_fields(
        loss={"energy_l2": 0.0},
        train={
            "num_epochs": 100,
            "batch_size": 72,
            "steps_per_dispatch": 20,
            "log_every": 5,
            "max_abs_loss": 1e7,
        },
        mesh={"num_shards": 8},
        evals={"every_epochs": 20.0},
    ),
    "model.latent_dim": field(16, COUNT, "dimensions of a latent"),
    **under(_NETWORKS, OURS),
    "model.likelihood_scale": field(
        0.3, optional(POSITIVE), "deviation of a pixel; None: sqrt(variance of images / 1,000)"
    ),
    "sampler.name": field("sgld", _NAME, "sampler of the prior and the posterior", _SHARING),
    **_chains("prior", 0.16, 60),
    **_chains("posterior", 0.04, 20),
    "sampler.posterior.start": field(
        "base", one_of("base", "components"), "draws of the base, or principal components"
    ),
    "sampler.exchange_every": rare(None, optional(COUNT), "steps between swaps of the powers"),
    "sampler.place_powers": rare(False, FLAG, "powers follow the acceptances of swaps"),
    "optimizer.name": field("adam", one_of_or_function("adam"), "optimiser of both networks"),
    "sampler.warm_start": field(False, FLAG, "chains start where those of the power below end"),
    "sampler.persistent": field(False, FLAG, "an example's chains go on where they stood"),
    "sampler.reinit_prob": field(0.0, PROBABILITY, "share of persistent prior chains that restart"),
    "evals.num_chain_steps": rare(None, optional(COUNT), "steps of sampling; None: training's"),
    "loss.name": field("tempered", one_of(*OBJECTIVES), "estimator of the learning gradient"),
    "loss.num_intervals": field(10, COUNT, "intervals between powers"),
    "loss.exponent": field(6.0, EXPONENT, "exponent p of the powers (i / N)^p"),
    "loss.chains_per_observation": field(1, COUNT, "chains of an image"),
    **{f"loss.{name}": one for name, one in _OPTIONS.items()},
    "optimizer.decay_per_epoch": field(
        0.99, optional(UP_TO_ONE), "rates' decay; None: to the generator's final rate at the end"
    ),
    "optimizer.average_decay": field(0.0, FRACTION, "decay of averaged parameters; 0: none"),
    "optimizer.prior.learning_rate": field(
        2e-4, optional(POSITIVE), "None: 0.002, 0.001 for over 200 epochs; univariate: 0.05"
    ),
    "optimizer.prior.final_learning_rate": field(1e-4, POSITIVE, "where its decay ends"),
    "optimizer.generator.learning_rate": field(1e-3, POSITIVE, "learning rate of the generator"),
    "optimizer.generator.final_learning_rate": field(5e-4, POSITIVE, "where its decay ends"),
    **evaluators.fields("reconstruction"),
    **evaluators.fields("evidence"),
    **evaluators.fields("gradient_variance"),
    **evaluators.fields("samples"),
    **evaluators.fields("inpainting"),
    **evaluators.fields("generation", without=("selected_by_confidence",)),
}
_LEFT_OUT = (*SHARED, "noise_scale", "target_acceptance")
SECTIONS = sections(SAMPLERS, "sampler.name", lambda c: map(c.get, naming(c).values()), *_LEFT_OUT)

SMOKE: dict[str, Any] = {
    "data.max_train": 144,
    "data.max_test": 16,
    "sampler.prior.num_steps": 5,
    "sampler.posterior.num_steps": 5,
    "loss.num_intervals": 3,
    "train.num_epochs": 5,
    "train.steps_per_dispatch": 2,
    "train.log_every": 1,
    "train.checkpoint_every_epochs": 1,
    "evals.every_epochs": 0,
    "evals.samples.num_images": 16,
    "evals.gradient_variance.num_gradients": 2,
    "evals.evidence.num_images": 2,
    "evals.evidence.num_chains": 48,
    "evals.generation.num_images": 16,
    "evals.evidence.num_intervals": 3,
    "evals.evidence.num_steps": 2,
}
COMMON = {"smoke": SMOKE, "vanilla": {"loss.name": "vanilla"}}
configure = partial(configure_images, "latent", COMMON, max_test=352)

# A model 64 times smaller, to try the path of a large configuration on a CPU.
SMALL_SMOKE: dict[str, Any] = {
    **SMOKE,
    "data.max_train": 48,
    "model.latent_dim": 8,
    "train.num_epochs": 1,
    "train.batch_size": 12,
    "mesh.num_shards": 1,
    "evals.evidence.methods": ("ais",),
    "evals.gradient_variance.every": "never",
}
