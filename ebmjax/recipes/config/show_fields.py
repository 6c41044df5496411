"""Prints every field of a configuration: ``ebmjax fields``."""

import sys

from ebmjax.recipes.config import command_line, declare, families, files
from ebmjax.recipes.config.declare import Field, Fields
from ebmjax.recipes.config.errors import Config, choose

USAGE = """usage: ebmjax fields CONFIG[:VARIANT] [--config.FIELD=VALUE ...]

Prints every field with its value, text and range, and says of a field that has no effect what it
needs. "joint" stands for configs/joint.py, "plane" for the defaults of that family."""

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
    "eval",
]


def described(name: str, one: Field, config: Config, fields: Fields) -> str:
    """One line for a field: its value, its text, its range and what it needs."""
    needs = declare.no_effect(fields, config, name)
    warning = f"; no effect here: needs {needs}" if needs else ""
    return f"{name} = {config[name]!r}  # {one.text} [{values(one)}{warning}]"


def values(one: Field) -> str:
    """The range of a field, in words."""
    own = ["FILE.py:FUNCTION"] * one.values.names_code("own.py:part")
    words = ", ".join([*one.values.choices, *own]) if one.values.choices else one.values.words
    return words + (", or None" if one.values.may_be_none else "")


def in_order(fields: Fields) -> list[str]:
    """Names by section."""
    return sorted(fields, key=lambda name: SECTIONS.index(name.partition(".")[0]))


def table(family: str) -> str:
    """A family's fields as a table of Markdown."""
    fields = families.fields_of(family)
    lines = ["| field | default | values | what it is |", "|---|---|---|---|"]
    for name in in_order(fields):
        one = fields[name]
        needs = f" Needs {'; '.join(when.needs for when in one.when)}." if one.when else ""
        lines.append(f"| `{name}` | `{one.default!r}` | {values(one)} | {one.text}.{needs} |")
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
        config = declare.defaults(families.fields_of(first))
    else:
        config = command_line.read(first, rest, is_checked=False)
    choose("family", config.family, families.FAMILIES)
    fields = families.fields_of(config.family)
    print("\n".join(described(name, fields[name], config, fields) for name in in_order(fields)))
