"""Prints every field of a configuration with its value, text and range.

  ebmjax fields CONFIG[:VARIANT] [--config.FIELD=VALUE ...]

"joint" stands for configs/joint.py, "energy" for the defaults of that family. A configuration has
the fields of the parts that it names: --config.sampler.name=mala prints those of mala."""

import ast
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from ebmjax.recipes.config import command_line, declare, families, files
from ebmjax.recipes.config.declare import Fields
from ebmjax.recipes.config.errors import ConfigError, stop
from ebmjax.recipes.config.user_parts import option_fields


def main() -> None:
    """Reads the command line and prints; ends with code 2 for what is no configuration."""
    first, *rest = sys.argv[1:] or ["--help"]
    if first in ("--help", "-h"):
        print(__doc__)
        return
    first = first.removeprefix("--config=")
    if first in families.FAMILIES and not files.places(first, "configs"):
        if rest:
            stop(f"{first} is a family: name a configuration to change {rest[0]} of it.")
        config = declare.defaults(families.all_fields(first))
    else:
        config = command_line.read(first, rest)
    try:
        fields = families.fields_of(config, with_off=True)
        fields = in_order({**fields, **option_fields(config, fields)})
    except ConfigError as error:
        stop(error)
    values = {name: config.get(name, one.off) for name, one in fields.items()}
    lines = {
        name: f"{name} = {one.default if values[name] is ... else values[name]!r}  # {one.text} "
        f"[{one.values}]"
        for name, one in fields.items()
    }
    off = [line for name, line in lines.items() if fields[name].is_off(config.get(name, ...))]
    print(*(line for line in lines.values() if line not in off), sep="\n")
    print("\n# Not in the configuration unless they are set otherwise:", *off, sep="\n")


def in_order(fields: Fields) -> Fields:
    """Returns the fields by section."""
    order = "family, seed, data, model, sampler, loss, optimizer, train, mesh, evals"
    names = sorted(fields, key=lambda name: order.index(name.partition(".")[0]))
    return {name: fields[name] for name in names}


def read_definitions(path: Path) -> tuple[str, set[str]]:
    """Returns the first line of a file's docstring, and the names that the file defines.

    Nothing is run. A file that is no Python has neither.
    """
    try:
        tree = ast.parse(path.read_text())
    except (OSError, SyntaxError, ValueError):
        return "", set()
    names = {getattr(node, "name", "") for node in tree.body}
    names |= {node.id for one in tree.body for node in ast.walk(one) if isinstance(node, ast.Name)}
    return (ast.get_docstring(tree) or "").partition("\n")[0], names


def variants(path: Path) -> Sequence[str]:
    """Returns the variants that a file offers when it is asked for one that is not there."""
    try:
        runpy.run_path(str(path))["get_config"]("?")
    except declare.UnknownVariantError as error:
        return error.known
    except (Exception, SystemExit):  # a file with words of its own for it, or that cannot be run
        pass
    return []
