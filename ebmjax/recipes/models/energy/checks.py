"""Refuses fields of a density's configuration, with labels or without, that exclude each other."""

from collections.abc import Mapping
from typing import Any

from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.families import (
    IS_HIGHER_BETTER,
    OF_SAMPLES,
    POINTS,
    check_kept,
    scores_of_samples,
)
from ebmjax.recipes.evaluators.table import NEVER
from ebmjax.recipes.parts.objectives import check_objective
from ebmjax.recipes.parts.samplers import (
    PLAIN,
    SAMPLERS,
    SINGLE,
    TILTING,
    Chosen,
    of_section,
    temperature,
)
from ebmjax.recipes.parts.samplers import check as check_samplers

MIN_CHAIN_STEPS = 8
"""Split R-hat takes four draws, and the first half of a chain is burn-in."""
RUNNING_CHAINS = ("running", "running_chains")
"""Policies whose chains are normalised by running statistics, each on its own."""


def check(config: Config) -> None:
    """Raises ConfigError at the first pair of fields that do not go together."""
    if config.family == "joint":
        _check_depth(config)
    else:
        _check_points(config)
        _check_chain_steps(config)
    has_energy, is_refined = learns_density(config), refines(config)
    samplers = find_samplers(config)
    if has_energy or is_refined:
        check_samplers(config.sampler, [*samplers.values()])
    if has_energy:
        check_objective(config)
        _check_shares(config, [*samplers])
        _check_improved(config, [*samplers])
        _check_interaction(config, samplers)
    if is_refined:
        _check_refinement(config, samplers)
    check_images(config)


def check_images(config: Config, about_images: str = "") -> None:
    """Raises ConfigError for fields that do not go with the number of classes.

    Args:
      config: of the family. Without a number of classes the data decide, and this comes again.
      about_images: what was read, and what was not.
    """
    is_joint, section = config.family == "joint", config.sampler
    if config.data.num_classes == 0:
        _refuse_unlabelled(config, about_images)
    has_samples = section.buffer.size if is_joint else config.data.name not in POINTS
    if learns_density(config):
        _check_buffer(config)
    else:
        has_samples = False
    numbers = set(IS_HIGHER_BETTER) - OF_SAMPLES if is_joint else set()
    check_kept(config, numbers | (scores_of_samples(config) if has_samples else set()))


def learns_density(config: Config) -> bool:
    """Returns whether the run learns p(x), and not a classifier alone."""
    return config.loss.get("generative_weight", 1.0) > 0


def refines(config: Config) -> bool:
    """Returns whether attacked images are refined by chains."""
    if config.family != "joint" or config.get("evals.robustness.every", NEVER) == NEVER:
        return False
    return config.evals.robustness.get("refine_steps", 0) > 0


def find_samplers(config: Config) -> dict[str, Chosen]:
    """Returns the samplers that ``config.sampler`` names, by name.

    Those of images without labels move one chain at a time, because a chain may belong to a class.
    """
    offered: Mapping[str, Any] = SAMPLERS
    if config.family != "joint":
        offered = PLAIN if config.data.name in POINTS else SINGLE | TILTING
    field, names = "sampler.name", (config.sampler.get("name"),)
    if config.sampler.get("names"):
        field, names = "sampler.names", config.sampler.names
    if len(set(names)) < len(names):
        raise ConfigError(f"config.sampler.names must be different samplers, got {[*names]}.")
    return {name: of_section(config, field, name, offered) for name in names}


def count_blocks(config: Config) -> int:
    """Returns the number of blocks, one a class, that the replay buffer is divided into.

    Without a number of classes it is 1: the data decide, and what uses it comes again.
    """
    has_starts = config.family == "joint" and config.sampler.buffer.start == "informative"
    has_blocks = config.model.is_conditional or has_starts
    return (config.data.num_classes or 1) if has_blocks else 1


