"""Finds configuration and study files, and lets them share definitions."""

import importlib
import runpy
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ebmjax.recipes.core.fields import ConfigError, stop

CHECKOUT = Path(__file__).resolve().parents[3] / "experiments"
"""Folder of the project's configurations and studies; absent if only the package is installed."""


def find(path: str, folder: str, kind: str) -> Path:
    """Returns the file ``path``, looked for from the current folder, then from experiments/.

    Args:
      path: as the user gave it, absolute or relative.
      folder: "configs" or "studies", where the project keeps such files.
      kind: word for such a file, for the error.

    Raises:
      SystemExit: if there is no such file; the message lists those of the project.
    """
    here = Path()
    places = [here, here / "experiments", CHECKOUT]
    found = next((place / path for place in places if (place / path).is_file()), None)
    if found is not None:
        return found
    names = sorted(f"{folder}/{p.name}" for p in (CHECKOUT / folder).glob("*.py"))
    hint = f" The project's are {', '.join(names)}." if names else ""
    stop(f"no {kind} file {path!r} from {here.resolve()}, nor from experiments/.{hint}")


def beside(file: str, name: str) -> SimpleNamespace:
    """Runs another configuration or study file and returns its definitions as attributes.

    The folder need not be importable, so a user's folder works, too.

    Args:
      file: ``__file__`` of the calling file.
      name: path of the other file, relative to the folder of ``file``.
    """
    return SimpleNamespace(**runpy.run_path(str(Path(file).parent / name)))


@cache
def definitions(path: Path) -> SimpleNamespace:
    """Runs a file, once in a process, and returns its definitions as attributes."""
    return SimpleNamespace(**runpy.run_path(str(path)))


def named(field: str, name: str) -> Any:
    """Returns what a field names as ``FILE.py:NAME``, or ``MODULE:NAME`` of an installed package.

    Args:
      field: dotted name of the field, for errors.
      name: its value; the file is looked for from the current folder.

    Raises:
      ConfigError: if the file or module cannot be read, or lacks the name.
    """
    place, _, attribute = name.partition(":")
    must_be = f"config.{field} must be FILE.py:NAME or MODULE:NAME, got {name!r}"
    try:
        is_file = place.endswith(".py")
        found = definitions(Path(place).resolve()) if is_file else importlib.import_module(place)
    except (ImportError, OSError) as error:
        raise ConfigError(f"{must_be}: {error}.") from error
    if not hasattr(found, attribute):
        raise ConfigError(f"{must_be}: {place} has no {attribute!r}.")
    return getattr(found, attribute)
