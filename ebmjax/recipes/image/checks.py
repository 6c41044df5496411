"""Refuses, before training, fields of an image energy's configuration that exclude each other."""

from ebmjax.recipes.core import best, unread
from ebmjax.recipes.core.fields import Config, ConfigError
from ebmjax.recipes.core.unread import WEIGHTS, WHOLE_BATCH, Rule
from ebmjax.recipes.image.parts import chosen, references_a_shard
from ebmjax.recipes.images.initial_laws import check_starts
from ebmjax.recipes.samplers import SINGLE
from ebmjax.recipes.samplers import check as check_samplers


def _is_robust(config: Config) -> bool:
    return config.loss.name == "beta"


def _is_improved(config: Config) -> bool:
    return config.loss.name == "improved"


ROBUST = "the robust objective, config.loss.name=beta"
IMPROVED = "improved contrastive divergence, config.loss.name=improved"
RULES = (
    Rule("loss.beta_start", None, _is_robust, ROBUST),
    Rule("loss.beta_end", 0.0, _is_robust, ROBUST),
    Rule("loss.max_positive_weight", None, _is_robust, ROBUST),
    Rule("loss.beta_variant", "default", _is_robust, ROBUST),
    Rule("loss.output_scale", 1.0, _is_robust, ROBUST),
    Rule("loss.allow_negative", False, _is_robust, ROBUST),
    Rule("loss.kl_weight", 1.0, _is_improved, IMPROVED),
    Rule("loss.live_steps", 1, _is_improved, IMPROVED),
    WEIGHTS,
    WHOLE_BATCH,
)

MIN_CHAIN_STEPS = 8
"""Split R-hat takes four draws, and the first half of a chain is burn-in."""


def check(config: Config) -> None:
    """Raises ConfigError at the first pair of fields that do not go together."""
    has_judge = config.data.num_classes or config.eval.inception_weights
    best.check(config, best.OF_SAMPLES if has_judge else ())
    unread.check(config, RULES)
    if not config.model.features:
        raise ConfigError(
            "config.model.features must have at least one entry, the width of each stage of the "
            "network, got (). Set it with --config.model.features=(16,32), for example."
        )
    _check_classes(config)
    _check_shares(config)
    _check_buffer(config)
    _check_beta(config)
    _check_improved(config)
    _check_eval(config)
    samplers = chosen(config)
    _check_adaptation(config.sampler)
    check_samplers(config.sampler, list(samplers.values()))
    check_starts(config, [name for name, one in samplers.items() if one.rejects])


def _check_classes(config: Config) -> None:
    if config.model.is_conditional and config.data.num_classes is None:
        raise ConfigError(
            "config.model.is_conditional=True is an energy E(x, y) of images with labels: set "
            "--config.data.num_classes to their number, or --config.model.is_conditional=False for "
            "an energy of images alone."
        )


def _check_shares(config: Config) -> None:
    names, num_shards = config.sampler.names, config.mesh.num_shards
    if not names or len(set(names)) < len(names):
        raise ConfigError(
            f"config.sampler.names must be one or more different samplers, got {names}."
        )
    num_parts = len(names) * num_shards
    if config.sampler.num_samples % num_parts:
        raise ConfigError(
            f"config.sampler.num_samples must be a multiple of {num_parts}, so that "
            f"{len(names)} samplers on config.mesh.num_shards={num_shards} shards have equal "
            f"parts; got {config.sampler.num_samples}."
        )


def _check_buffer(config: Config) -> None:
    section = config.sampler
    size, num_shards = section.buffer.size, config.mesh.num_shards
    drawn = section.num_samples // num_shards
    if config.loss.name == "improved":
        drawn += references_a_shard(config)
    num_classes = config.data.num_classes if config.model.is_conditional else 1
    if section.buffer.is_used and size % (num_shards * num_classes):
        raise ConfigError(
            f"config.sampler.buffer.size must be a multiple of {num_shards * num_classes} "
            f"(shards times classes), got {size}."
        )
    if section.buffer.is_used and size < drawn * num_shards * num_classes:
        raise ConfigError(
            f"config.sampler.buffer.size must be at least {drawn * num_shards * num_classes}: each "
            f"step draws {drawn} different slots a shard, perhaps all of one class; got {size}."
        )
    if not section.buffer.is_used and section.augmentation.name != "none":
        raise ConfigError(
            f"config.sampler.augmentation.name={section.augmentation.name!r} moves starts that "
            "come from the buffer, and config.sampler.buffer.is_used=False: set it to none."
        )