def output_scale(config: Config) -> float:
    """Returns the factor of the robust objective on the log density; 1 for others."""
    return config.loss.output_scale if config.loss.name == "beta" else 1.0


def warn_of_temperature(config: Config) -> tuple[str, ...]:
    """Returns a line for each sampler of points that aims at another density than the measured."""
    scale, lines = output_scale(config), []
    for chosen in find_samplers(config).values():
        found = temperature(chosen)
        if found is None or abs(scale * found - 1.0) <= 0.01:
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


def _check_depth(config: Config) -> None:
    if not config.model.factory and ((config.model.depth - 4) % 6 or config.model.depth < 10):
        raise ConfigError(
            "config.model.depth must be 6n + 4 with n at least 1 (10, 16, 22, 28, ...), got "
            f"{config.model.depth}."
        )


def _refuse_unlabelled(config: Config, about_images: str) -> None:
    if config.family == "joint":
        raise ConfigError(
            "config.family=joint trains a classifier, and the images have no labels"
            f"{about_images and f' ({about_images})'}: add them, or take a configuration that "
            "needs none, such as configs/image.py or configs/latent.py."
        )
    if config.model.is_conditional:
        raise ConfigError(
            "config.model.is_conditional=True is an energy E(x, y) of images with labels, and "
            "config.data.num_classes is 0: read images with labels, or set "
            "--config.model.is_conditional=False for an energy of images alone."
        )


def _check_points(config: Config) -> None:
    has, others = ("points", "data") if config.data.name in POINTS else ("images", "informative")
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
        if not config.data.get("path"):
            raise ConfigError(
                "config.data.name=points needs config.data.path, an .npy file of points (N, d): "
                "set --config.data.path=FILE."
            )
        if config.data.holdout == 0:
            raise ConfigError(
                "config.data.holdout must be above 0 for config.data.name=points, which have no "
                f"test split, got {config.data.holdout}: None holds out a fifth."
            )


def _check_chain_steps(config: Config) -> None:
    if (num_steps := config.get("evals.num_chain_steps") or MIN_CHAIN_STEPS) < MIN_CHAIN_STEPS:
        raise ConfigError(
            f"config.evals.num_chain_steps must be at least {MIN_CHAIN_STEPS}, whose second half "
            f"says how chains mix, got {num_steps}."
        )


def _check_shares(config: Config, names: list[str]) -> None:
    if len(names) > 1 and set(names) & set(TILTING):
        raise ConfigError(
            f"config.sampler.names={tuple(names)} shares the negatives between chains of two "
            f"densities: {', '.join(TILTING)} multiplies the network's by Gaussians of the images, "
            "and the others do not. Name it alone, or leave it out."
        )
    num_parts = len(names) * config.mesh.num_shards
    for name in ("num_samples", "buffer.num_kept"):
        number = config.get(f"sampler.{name}")
        if number is not None and number % num_parts:
            raise ConfigError(
                f"config.sampler.{name} must be a multiple of {num_parts}, so that samplers "
                f"{names} on config.mesh.num_shards={config.mesh.num_shards} shards have equal "
                f"parts; got {number}."
            )


def _check_buffer(config: Config) -> None:
    """Refuses a replay buffer without equal blocks, or with too few slots for a step's draws."""
    section, num_shards = config.sampler, config.mesh.num_shards
    if section.buffer.size is None:
        if config.get("sampler.augmentation.name", "none") != "none":
            raise ConfigError(
                f"config.sampler.augmentation.name={section.augmentation.name!r} moves starts that "
                "come from the buffer, and config.sampler.buffer.size=None: set it to none."
            )
        return
    drawn = section.num_samples // num_shards
    if config.loss.name == "improved":
        drawn += references_a_shard(config)
    blocks = count_blocks(config)
    num_drawn = drawn * num_shards * (blocks if config.model.is_conditional else 1)
    size, parts = section.buffer.size, num_shards * blocks
    if size % parts:
        classes = f", with equal blocks for {blocks} classes" * (blocks > 1)
        raise ConfigError(
            f"config.sampler.buffer.size must be a multiple of {parts}: "
            f"config.mesh.num_shards={num_shards} shards have equal parts{classes}; got {size}."
        )
    if size < num_drawn:
        one_class = ", and all chains may be of one class" * (blocks > 1)
        raise ConfigError(
            f"config.sampler.buffer.size must be at least {num_drawn}: no slot is drawn twice in a "
            f"step{one_class}; got {size}."
        )


