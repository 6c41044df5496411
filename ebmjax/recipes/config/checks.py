"""Checks of fields that exclude each other, shared by families."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ebmjax.recipes.config.declare import When, when_is
from ebmjax.recipes.config.errors import Config, ConfigError, pick, shorten

IS_HIGHER_BETTER = {
    "test_accuracy": True,
    "test_nll": False,
    "test_brier": False,
    "test_ece": False,
    "sample_fid": False,
    "sample_kid": False,
    "sample_is": True,
}
"""Numbers by which the best state of a run can be chosen."""
TILTED = "tilted_langevin"

POINTS = ("gmm", "circles", "gaussians", "points")
"""Sources of points, in place of images; the last reads the user's file, the others have a law."""


def is_points(config: Mapping[str, Any]) -> bool:
    """Returns whether a run learns from points, and not from images."""
    return config["family"] == "energy" and config["data"]["name"] in POINTS


OF_POINTS = when_is("data.name", *POINTS)
ON_IMAGES = When(
    f"images, config.data.name other than {', '.join(POINTS)}",
    lambda c: c.get("data.name") not in POINTS,
)


def is_drawn(config: Config) -> bool:
    """Returns whether a run's points are drawn anew from a law that is known."""
    return config.data.name in POINTS[:-1]


def check_data(config: Config) -> None:
    """Raises ConfigError for a path that no source would read."""
    if config.data.get("path") and config.data.name in ("digits", *POINTS[:-1]):
        raise ConfigError(
            f"config.data.path={shorten(config.data.path)} is read by no source: config.data.name="
            f"{config.data.name} needs none. Set --config.data.name to npz, npy, points, folder, "
            "huggingface or a tensorflow-datasets name."
        )


def check_shards(config: Config, *names: str) -> None:
    """Raises ConfigError unless the shards have equal parts of the numbers ``names``."""
    num_shards = config.mesh.num_shards
    for name in names:
        if config[name] is not None and config[name] % num_shards:
            raise ConfigError(
                f"config.{name} must be a multiple of config.mesh.num_shards={num_shards}, got "
                f"{config[name]}. Change it, or set --config.mesh.num_shards=1."
            )


def check_buffer(config: Config, num_classes: int, *, num_drawn: int) -> None:
    """Raises ConfigError unless the replay buffer has equal blocks, and enough slots.

    Args:
      config: has a ``sampler.buffer.size``.
      num_classes: classes that each shard's part is divided into.
      num_drawn: slots needed for a step's draws, which are different: those of all shards and
        classes, where all may be of one class.
    """
    size, num_shards = config.sampler.buffer.size, config.mesh.num_shards
    if size % (num_shards * num_classes):
        classes = f", with equal blocks for {num_classes} classes" if num_classes > 1 else ""
        raise ConfigError(
            f"config.sampler.buffer.size must be a multiple of {num_shards * num_classes}: "
            f"config.mesh.num_shards={num_shards} shards have equal parts{classes}; got {size}."
        )
    if size < num_drawn:
        one_class = ", and all chains may be of one class" if num_classes > 1 else ""
        raise ConfigError(
            f"config.sampler.buffer.size must be at least {num_drawn}: no slot is drawn twice in a "
            f"step{one_class}; got {size}."
        )


def check_kept(config: Config, numbers: Collection[str]) -> None:
    """Raises ConfigError for an impossible choice, and for one that test images would make.

    Args:
      config: ``data.holdout``, ``train.keep_best`` and ``evals.checkpoint`` are read.
      numbers: those of ``IS_HIGHER_BETTER`` that the family may monitor.
    """
    name = config.train.keep_best
    if name in IS_HIGHER_BETTER and name not in numbers:
        raise ConfigError(
            f"config.train.keep_best={name!r} is not monitored by this run, which monitors "
            f"{sorted(numbers)}: take one of these, or --config.train.keep_best=''."
        )
    if name:
        pick("train.keep_best", name, {one: one for one in numbers})
        maker = "classification" if name.startswith("test_") else "samples"
        every = config.evals.get(maker, {"every": 1})["every"]
        if every != 1:
            raise ConfigError(
                f"config.train.keep_best={name!r} chooses at every evaluation of training, and "
                f"config.evals.{maker}.every={every!r} has no such number at some: set it to 1."
            )
    if name.startswith("test_") and not config.data.holdout:
        raise ConfigError(
            f"config.train.keep_best={name!r} chooses a state by the images that it is judged by: "
            "hold training images out for the choice with --config.data.holdout=0.2."
        )
    if config.evals.checkpoint == "best" and not name:
        raise ConfigError(
            "config.evals.checkpoint='best' needs config.train.keep_best, the number that says "
            f"which state is best: set --config.train.keep_best to one of {sorted(numbers)}."
        )


def check_box(config: Config) -> None:
    """Raises ConfigError for a box without an inside, or of chains that no wall can hold."""
    section = config.sampler
    if section.box != "none" and TILTED in (section.get("name"), *section.get("names", ())):
        raise ConfigError(
            f"config.sampler.box must be none for {TILTED}, whose Gaussian has no walls; got "
            f"{section.box!r}: set --config.sampler.box=none."
        )
    if section.box != "none" and section.low >= section.high:
        raise ConfigError(
            f"config.sampler.low must be below config.sampler.high={section.high:g}, got "
            f"{section.low:g}."
        )


def check_starts(config: Config, names: Iterable[str]) -> None:
    """Refuses starts outside of a box that rejects, for the samplers in ``names``.

    There the density is zero: no move of such a chain would ever be accepted, and nothing said.
    """
    names, section, buffer = sorted(names), config.sampler, config.sampler.buffer
    reach = buffer.start_scale if buffer.start == "uniform" else 1.0  # images are in [-1, 1]
    is_inside = section.low <= -reach and reach <= section.high
    if section.box != "reject" or not names:
        return
    if buffer.start in ("gaussian", "data") or not is_inside:
        raise ConfigError(
            f"config.sampler.box='reject' holds chains of {names} in [{section.low:g}, "
            f"{section.high:g}], and config.sampler.buffer.start={buffer.start!r} may start them "
            "outside, where no move is ever accepted. Start them inside, "
            "config.sampler.buffer.start=uniform with a lower start_scale, or take a wider box."
        )
