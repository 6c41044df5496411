"""The families of models, by the name that a configuration gives in ``config.family``.

A family is a package with ``fields.py`` (``FIELDS``), ``checks.py`` (``check``) and ``setup.py``
(``build``), of which only the last imports JAX; or one file that has all three. ``SECTIONS`` beside
``FIELDS`` has the fields of parts that it offers, such as samplers.
"""

import importlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ebmjax._user_function import definitions
from ebmjax.recipes.config import checks, declare
from ebmjax.recipes.config.declare import Fields
from ebmjax.recipes.config.errors import Config, ConfigError, did_you_mean, flatten, pick

FAMILIES: dict[str, str | Path] = {
    name: f"ebmjax.recipes.models.{name}" for name in ("energy", "joint", "latent")
}
"""Package of each family, or its file."""


def add(name: str, file: str) -> None:
    """Makes a family known: ``add("mine", __file__)`` in the file that has it."""
    FAMILIES[name] = Path(file).resolve()


def all_fields(family: str) -> Fields:
    """Returns the fields of a family, with those of all parts that it offers."""
    declared = module(family, "fields")
    return {**declared.FIELDS, **getattr(declared, "SECTIONS", {})}


def fields_of(config: Config) -> Fields:
    """Returns the fields of a configuration: of its family, and of the parts that it names."""
    every = all_fields(config.get("family")).items()
    return {name: one for name, one in every if not one.part or one.part.named.holds(config)}


def prune(config: Config) -> None:
    """Removes the sections of parts that a configuration does not name."""
    parts = {one.part for one in all_fields(config.family).values() if one.part}
    with config.unlocked():
        for part in parts:
            if config.get(part.section) is not None and not part.named.holds(config):
                del config[part.section]


def reset_siblings(config: Config, typed: Collection[str]) -> None:
    """Gives defaults to what a file sets for its own choice where a command line names another.

    With ``loss.name`` typed, these are the fields ``loss.*`` that then have no effect.
    """
    sections = {name.removesuffix(".name") for name in typed if name.endswith(".name")}
    fields = fields_of(config)
    for name, one in fields.items():
        is_sibling = name.rpartition(".")[0] in sections and name not in typed
        if is_sibling and declare.no_effect(fields, config, name, typed):
            config.update_from_flattened_dict({name: one.default})


def check(config: Config, typed: Collection[str] = ()) -> None:
    """Refuses what can be refused without data, before JAX is imported.

    Args:
      config: of any family. It may have sections of parts that it does not name.
      typed: names of the fields that a command line sets.

    Raises:
      ConfigError: if a field is unknown, out of range or without effect, or fields exclude each
        other.
    """
    every, names = all_fields(config.get("family")), set(flatten(config.to_dict()))
    needed = {name for name, one in every.items() if not one.part}
    if needed <= names:
        needed = {*fields_of(config)}
    for name in sorted(names - every.keys() | needed - names):
        problem = f"is no field of the family {config.family}.{did_you_mean(name, every)}"
        problem = "is missing." if name in every else problem
        raise ConfigError(f"config.{name} {problem} `ebmjax fields {config.family}` prints all.")
    fields = {name: one for name, one in every.items() if name in names}
    declare.check(fields, config, typed)
    module(config.family, "checks").check(config)
    sizes = [name for name in fields if name.startswith("train.") and "batch_size" in name]
    checks.check_shards(config, *sizes)


def module(family: str, part: str) -> Any:
    """Imports a part of a family: "fields", "checks" or "setup"; or the file that has all three."""
    place = pick("family", family, FAMILIES)
    if isinstance(place, Path):
        return definitions(place)
    return importlib.import_module(f"{place}.{part}")
