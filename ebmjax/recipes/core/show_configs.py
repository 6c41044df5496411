"""Prints the configuration files and their variants: ``ebmjax list``."""

import ast
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ebmjax.recipes.core import declare, files
from ebmjax.recipes.core.fields import stop

USAGE = """usage: ebmjax list [FOLDER]

Prints every configuration file with its first line and its variants. FOLDER is where they lie, by
default configs/ or experiments/configs/ of the current folder, or else the project's own."""


def configurations(folder: Path) -> Iterator[tuple[Path, str, list[str]]]:
    """Path, first line and variants of every configuration file in a folder."""
    for path in sorted(folder.glob("*.py")):
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        get_config = runpy.run_path(str(path)).get("get_config")
        if get_config is not None:
            yield path, text.partition("\n")[0], _variants(get_config)


def _variants(get_config: Any) -> list[str]:
    """The variants that ``get_config`` offers when it is asked for one that is not there."""
    try:
        get_config("?")
    except declare.UnknownVariantError as error:
        return error.known
    except (TypeError, ValueError, KeyError):  # a file with words of its own for it
        pass
    return []


def table(folder: Path) -> str:
    """The configurations of a folder as a table of Markdown."""
    lines = ["| config | what it trains | variants |", "|---|---|---|"]
    for path, text, variants in configurations(folder):
        names = ", ".join(f"`{name}`" for name in variants)
        lines.append(f"| `{path.name}` | {text} | {names} |")
    return "\n".join(lines)


def main() -> None:
    """Reads the command line and prints.

    Raises:
      SystemExit: if there are no configuration files.
    """
    arguments = sys.argv[1:]
    if arguments and arguments[0] in ("--help", "-h"):
        print(USAGE)
        return
    places = [Path("configs"), Path("experiments/configs"), files.PROJECT / "configs"]
    folders = [Path(arguments[0])] if arguments else [place for place in places if place.is_dir()]
    if not folders or not any(folders[0].glob("*.py")):
        stop(f"no configuration files in {folders[0] if folders else 'configs/'}: name a folder.")
    for path, text, variants in configurations(folders[0]):
        is_ours = path.is_relative_to(files.PROJECT)
        print(f"{path.relative_to(files.PROJECT) if is_ours else path}\n  {text}")
        if variants:
            print(f"  :{' :'.join(variants)}")
