"""Refuses fields of an image energy's configuration that exclude each other."""

from ebmjax.recipes.config import checks
from ebmjax.recipes.config.checks import is_points
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.extractor_names import scores_of_samples
from ebmjax.recipes.evaluators import comparison
from ebmjax.recipes.models.energy.fields import name_samplers
from ebmjax.recipes.parts.objectives.table import check_objective
from ebmjax.recipes.parts.samplers import (
    PLAIN,
    SINGLE,
    TILTING,
    Chosen,
    check_particles,
    of_section,
    temperature,
)
from ebmjax.recipes.parts.samplers import check as check_samplers
from ebmjax.recipes.parts.samplers.chosen import TOLERANCE

MIN_CHAIN_STEPS = 8
"""Split R-hat takes four draws, and the first half of a chain is burn-in."""


def check(config: Config) -> None:
    """Raises ConfigError at the first pair of fields that do not go together."""
    _check_points(config)
    checks.check_kept(config, set() if is_points(config) else scores_of_samples(config))
    _check_classes(config)
    _check_shares(config)
    _check_buffer(config)
    _check_improved(config)
    check_objective(config)
    if (num_steps := config.evals.num_chain_steps or MIN_CHAIN_STEPS) < MIN_CHAIN_STEPS:
        raise ConfigError(
            f"config.evals.num_chain_steps must be at least {MIN_CHAIN_STEPS}, whose second half "
            f"says how chains mix, got {num_steps}."
        )
    samplers = find_samplers(config)
    checks.check_box(config)
    check_samplers(config.sampler, list(samplers.values()))
    check_particles(samplers.values(), config.sampler.num_samples // len(samplers))
    checks.check_starts(config, [name for name, one in samplers.items() if one.rejects])


def find_samplers(config: Config) -> dict[str, Chosen]:
    """Returns the samplers that ``config.sampler`` names, by name.

    Those of images move one chain at a time, because a chain may belong to a class. All have a
    step, which adapts and which the monitor uses to weigh a move.
    """
    offered = PLAIN if is_points(config) else SINGLE | TILTING
    field = "sampler.names" if config.sampler.names else "sampler.name"
    return {name: of_section(config, field, name, offered) for name in name_samplers(config)}


def output_scale(config: Config) -> float:
    """Returns the factor of the robust objective on the log density; 1 for others."""
    return config.loss.output_scale if config.loss.name == "beta" else 1.0


def warn_of_temperature(config: Config) -> tuple[str, ...]:
    """Returns a line for each sampler of points that aims at another density than the measured."""
    scale, lines = output_scale(config), []
    for chosen in find_samplers(config).values() if is_points(config) else ():
        found = temperature(chosen)
        if found is None or abs(scale * found - 1.0) <= TOLERANCE:
            continue
        step = chosen.options.get("step_size", 0.0) * found * scale
        lines.append(
            f"warning: chains aim at temperature {scale * found:g} of the density, exp(-{scale:g} "
            f"E) under config.loss.name={config.loss.name}: {chosen.where}.temperature={found:g} "
            f"is for another objective. Set --{chosen.where}.temperature={1 / scale:g}"
            + f" --{chosen.where}.step_size={step:g}, the same steps"
            * (step > 1e-12)
        )
    return tuple(lines)


def _check_points(config: Config) -> None:
    has, others = ("points", "data") if is_points(config) else ("images", "informative")
    of_others = {"data": "points", "informative": "Gaussians of images"}
    start = config.sampler.buffer.start
    if start in of_others and start != others:
        raise ConfigError(
            f"config.sampler.buffer.start={start!r} starts chains at {of_others[start]}, and "
            f"config.data.name={config.data.name!r} has {has}: take {others}, uniform or gaussian."
        )
    if has == "images":
        return
    if config.data.name == "points":
        if not config.data.path:
            raise ConfigError(
                "config.data.name=points needs config.data.path, an .npy file of points (N, d): "
                "set --config.data.path=FILE."
            )
        if config.data.holdout == 0:
            raise ConfigError(
                "config.data.holdout must be above 0 for config.data.name=points, which have no "
                f"test split, got {config.data.holdout}: None holds out a fifth."
            )
    comparison.check_fields(config)


def _check_classes(config: Config) -> None:
    if config.model.is_conditional and config.data.num_classes == 0:
        raise ConfigError(
            "config.model.is_conditional=True is an energy E(x, y) of images with labels, and "
            "config.data.num_classes is 0: read images with labels, or set "
            "--config.model.is_conditional=False for an energy of images alone."
        )


def _check_shares(config: Config) -> None:
    names, num_shards = name_samplers(config), config.mesh.num_shards
    if len(set(names)) < len(names):
        raise ConfigError(f"config.sampler.names must be different samplers, got {names}.")
    if len(names) > 1 and set(names) & set(TILTING):
        raise ConfigError(
            f"config.sampler.names={tuple(names)} shares the negatives between chains of two "
            f"densities: {', '.join(TILTING)} multiplies the network's by Gaussians of the images, "
            "and the others do not. Name it alone, or leave it out."
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
    if size is None:
        if section.augmentation.name != "none":
            raise ConfigError(
                f"config.sampler.augmentation.name={section.augmentation.name!r} moves starts that "
                "come from the buffer, and config.sampler.buffer.size=None: set it to none."
            )
        return
    drawn = section.num_samples // num_shards
    if config.loss.name == "improved":
        drawn += references_a_shard(config)
    # Without a number of classes, the data decide, and this check comes again.
    num_classes = (config.data.num_classes or 1) if config.model.is_conditional else 1
    checks.check_buffer(config, num_classes, num_drawn=drawn * num_shards * num_classes)


def references_a_shard(config: Config) -> int:
    """Buffered images of a shard that the entropy's neighbours are sought among."""
    return config.loss.num_references // config.mesh.num_shards


def _check_improved(config: Config) -> None:
    if config.loss.name != "improved":
        return
    if name_samplers(config) != ("sgld",):
        raise ConfigError(
            "config.loss.name='improved' differentiates the last steps of Langevin chains: "
            f"config.sampler.name must be sgld, got {name_samplers(config)}."
        )
    if config.sampler.max_score is not None:
        raise ConfigError(
            "config.loss.name='improved' differentiates whole scores: set "
            "--config.sampler.max_score=None."
        )
    if config.sampler.box == "reflect":
        raise ConfigError(
            "config.loss.name='improved' ends its differentiated steps in the box by clamping, "
            "and config.sampler.box='reflect' moves the chains before them between mirrors: set "
            "--config.sampler.box=clamp, or none."
        )
    if config.sampler.buffer.size is None:
        raise ConfigError(
            "config.loss.name='improved' estimates an entropy over the buffer: "
            "config.sampler.buffer.size must be a number, got None."
        )
    if config.loss.num_references % config.mesh.num_shards:
        raise ConfigError(
            f"config.loss.num_references must be a multiple of config.mesh.num_shards="
            f"{config.mesh.num_shards}, which share them; got {config.loss.num_references}."
        )
    if config.loss.live_steps >= config.sampler.num_steps:
        raise ConfigError(
            f"config.loss.live_steps must be below config.sampler.num_steps="
            f"{config.sampler.num_steps}, of which they are the last; got {config.loss.live_steps}."
        )