def _check_beta(config: Config) -> None:
    section = config.loss
    start = section.beta_end if section.beta_start is None else section.beta_start
    lowest = min(start, section.beta_end)
    if lowest < 0 and not section.allow_negative:
        raise ConfigError(
            f"config.loss.beta_end and config.loss.beta_start must be 0 or more, got {lowest}. "
            "Negative ones are for samplers that overshoot: --config.loss.allow_negative=True."
        )
    if section.beta_variant == "true_objective" and config.train.batch_size % 2:
        raise ConfigError(
            "config.train.batch_size must be even for config.loss.beta_variant=true_objective, "
            f"which halves it, got {config.train.batch_size}."
        )


def _check_improved(config: Config) -> None:
    if config.loss.name != "improved":
        return
    if tuple(config.sampler.names) != ("sgld",):
        raise ConfigError(
            "config.loss.name='improved' differentiates the last steps of Langevin chains: "
            f"config.sampler.names must be ('sgld',), got {config.sampler.names}."
        )
    if config.sampler.max_score is not None:
        raise ConfigError(
            "config.loss.name='improved' differentiates whole scores: set "
            "--config.sampler.max_score=None."
        )
    if config.sampler.box == "reflect":
        raise ConfigError(
            "config.loss.name='improved' ends its differentiated steps in the box by projection, "
            "and config.sampler.box='reflect' moves the chains before them between mirrors: set "
            "--config.sampler.box=clamp, or none."
        )
    if not config.sampler.buffer.is_used:
        raise ConfigError(
            "config.loss.name='improved' estimates an entropy over the buffer: "
            "config.sampler.buffer.is_used must be True."
        )
    if config.mesh.whole_batch and config.loss.num_references % config.mesh.num_shards:
        raise ConfigError(
            f"config.loss.num_references must be a multiple of config.mesh.num_shards="
            f"{config.mesh.num_shards}, which share them; got {config.loss.num_references}."
        )
    if config.loss.live_steps >= config.sampler.num_steps:
        raise ConfigError(
            f"config.loss.live_steps must be below config.sampler.num_steps="
            f"{config.sampler.num_steps}, of which they are the last; got {config.loss.live_steps}."
        )


def _check_adaptation(section: Config) -> None:
    able = sorted(name for name, entry in SINGLE.items() if entry.adaptable)
    if section.target_acceptance is not None and not set(section.names) & set(able):
        raise ConfigError(
            f"config.sampler.target_acceptance={section.target_acceptance:g} adapts the steps of "
            f"{able}, and config.sampler.names={tuple(section.names)} has none of "
            "them: set --config.sampler.target_acceptance=None, or name one."
        )
    if section.min_step_size and section.target_acceptance is None:
        raise ConfigError(
            f"config.sampler.min_step_size={section.min_step_size:g} is the least step that "
            "adaptation may choose, and nothing adapts: set "
            "--config.sampler.target_acceptance=0.57, or --config.sampler.min_step_size=0.0."
        )


def _check_eval(config: Config) -> None:
    section = config.eval
    if section.num_generated == 0:
        raise ConfigError(
            "config.eval.num_generated must be at least 2: the evaluation of an image energy is of "
            "its samples; got 0."
        )
    if section.num_chain_steps is not None and section.num_chain_steps < MIN_CHAIN_STEPS:
        raise ConfigError(
            f"config.eval.num_chain_steps must be at least {MIN_CHAIN_STEPS}, whose second half "
            f"says how chains mix, got {section.num_chain_steps}."
        )
