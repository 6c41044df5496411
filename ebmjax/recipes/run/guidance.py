"""Refuses a guide, a class or a weight that samples of a run cannot have. Imports no JAX."""

import math

from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.points import is_points
from ebmjax.recipes.parts.samplers.table import FIRST_LAYER, SAMPLERS


def check_guidance(
    config: Config, guide: Config | None, label: int | None, weight: float | None
) -> None:
    """Raises ConfigError for a mistake that the configurations of both runs show.

    Args:
      config: of the run whose chains are guided.
      guide: of the run that guides them; None for the run itself.
      label: class of the guide's classifier; None for its density.
      weight: of the guide; None for the default.
    """
    if guide is None and label is None:
        if weight is not None:
            raise ConfigError("--guide_weight needs --guide=RUN, --class=NUMBER, or both.")
        return
    if weight is not None and not math.isfinite(weight):
        raise ConfigError(f"--guide_weight must be finite, got {weight}.")
    _check_moved(config)
    if guide is None:
        if num_classes(config) == 0:
            raise ConfigError(
                f"--class={label} needs a classifier, and this run is {_kind(config)}. Name a run "
                "that is one: --guide=RUN."
            )
        guide = config
    _check_guide(config, guide, label)
    known = num_classes(guide)
    if label is not None and known is not None and not 0 <= label < known:
        raise ConfigError(f"--class (label=) must be from 0 to {known - 1}, got {label}.")


def num_classes(config: Config) -> int | None:
    """Returns the number of classes that a run tells apart, 0 for none; None if its images say."""
    if config.family == "joint" or (config.family == "energy" and config.model.is_conditional):
        return config.data.num_classes
    return 0


def has_no_density(config: Config) -> bool:
    """Returns whether a run is a classifier alone."""
    return config.family == "joint" and not config.loss.generative_weight


def _check_moved(config: Config) -> None:
    if config.family not in ("energy", "joint"):
        raise ConfigError(
            "--guide and --class need a run whose chains move images or points, of the family "
            f"energy or joint; this run's family is {config.family}."
        )
    if has_no_density(config):
        raise ConfigError(
            "config.loss.generative_weight=0 trained a classifier alone, which has no chains to "
            "guide: name it with --guide, and a run that has chains with --workdir."
        )
    names = config.sampler.names if config.family == "energy" else [config.sampler.name]
    if any(name in SAMPLERS and SAMPLERS[name].needs == FIRST_LAYER for name in names):
        raise ConfigError(
            f"--guide and --class need chains that move by a whole density; those of "
            f"config.sampler.name={names[0]!r} move by the first layer of one network."
        )


def _check_guide(config: Config, guide: Config, label: int | None) -> None:
    if guide.family not in ("energy", "joint"):
        raise ConfigError(
            f"--guide must be a run of the family energy or joint, got {guide.family}: it has no "
            "log density of an image that chains could follow."
        )
    if is_points(guide) != is_points(config):
        kinds = ["points" if is_points(one) else "images" for one in (config, guide)]
        raise ConfigError(
            f"--guide must be a run on the same kind of data, {kinds[0]}, got one on {kinds[1]}."
        )
    sizes = [one.data.image_size for one in (config, guide)]
    if not is_points(config) and None not in sizes and sizes[0] != sizes[1]:
        raise ConfigError(
            f"--guide must be a run on images of side {sizes[0]}, as this run's, got {sizes[1]}."
        )
    if label is None and has_no_density(guide):
        raise ConfigError(
            "--guide is a classifier alone (config.loss.generative_weight=0), which has no "
            "density: name one of its classes, --class=NUMBER."
        )
    if label is not None and num_classes(guide) == 0:
        raise ConfigError(
            f"--class={label} needs a classifier, and the guide is {_kind(guide)}. Leave --class "
            "out to multiply both densities, or name a joint model."
        )


def _kind(config: Config) -> str:
    return "an energy without classes" if config.family == "energy" else "a latent EBM"
