"""The families of models, by the name that a configuration gives in ``config.family``.

A family is a package with ``fields.py`` (``FIELDS``), ``checks.py`` (``check``) and ``setup.py``
(``build``); or one file that has all three. ``SECTIONS`` beside ``FIELDS`` has the fields of parts
that it offers, such as samplers. Two families in one package have both by their names.
"""

import importlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ebmjax._user_function import definitions
from ebmjax.recipes.config import checks, declare
from ebmjax.recipes.config.declare import Fields
from ebmjax.recipes.config.errors import Config, ConfigError, did_you_mean, flatten, pick, shorten

FAMILIES: dict[str, str | Path] = {
    "energy": "ebmjax.recipes.models.energy",
    "joint": "ebmjax.recipes.models.energy",
    "latent": "ebmjax.recipes.models.latent",
}
"""Package of each family, or its file."""


def add(name: str, file: str) -> None:
    """Makes a family known: ``add("mine", __file__)`` in the file that has it."""
    FAMILIES[name] = Path(file).resolve()


def all_fields(family: str, names: Collection[str] = ()) -> Fields:
    """Returns the fields of a family, with those of all parts that it offers.

    Of options of the user's functions, ``<section>.options.<option>``, those in ``names``.
    """
    every = {**own_fields(family), **_declared(family, "SECTIONS")}
    for name in names:
        section, is_option, _ = name.partition(".options.")
        naming = [
            one for one in declare.WITH_OPTIONS if one.startswith(f"{section}.") and one in every
        ]
        if is_option and naming:
            every[name] = declare.option_field(section, naming)
    return every


def own_fields(family: str) -> Fields:
    """Returns the fields of a family without those of the parts that it offers."""
    return _declared(family, "FIELDS")


def _declared(family: str, what: str) -> Any:
    found = getattr(module(family, "fields"), what, {})
    return found.get(family, found)


def fields_of(config: Config) -> Fields:
    """Returns the fields of a configuration: those that its own choices bring into being."""
    flat = flatten(config.to_dict())
    return {
        name: one
        for name, one in all_fields(flat.get("family"), flat).items()
        if all(when.holds(flat) for when in one.when) and not one.is_off(name, flat)
    }


def prune(config: Config) -> None:
    """Removes the fields of parts that a configuration does not name."""
    every = all_fields(config.family, flatten(config.to_dict()))
    gone = every.keys() - fields_of(config).keys()
    with config.unlocked():
        for name in gone:
            section = name.rpartition(".")[0]
            if config.get(section) is not None and name[len(section) + 1 :] in config[section]:
                del config[name]
                if not len(config[section]):
                    del config[section]


def check(config: Config, typed: Collection[str] = ()) -> None:
    """Refuses what can be refused without data.

    Args:
      config: of any family. It may have fields of parts that it does not name.
      typed: names of the fields that a command line sets.

    Raises:
      ConfigError: if a field is unknown, missing, out of range or of a part that is not named, or
        fields exclude each other.
    """
    names = set(flatten(config.to_dict()))
    every = all_fields(config.get("family"), names)
    fields = fields_of(config)
    for name in sorted(names - every.keys() | fields.keys() - names):
        problem = f"is no field of the family {config.family}.{did_you_mean(name, fields)}"
        problem = "is missing." if name in fields else problem
        shown = shorten(name, quoted=False)
        raise ConfigError(f"config.{shown} {problem} `ebmjax fields {config.family}` prints all.")
    for name in typed:
        if name not in fields and not every[name].is_off(name, config):
            needs = " and ".join(w.needs for w in every[name].when if not w.holds(config))
            near = did_you_mean(name, fields)
            raise ConfigError(f"config.{name} is no field here: it needs {needs}.{near}")
    declare.check_ranges(fields, config)
    module(config.family, "checks").check(config)
    checks.check_data(config)
    sizes = [name for name in fields if name.startswith("train.") and "batch_size" in name]
    checks.check_shards(config, *sizes)


def module(family: str, part: str) -> Any:
    """Imports a part of a family: "fields", "checks" or "setup"; or the file that has all three."""
    place = pick("family", family, FAMILIES)
    if isinstance(place, Path):
        return definitions(place)
    return importlib.import_module(f"{place}.{part}")