def references_a_shard(config: Config) -> int:
    """Buffered images of a shard that the entropy's neighbours are sought among."""
    return config.loss.num_references // config.mesh.num_shards


def _check_improved(config: Config, names: list[str]) -> None:
    if config.loss.name != "improved":
        return
    section, mesh, live = config.sampler, config.mesh, config.loss.live_steps
    refused = {
        "differentiates the last steps of Langevin chains: config.sampler.name must be sgld, got "
        f"{names}": names != ["sgld"],
        "differentiates whole scores: set --config.sampler.max_score=None": (
            section.get("max_score") is not None
        ),
        "ends its differentiated steps in the box by clamping, and config.sampler.box='reflect' "
        "moves the chains before them between mirrors: set --config.sampler.box=clamp, or none": (
            section.box == "reflect"
        ),
        "estimates an entropy over the buffer: config.sampler.buffer.size must be a number, got "
        "None": section.buffer.size is None,
        f"shares its references: config.loss.num_references={config.loss.num_references} must be "
        f"a multiple of config.mesh.num_shards={mesh.num_shards}": (
            config.loss.num_references % mesh.num_shards
        ),
        f"differentiates the last config.loss.live_steps={live} steps, which must be below "
        f"config.sampler.num_steps={section.num_steps}": live >= section.num_steps,
    }
    for why, is_refused in refused.items():
        if is_refused:
            raise ConfigError(f"config.loss.name='improved' {why}.")


def _check_interaction(config: Config, samplers: Mapping[str, Chosen]) -> None:
    """Refuses samplers that a network whose chains depend on each other does not go with."""
    for name, chosen in samplers.items():
        if config.model.is_conditional and chosen.entry.interacts:
            able = sorted(name for name, entry in SAMPLERS.items() if not entry.interacts)
            raise ConfigError(
                "config.model.is_conditional=True needs chains that belong to a class; the "
                f"particles of config.sampler.name={name!r} move together. Take one of {able}."
            )
        if not config.model.factory and config.model.get("norm") == "batch":
            check_independence(config, chosen)


def check_independence(config: Config, chosen: Chosen) -> None:
    """Refuses samplers that a network with batch statistics does not go with."""
    if config.model.get("norm_policy") in RUNNING_CHAINS:
        return
    if chosen.rejects or chosen.entry.interacts:
        does = "takes moves back chain by chain"
        if chosen.entry.interacts:
            does = "moves particles that interact"
        batch_norm, instead = "config.model.norm='batch'", "set --config.model.norm=group"
        if config.model.factory:
            batch_norm, instead = "your own network", "take group normalisation"
        raise ConfigError(
            f"config.sampler.name={chosen.name!r} {does}, and chains normalised by their batch, "
            f"as by {batch_norm} and norm_policy={config.model.norm_policy!r}, depend on "
            f"each other in a way it does not know: {instead}, or "
            "--config.model.norm_policy=running."
        )


def _check_refinement(config: Config, samplers: Mapping[str, Chosen]) -> None:
    section = config.evals.robustness
    if any(chosen.entry.interacts for chosen in samplers.values()):
        raise ConfigError(
            f"config.evals.robustness.refine_steps={section.refine_steps} needs a run whose chains "
            "move each on its own, because every image must be classified on its own. Set it to 0."
        )
