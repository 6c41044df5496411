"""Refuses fields of a density's configuration, with labels or without, that exclude each other."""

import shlex
from collections.abc import Collection, Mapping
from typing import Any

from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.families import POINTS
from ebmjax.recipes.parts import samplers
from ebmjax.recipes.parts.objectives import draws


def check(config: Config, about_images: str = "") -> None:
    """Raises ConfigError at the first pair of fields that do not go together.

    Args:
      config: of the family. Without a number of classes the data decide, and this comes again.
      about_images: what was read, and what was not.
    """
    section, is_joint = config.sampler, config.family == "joint"
    has_density, (why, needed) = config.loss.get("generative_weight", 1.0) > 0, what_fits(config)
    if has_density and needed:
        flags = shlex.join(f"--config.{name}={value}" for name, value in needed.items())
        raise ConfigError(f"{why}: set {flags}.")
    found = find_samplers(config)
    samplers.check(section, [*found.values()])
    moving = [name for name, chosen in found.items() if chosen.entry.interacts]
    has_none, has_points = config.data.num_classes == 0, not is_joint and config.data.name in POINTS
    start, of_others = section.buffer.start, "informative" if has_points else "data"
    pairs = {
        f"config.sampler.buffer.start={start} does not go with config.data.name={config.data.name}:"
        " informative is for images, data for points.": start == of_others,
        "config.data.name=points needs config.data.path, an .npy file of points (N, d).": (
            config.data.name == "points" and has_points and not config.data.path
        ),
        "config.evals.robustness.refine_steps needs chains that move each on its own, and "
        f"config.sampler.name={moving} moves particles: set it to 0.": (
            config.get("evals.robustness.refine_steps") and moving
        ),
        "config.family=joint trains a classifier, and the images have no labels"
        f"{about_images and f' ({about_images})'}: add them, or take a configuration that needs "
        "none, such as configs/image.py or configs/latent.py.": has_none and is_joint,
        "config.model.is_conditional=True is an energy E(x, y) of images with labels, and there "
        "are none: set it to False.": has_none and config.model.is_conditional,
    }
    if has_density:
        pairs |= _pair_chains(config, [*found], moving)
    for sentence, is_wrong in pairs.items():
        if is_wrong:
            raise ConfigError(sentence)
    if has_density and not config.model.factory and config.model.get("norm") == "batch":
        check_independence(config)


def what_fits(config: Config, typed: Collection[str] = ()) -> tuple[str, dict[str, Any]]:
    """Returns why the named parts do not fit, and the fields that mend it; none where they fit.

    Where both are ``typed``, chains of an objective without chains get its temperature, 1.
    """
    section, loss = config.sampler, config.loss.name
    name = (section.get("names") or [section.get("name")])[0]
    is_tilted, fields = name in samplers.TILTING, {}
    why = f"config.sampler.name={name} does not fit config.loss.name={loss}"
    if name == "pyld" and config.model.factory.startswith("ebmjax."):
        return "config.sampler.name=pyld needs a network with a first layer", {"model.factory": ""}
    if loss == "improved":
        fields = {"name": "sgld", "names": (), "max_score": None}
        fields |= {"buffer.size": section.buffer.size or 1000}
        fields |= {"box": "none"} if section.box == "reflect" or is_tilted else {}
    elif is_tilted and draws(loss):
        why, fields = f"config.sampler.name={name} has no walls", {"box": "none"}
    elif not draws(loss) and (is_tilted or {"loss.name", "sampler.name"} <= {*typed}):
        name = "mala" if is_tilted else name
        if is_tilted or {"temperature", "step_size"} <= {*section.get(name, {})}:
            new = {"noise_scale": None, "temperature": 1.0, "step_size": 1e-4}
            new = {f"{name}.{key}": value for key, value in new.items()}
            fields = {"name": name, "names": (), **new}
    named = {f"sampler.{key}": value for key, value in fields.items()}
    return why, {k: v for k, v in named.items() if (config.get(k) or None) != (v or None)}


