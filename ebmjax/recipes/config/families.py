"""The families of models, by the name that a configuration gives in ``config.family``.

A family is a package with ``fields.py`` (``FIELDS``), ``checks.py`` (``check``) and ``setup.py``
(``build``), of which only the last imports JAX; or one file that has all three.
"""

import importlib
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ebmjax._phases import phase
from ebmjax._user_function import definitions
from ebmjax.recipes.config import checks, declare
from ebmjax.recipes.config.declare import Fields
from ebmjax.recipes.config.errors import Config, ConfigError, choose, did_you_mean, flatten

if TYPE_CHECKING:
    from ebmjax.recipes.models.build import Experiment

FAMILIES: dict[str, str | Path] = {
    name: f"ebmjax.recipes.models.{name}" for name in ("image", "joint", "latent", "plane")
}
"""Package of each family, or its file."""


def add(name: str, file: str) -> None:
    """Makes a family known: ``add("mine", __file__)`` in the file that has it."""
    FAMILIES[name] = Path(file).resolve()


def fields_of(family: str) -> Fields:
    """The declared fields of a family."""
    return module(family, "fields").FIELDS


def check(config: Config, typed: Collection[str] = ()) -> None:
    """Refuses what can be refused without data, before JAX is imported.

    Args:
      config: of any family.
      typed: names of the fields that a command line sets.

    Raises:
      ConfigError: if a field is unknown, out of range or without effect, or fields exclude each
        other.
    """
    fields = fields_of(config.get("family"))
    names = set(flatten(config.to_dict()))
    # BlackJAX's kernels have further options, which a file may add.
    names -= {name for name in names - set(fields) if name.startswith("sampler.blackjax.")}
    for name in sorted(names.symmetric_difference(fields)):
        problem = f"is no field of the family {config.family}.{did_you_mean(name, fields)}"
        problem = "is missing." if name in fields else problem
        raise ConfigError(f"config.{name} {problem} `ebmjax fields {config.family}` prints all.")
    declare.check(fields, config, typed)
    checks.check_seeds(config)
    checks.check_shards(
        config, *(name for name in fields if name.startswith("train.") and "batch_size" in name)
    )
    module(config.family, "checks").check(config)


def build(config: Config, workdir: Path) -> "Experiment":
    """Checks ``config`` and builds its experiment, to be run in ``workdir``.

    Raises:
      ConfigError: as ``check``.
      ValueError, OSError, DataUnavailableError: if the data cannot be had as configured.
    """
    check(config)
    with phase("building the model and its data"):
        experiment = module(config.family, "setup").build(config, workdir)
        if not config.eval.get("functions"):
            return experiment
        from ebmjax.recipes.models.user_evaluators import with_evaluators

        return with_evaluators(config, experiment)


def module(family: str, part: str) -> Any:
    """Imports a part of a family: "fields", "checks" or "setup"; or the file that has all three."""
    place = choose("family", family, FAMILIES)
    if isinstance(place, Path):
        return definitions(place)
    return importlib.import_module(f"{place}.{part}")
