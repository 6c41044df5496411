"""Prints every field of a configuration: ``ebmjax fields``."""

import sys

from ebmjax.recipes.config import command_line, declare, families, files
from ebmjax.recipes.config.declare import Field, Fields
from ebmjax.recipes.config.errors import Config, ConfigError, pick, stop
from ebmjax.recipes.config.user_parts import option_fields

USAGE = """usage: ebmjax fields CONFIG[:VARIANT] [--config.FIELD=VALUE ...]

Prints every field with its value, text and range. "joint" stands for configs/joint.py, "energy" for
the defaults of that family. A configuration has the fields of the parts that it names:
--config.sampler.name=mala prints those of mala."""

HEAD: tuple[str, ...] = ("| field | default | values | what it is |", "|---|---|---|---|")
SECTIONS = [
    "family",
    "seed",
    "data",
    "model",
    "sampler",
    "loss",
    "optimizer",
    "train",
    "mesh",
    "evals",
]


def describe_field(name: str, one: Field, config: Config) -> str:
    """One line for a field: its value, its text and its range."""
    return f"{name} = {config.get(name, one.default)!r}  # {one.text} [{values(one)}]"


def values(one: Field) -> str:
    """The range of a field, in words."""
    own = ["FILE.py:FUNCTION"] * one.values.names_code("own.py:part")
    words = ", ".join([*one.values.choices, *own]) if one.values.choices else one.values.words
    return words + (", or None" if one.values.may_be_none else "")


def in_order(fields: Fields) -> Fields:
    """Returns the fields by section."""
    names = sorted(fields, key=lambda name: SECTIONS.index(name.partition(".")[0]))
    return {name: fields[name] for name in names}


def table(family: str) -> str:
    """A family's fields as a table of Markdown, without those of its samplers."""
    fields = families.module(family, "fields").FIELDS
    lines = list(HEAD)
    for name, one in in_order(fields).items():
        needs = f" Needs {'; '.join(when.needs for when in one.when)}." if one.when else ""
        lines.append(f"| `{name}` | `{one.default!r}` | {values(one)} | {one.text}.{needs} |")
    return "\n".join(lines)


def table_of_samplers() -> str:
    """Returns the fields of samplers as a table of Markdown, with the defaults of all families."""
    found: dict[str, dict[str, Field]] = {}
    for family in families.FAMILIES:
        for name, one in families.all_fields(family).items():
            if name not in families.module(family, "fields").FIELDS:
                found.setdefault(name, {})[family] = one
    lines = list(HEAD)
    for name, fields in found.items():
        owners: dict[str, list[str]] = {}
        for family, one in fields.items():
            owners.setdefault(f"`{one.default!r}`", []).append(family)
        default = "; ".join(f"{value} ({', '.join(names)})" for value, names in owners.items())
        one = max(fields.values(), key=lambda one: one.values.may_be_none)  # the widest range
        lines.append(f"| `{name}` | {default} | {values(one)} | {one.text}. |")
    return "\n".join(lines)


def main() -> None:
    """Reads the command line and prints.

    Raises:
      SystemExit: for a configuration that cannot be had.
    """
    first, *rest = sys.argv[1:] or ["--help"]
    if first in ("--help", "-h"):
        print(USAGE)
        return
    first = first.removeprefix("--config=")
    config: Config
    if first in families.FAMILIES and not files.places(first, "configs"):
        if rest:
            stop(f"{first} is a family: name a configuration to change {rest[0]} of it.")
        config = declare.defaults(families.all_fields(first))
    else:
        config = command_line.read(first, rest, is_checked=False)
    try:
        pick("family", config.family, families.FAMILIES)
        fields = families.fields_of(config)
        declare.check_ranges(fields, config)
        fields = {**fields, **option_fields(config, fields)}
        lines = [describe_field(name, one, config) for name, one in in_order(fields).items()]
    except ConfigError as error:
        stop(error)
    print("\n".join(lines))
