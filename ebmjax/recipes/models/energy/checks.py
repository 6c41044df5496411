"""Refuses fields of a density's configuration, with labels or without, that exclude each other."""

from collections.abc import Mapping
from typing import Any

from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.families import (
    POINTS,
    check_kept,
)
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

RUNNING_CHAINS = ("running", "running_chains")
"""Policies whose chains are normalised by running statistics, each on its own."""


def refuse(sentences: Mapping[str, Any]) -> None:
    """Raises ConfigError with the first sentence whose condition holds."""
    for sentence, is_wrong in sentences.items():
        if is_wrong:
            raise ConfigError(sentence)


def check(config: Config) -> None:
    """Raises ConfigError at the first pair of fields that do not go together."""
    has_density, section = learns_density(config), config.sampler
    samplers = find_samplers(config)
    check_samplers(section, [*samplers.values()])
    moving = [name for name, chosen in samplers.items() if chosen.entry.interacts]
    has_points = config.family == "energy" and config.data.name in POINTS
    start, of_others = section.buffer.start, "informative" if has_points else "data"
    refined = config.get("evals.robustness.refine_steps")
    pairs = {
        f"config.sampler.buffer.start={start} does not go with config.data.name={config.data.name}:"
        " informative is for images, data for points.": start == of_others,
        "config.data.name=points needs config.data.path, an .npy file of points (N, d).": (
            config.data.name == "points" and has_points and not config.data.path
        ),
        "config.evals.robustness.refine_steps needs chains that move each on its own, and "
        f"config.sampler.name={moving} moves particles: set it to 0.": refined and moving,
    }
    refuse(pairs)
    if has_density:
        check_objective(config)
        _check_chains(config, [*samplers], moving)
        if not config.model.factory and config.model.get("norm") == "batch":
            for chosen in samplers.values():
                check_independence(config, chosen)
    check_images(config)


def _check_chains(config: Config, names: list[str], moving: list[str]) -> None:
    section, num_shards, loss = config.sampler, config.mesh.num_shards, config.loss
    pairs = {
        "config.model.is_conditional=True needs chains that belong to a class, and the particles "
        f"of config.sampler.name={moving} move together: take another.": (
            config.model.is_conditional and moving
        ),
        f"config.sampler.names={tuple(names)} shares the negatives between chains of two densities:"
        f" name {', '.join(TILTING)} alone, or leave it out.": (
            len(names) > 1 and set(names) & set(TILTING)
        ),
    }
    for name in ("num_samples", "buffer.num_kept"):
        number, parts = config.get(f"sampler.{name}"), len(names) * num_shards
        sentence = (
            f"config.sampler.{name} must be a multiple of {parts}, for equal parts of samplers "
            f"{names} on config.mesh.num_shards={num_shards} shards; got {number}."
        )
        pairs[sentence] = (number or 0) % parts
    if loss.name == "improved":
        is_plain = (
            names == ["sgld"] and section.get("max_score") is None and section.box != "reflect"
        )
        pairs |= {
            "config.loss.name=improved differentiates the last steps of SGLD and compares them with"
            " the buffer: it needs --config.sampler.name=sgld, max_score=None, a box other than "
            "reflect, and a number for buffer.size.": not is_plain or section.buffer.size is None,
            f"config.loss.num_references={loss.num_references} must be a multiple of "
            f"config.mesh.num_shards={num_shards}, and config.loss.live_steps={loss.live_steps} "
            f"below config.sampler.num_steps={section.num_steps}.": (
                loss.num_references % num_shards or loss.live_steps >= section.num_steps
            ),
        }
    refuse(pairs)


def check_images(config: Config, about_images: str = "") -> None:
    """Raises ConfigError for fields that do not go with the number of classes.

    Args:
      config: of the family. Without a number of classes the data decide, and this comes again.
      about_images: what was read, and what was not.
    """
    is_joint, size = config.family == "joint", config.sampler.buffer.size
    has_none, has_density = config.data.num_classes == 0, learns_density(config)
    pairs = {
        "config.family=joint trains a classifier, and the images have no labels"
        f"{about_images and f' ({about_images})'}: add them, or take a configuration that needs "
        "none, such as configs/image.py or configs/latent.py.": has_none and is_joint,
        "config.model.is_conditional=True is an energy E(x, y) of images with labels, and there "
        "are none: set it to False.": has_none and config.model.is_conditional,
    }
    if has_density and size is not None:
        num_shards, blocks = config.mesh.num_shards, count_blocks(config)
        least, parts = config.sampler.num_samples, num_shards * blocks
        if config.loss.name == "improved":
            least += config.loss.num_references
        least *= blocks if config.model.is_conditional else 1
        pairs |= {
            f"config.sampler.buffer.size must be a multiple of {parts}, for equal parts of "
            f"config.mesh.num_shards={num_shards} and {blocks} classes; got {size}.": size % parts,
            f"config.sampler.buffer.size must be at least {least}, because no slot is drawn twice "
            f"in a step and all chains may be of one class; got {size}.": size < least,
        }
    refuse(pairs)
    check_kept(config)


def learns_density(config: Config) -> bool:
    """Returns whether the run learns p(x), and not a classifier alone."""
    return config.loss.get("generative_weight", 1.0) > 0


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


def warn_of_temperature(config: Config) -> tuple[str, ...]:
    """Returns a line for each sampler of points that aims at another density than the measured."""
    scale = config.loss.output_scale if config.loss.name == "beta" else 1.0
    found = {chosen.where: temperature(chosen) for chosen in find_samplers(config).values()}
    return tuple(
        f"warning: chains aim at temperature {scale * one:g} of the density, exp(-{scale:g} E), by "
        f"{where}.temperature={one:g}: set --{where}.temperature={1 / scale:g}"
        for where, one in found.items()
        if one is not None and abs(scale * one - 1.0) > 0.01
    )


def check_independence(config: Config, chosen: Chosen) -> None:
    """Refuses samplers that a network with batch statistics does not go with."""
    does = "moves particles that interact" if chosen.entry.interacts else "takes moves back"
    if (chosen.rejects or chosen.entry.interacts) and (
        config.model.get("norm_policy") not in RUNNING_CHAINS
    ):
        raise ConfigError(
            f"config.sampler.name={chosen.name!r} {does}, and chains that batch normalisation "
            f"(config.model.norm_policy={config.model.norm_policy!r}) makes depend on each other "
            "have no density of their own: take group normalisation, such as "
            "--config.model.norm=group, or --config.model.norm_policy=running."
        )
