"""Reads configuration and study files and their heads, and makes a table of configurations."""

import ast
import runpy
from collections.abc import Iterator
from pathlib import Path

from ebmjax.recipes.config import declare, files
from ebmjax.recipes.config.errors import Config


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


def configurations(folder: Path) -> Iterator[tuple[Path, str, list[str]]]:
    """Path, first line and variants of every configuration file in a folder."""
    for path in sorted(folder.glob("*.py")):
        text, names = read_definitions(path)
        if "get_config" in names:
            yield path, text, variants(path)


def variants(path: Path) -> list[str]:
    """The variants that a file offers when it is asked for one that is not there."""
    try:
        runpy.run_path(str(path))["get_config"]("?")
    except declare.UnknownVariantError as error:
        return error.known
    except (Exception, SystemExit):  # a file with words of its own for it, or that cannot be run
        pass
    return []


def read_named(name: str) -> Config | None:
    """Returns the configuration ``CONFIG[:VARIANT]``; None if it cannot be had by itself."""
    path, colon, variant = name.partition(":")
    try:
        made = runpy.run_path(str(files.places(path, "configs")[0]))
        return made["get_config"](*[variant] * bool(colon))
    except (Exception, SystemExit):  # no such file, or one that needs more than this
        return None


def table(folder: Path) -> str:
    """The configurations of a folder as a table of Markdown."""
    lines = ["| config | what it trains | variants |", "|---|---|---|"]
    for path, text, known in configurations(folder):
        names = ", ".join(f"`{name}`" for name in known)
        lines.append(f"| `{path.name}` | {text} | {names} |")
    return "\n".join(lines)
