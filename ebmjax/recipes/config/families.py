"""The families of models, by the name that a configuration gives in ``config.family``.

A family is a package with ``fields.py`` (``FIELDS``), ``checks.py`` (``check``) and ``setup.py``
(``build``); or one file that has all three. ``SECTIONS`` beside ``FIELDS`` has the fields of parts
that it offers, such as samplers. Two families in one package have both by their names.

Checks and names that several families share stand here, too.
"""

import importlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from ebmjax._shown import trim
from ebmjax._user_function import definitions
from ebmjax.recipes.config import declare
from ebmjax.recipes.config.declare import Fields, When, when_is
from ebmjax.recipes.config.errors import Config, ConfigError, did_you_mean, flatten, pick

FAMILIES: dict[str, str | Path] = {
    "energy": "ebmjax.recipes.models.energy",
    "joint": "ebmjax.recipes.models.energy",
    "latent": "ebmjax.recipes.models.latent",
}
"""Package of each family, or its file."""

IS_HIGHER_BETTER = {
    "test_accuracy": True,
    "test_nll": False,
    "test_brier": False,
    "test_ece": False,
    "sample_fid": False,
    "sample_kid": False,
}
"""Numbers by which the best state of a run can be chosen."""

INCEPTION = "inception_v3"
DIGITS = "digits_features"
OWN_CLASSIFIER = "classifier_features"
RANDOM = "random_features"
ABOUT = {
    RANDOM: (
        "FID compares features of a random network, because a classifier's need five classes; "
        "--config.evals.inception_weights=FILE takes Inception's",
    )
}
"""Lines about the features that judge samples."""
OPEN = f"{OWN_CLASSIFIER}_or_{RANDOM}"
"""Name where the images decide, because the configuration leaves the number of classes to them."""

MIN_CLASSES = 5

EXTRACTOR = "{extractor}"
"""Place of the extractors' names in a label."""

POINTS = ("gmm", "circles", "gaussians", "points")
"""Sources of points, in place of images; the last reads the user's file, the others have a law."""
OF_POINTS = when_is("data.name", *POINTS)
ON_IMAGES = When(
    f"images, config.data.name other than {', '.join(POINTS)}",
    lambda c: c.get("data.name") not in POINTS,
)


def add(name: str, file: str) -> None:
    """Makes a family known: ``add("mine", __file__)`` in the file that has it."""
    FAMILIES[name] = Path(file).resolve()


def all_fields(family: Any, names: Collection[str] = ()) -> Fields:
    """Returns the fields of a family and of all parts that it offers.

    They include those in ``names`` that are options of the user's functions.
    """
    place, every = module(family, "fields"), {}
    for found in (place.FIELDS, getattr(place, "SECTIONS", {})):
        every |= found.get(family, found)  # two families in one place have both by their names
    functions = [name for name in declare.WITH_OPTIONS if name in every]
    for name in names:
        section, is_option, _ = name.partition(".options.")
        naming = [one for one in functions if one.startswith(f"{section}.")]
        if is_option and naming:
            every[name] = declare.option_field(section, naming)
    return every


def fields_of(config: Config, with_off: bool = False) -> Fields:
    """Returns the fields that the choices of a configuration bring into being.

    Those that are off are left out, or are among them ``with_off``.
    """
    flat = flatten(config.to_dict())
    every = all_fields(flat.get("family"), flat)
    return {
        name: one
        for name, one in every.items()
        if all(when.holds(flat) for when in one.when)
        and (with_off or not one.is_off(flat.get(name, ...)))
    }


def prune(config: Config) -> None:
    """Removes the fields of parts that a configuration does not name, and those that are off."""
    with config.unlocked():
        for name in flatten(config.to_dict()).keys() - fields_of(config).keys():
            section = name.rpartition(".")[0]
            del config[name]
            if not len(config[section]):
                del config[section]