def _pair_chains(config: Config, names: list[str], moving: list[str]) -> dict[str, Any]:
    """Returns sentences about chains, and whether they hold."""
    section, num_shards, loss = config.sampler, config.mesh.num_shards, config.loss
    size, blocks = section.buffer.size, count_blocks(config)
    is_conditional, least = config.model.is_conditional, section.num_samples
    batch = "positive_batch_size" if "positive_batch_size" in config.train else "batch_size"
    pairs = {
        f"config.train.{batch} must be even for config.loss.beta_variant=true_objective, which "
        f"halves it, got {config.train[batch]}.": (
            loss.get("beta_variant") == "true_objective" and config.train[batch] % 2
        ),
        "config.model.is_conditional=True needs chains that belong to a class, and the particles "
        f"of config.sampler.name={moving} move together: take another.": is_conditional and moving,
        f"config.sampler.names={tuple(names)} shares the negatives between chains of two densities:"
        f" name {', '.join(samplers.TILTING)} alone, or leave it out.": (
            len(names) > 1 and set(names) & set(samplers.TILTING)
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
        least += loss.num_references
        pairs |= {
            f"config.loss.num_references={loss.num_references} must be a multiple of "
            f"config.mesh.num_shards={num_shards}, and config.loss.live_steps={loss.live_steps} "
            f"below config.sampler.num_steps={section.num_steps}.": (
                loss.num_references % num_shards or loss.live_steps >= section.num_steps
            ),
        }
    least *= blocks if is_conditional else 1
    if size is not None:
        parts = num_shards * blocks
        pairs |= {
            f"config.sampler.buffer.size must be a multiple of {parts}, for equal parts of "
            f"config.mesh.num_shards={num_shards} and {blocks} classes, and at least {least}, for "
            f"no slot is drawn twice in a step; got {size}.": size % parts or size < least,
        }
    return pairs


def find_samplers(config: Config) -> dict[str, samplers.Chosen]:
    """Returns the samplers that ``config.sampler`` names, by name.

    Those of images without labels move one chain at a time, because a chain may belong to a class.
    """
    offered: Mapping[str, Any] = samplers.SAMPLERS
    if config.family == "energy":
        has_points = config.data.name in POINTS
        offered = samplers.PLAIN if has_points else samplers.SINGLE | samplers.TILTING
    field, names = "sampler.names", config.sampler.get("names")
    if not names:
        field, names = "sampler.name", (config.sampler.get("name"),)
    if len(set(names)) < len(names):
        raise ConfigError(f"config.sampler.names must be different samplers, got {[*names]}.")
    return {name: samplers.of_section(config, field, name, offered) for name in names}


def count_blocks(config: Config) -> int:
    """Returns the number of blocks, one a class, that the replay buffer is divided into.

    Without a number of classes it is 1: the data decide, and what uses it comes again.
    """
    has_starts = config.family == "joint" and config.sampler.buffer.start == "informative"
    is_tilted = config.sampler.get("name") in samplers.TILTING  # starts in the classes' shares
    has_blocks = config.model.is_conditional or (has_starts and not is_tilted)
    return (config.data.num_classes or 1) if has_blocks else 1


def check_independence(config: Config) -> None:
    """Refuses samplers that a network with batch statistics does not go with."""
    if config.model.get("norm_policy") in ("running", "running_chains"):
        return
    for chosen in find_samplers(config).values():
        if chosen.entry.rejects or chosen.entry.interacts:
            does = "moves particles that interact" if chosen.entry.interacts else "takes moves back"
            raise ConfigError(
                f"config.sampler.name={chosen.name!r} {does}, and chains that batch normalisation "
                f"(config.model.norm_policy={config.model.norm_policy!r}) makes depend on each "
                "other have no density of their own: take group normalisation, such as "
                "--config.model.norm=group, or --config.model.norm_policy=running."
            )
