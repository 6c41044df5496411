"""Refuses, before training, fields of a joint model's configuration that exclude each other."""

from ebmjax.recipes.core import best, unread
from ebmjax.recipes.core.fields import Config, ConfigError, choose
from ebmjax.recipes.core.unread import WEIGHTS, WHOLE_BATCH, Rule
from ebmjax.recipes.images.initial_laws import check_starts
from ebmjax.recipes.joint.parts import NORM_POLICIES, sampler
from ebmjax.recipes.samplers import Chosen, check_particles
from ebmjax.recipes.samplers import check as check_samplers


def _has_energy(config: Config) -> bool:
    return bool(config.loss.generative_weight)


def _is_robust(config: Config) -> bool:
    return _has_energy(config) and config.loss.generative == "beta"


def _is_augmented(config: Config) -> bool:
    return _has_energy(config) and config.data.augment_positives


ENERGY = "an energy model, config.loss.generative_weight above 0"
ROBUST = f"the robust objective, config.loss.generative=beta, of {ENERGY}"
AUGMENTED = f"augmented images for p(x), config.data.augment_positives=True, of {ENERGY}"
RULES = (
    Rule("data.positive_crop_padding", None, _is_augmented, AUGMENTED),
    Rule("data.positive_flip", None, _is_augmented, AUGMENTED),
    Rule("loss.beta", 0.0, _is_robust, ROBUST),
    Rule("loss.sampling_beta", None, _is_robust, ROBUST),
    Rule("loss.max_positive_weight", None, _is_robust, ROBUST),
    Rule("loss.beta_variant", "default", _is_robust, ROBUST),
    Rule("loss.output_scale", 1.0, _is_robust, ROBUST),
    Rule(
        "loss.svgd_variant",
        "corrected",
        lambda config: _has_energy(config) and config.loss.generative == "svgd",
        f"the loss of SVGD, config.loss.generative=svgd, of {ENERGY}",
    ),
    Rule("loss.is_conditional", False, _has_energy, ENERGY),
    Rule(
        "model.norm_policy",
        "default",
        lambda config: config.model.norm == "batch",
        "batch normalisation, config.model.norm=batch",
    ),
    Rule("eval.num_profiled", 0, _has_energy, ENERGY),
    Rule(
        "eval.num_eot",
        1,
        lambda config: config.eval.refine_steps,
        "noise to average over, that of chains before the attack: config.eval.refine_steps",
    ),
    WEIGHTS,
    WHOLE_BATCH,
)


def check(config: Config) -> None:
    """Raises ConfigError at the first pair of fields that do not go together."""
    has_samples = _has_energy(config) and (config.data.num_classes or config.eval.inception_weights)
    told = set(best.IS_HIGHER_BETTER) - (set() if has_samples else best.OF_SAMPLES)
    best.check(config, told)
    unread.check(config, RULES)
    _check_sharpness(config.optimizer)
    if config.loss.generative_weight:
        chosen = sampler(config)
        check_samplers(config.sampler, (chosen,))
        check_particles((chosen,), config.sampler.num_samples)
        check_starts(config, [chosen.name] if chosen.rejects else [])
        _check_normalisation(config, chosen)


def _check_normalisation(config: Config, chosen: Chosen) -> None:
    """Refuses samplers that need chains independent of each other where a batch couples them."""
    section = config.model
    policy = choose("model.norm_policy", section.norm_policy, NORM_POLICIES)
    if section.norm != "batch" or policy.chains == "running":
        return
    if chosen.rejects or chosen.entry.interacting:
        does = "takes moves back chain by chain"
        if chosen.entry.interacting:
            does = "moves particles that interact"
        raise ConfigError(
            f"config.sampler.name={chosen.name!r} {does}, and chains normalised by their batch, "
            f"as by config.model.norm='batch' and norm_policy={section.norm_policy!r}, depend on "
            "each other in a way it does not know: set --config.model.norm=group, or "
            "--config.model.norm_policy=running."
        )


def _check_sharpness(optimizer: Config) -> None:
    if optimizer.adaptive and optimizer.rho is None:
        raise ConfigError(
            "config.optimizer.adaptive=True makes SAM adaptive, and config.optimizer.rho is not "
            "set, which asks for neither: set --config.optimizer.rho=4.0, for example."
        )