def check(config: Config, typed: Collection[str] = ()) -> str:
    """Refuses what can be refused without data.

    Fields that are not typed give way where they do not fit a sampler or an objective that is.

    Args:
      config: of any family. It may have fields of parts that it does not name.
      typed: names of the fields that a command line sets; each must be of a part that is named.

    Returns:
      A line that says what gave way; empty if nothing did.

    Raises:
      ConfigError: if a field is unknown, missing or out of range, or fields exclude each other.
    """
    flat = flatten(config.to_dict())
    every, fields = all_fields(flat.get("family"), flat), fields_of(config)
    for name in sorted(flat.keys() - every.keys() | fields.keys() - flat.keys()):
        near = f"is no field of the family {config.family}.{did_you_mean(name, fields)}"
        problem = f"config.{trim(name)} {'is missing.' if name in fields else near}"
        raise ConfigError(f"{problem} `ebmjax fields {config.family}` prints all.")
    for name, one in fields.items():
        if one.values.refusal(flat[name]) is not None:
            raise ConfigError(declare.refusal_of(one, name, flat[name]))
    checks, line = module(config.family, "checks"), ""
    if {"loss.name", "sampler.name"} & {*typed} and hasattr(checks, "what_fits"):
        why, needed = checks.what_fits(config, typed)
        if needed and not ("sampler.name" in needed and "sampler.name" in typed):
            needed = {name: value for name, value in needed.items() if name not in typed}
            for name, value in needed.items():
                declare.put(every[name], config, name, value)
            line = f"{why}: " + ", ".join(f"{k}={v}" for k, v in needed.items())
        fields = fields_of(config)
    for name in typed:
        if name not in fields and not every[name].is_off(flat.get(name, ...)):
            needs = " and ".join(w.needs for w in every[name].when if not w.holds(config))
            near = did_you_mean(name, fields)
            raise ConfigError(f"config.{name} is no field here: it needs {needs}.{near}")
    checks.check(config)
    check_kept(config)
    num_shards = config.mesh.num_shards
    for name in fields:
        if name.startswith("train.") and "batch_size" in name and config[name] % num_shards:
            raise ConfigError(
                f"config.{name} must be a multiple of config.mesh.num_shards={num_shards}, got "
                f"{config[name]}. Change it, or set --config.mesh.num_shards=1."
            )
    return line


def module(family: Any, part: str) -> Any:
    """Imports a part of a family: "fields", "checks" or "setup"; or the file that has all three."""
    place = pick("family", family, FAMILIES)
    if isinstance(place, Path):
        return definitions(place)
    return importlib.import_module(f"{place}.{part}")


def check_kept(config: Config) -> None:
    """Raises ConfigError for a best state by no number of the run, or by images that judge it."""
    name, fields = config.train.get("keep_best", ""), fields_of(config)
    makers = {one: "samples" if "sample" in one else "classification" for one in IS_HIGHER_BETTER}
    numbers = {one: made for one, made in makers.items() if f"evals.{made}.every" in fields}
    if not name:
        if config.evals.get("checkpoint") == "best":
            raise ConfigError(
                "config.evals.checkpoint='best' needs config.train.keep_best, the number that says "
                f"which state is best: set --config.train.keep_best to one of {sorted(numbers)}."
            )
        return
    maker = pick("train.keep_best", name, numbers)
    every = config.evals[maker].every
    if every != 1:
        raise ConfigError(
            f"config.train.keep_best={name!r} chooses at every evaluation of training, and "
            f"config.evals.{maker}.every={every!r} has no such number at some: set it to 1."
        )
    if maker == "classification" and not config.data.holdout:
        raise ConfigError(
            f"config.train.keep_best={name!r} chooses a state by the images that it is judged by: "
            "hold training images out for the choice with --config.data.holdout=0.2."
        )


def is_points(config: Mapping[str, Any]) -> bool:
    """Returns whether a run learns from points, and not from images."""
    return config["family"] == "energy" and config["data"]["name"] in POINTS


def extractor_name(config: Mapping[str, Any]) -> str:
    """Returns the name of the features that judge a run's samples.

    They are the user's function, Inception-v3 if the run has its weights, those of the packaged
    digits, a classifier of images of at least five classes, or a random network.
    """
    data = config["data"]
    if own := config["evals"].get("extractor"):
        return own.rpartition(":")[2]
    if config["evals"].get("inception_weights"):
        return INCEPTION
    if data["name"] == "digits" and data["image_size"] in (None, 8, 16):
        return DIGITS
    if data["num_classes"] is None:
        return OPEN
    return OWN_CLASSIFIER if data["num_classes"] >= MIN_CLASSES else RANDOM


def with_extractor(label: str, configs: Iterable[Mapping[str, Any]]) -> str:
    """Returns ``label`` with the extractors of runs in place of EXTRACTOR, if it is there."""
    names = sorted({extractor_name(config) for config in configs} if EXTRACTOR in label else [])
    return label.replace(EXTRACTOR, ", ".join(names).replace("_", " "))
