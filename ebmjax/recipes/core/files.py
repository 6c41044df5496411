"""Finds configuration and study files, and lets them share definitions."""

import runpy
from pathlib import Path
from types import SimpleNamespace

from ebmjax.recipes.core.fields import stop

PACKAGE = Path(__file__).resolve().parents[2]
PLACES = [PACKAGE / "experiments", PACKAGE.parent / "experiments"]
PROJECT = next((place for place in PLACES if place.is_dir()), PLACES[0])
"""Folder of the project's configurations and studies: in the installed package, or the checkout."""


def find(path: str, folder: str, kind: str) -> Path:
    """Returns the file ``path``, looked for from the current folder, then among the project's.

    Args:
      path: as the user gave it, absolute or relative.
      folder: "configs" or "studies", where the project keeps such files.
      kind: word for such a file, for the error.

    Raises:
      SystemExit: if there is no such file; the message lists those of the project.
    """
    here = Path()
    places = [here, here / "experiments", PROJECT]
    found = next((place / path for place in places if (place / path).is_file()), None)
    if found is not None:
        return found
    names = sorted(f"{folder}/{p.name}" for p in (PROJECT / folder).glob("*.py"))
    hint = f" There are {', '.join(names)}." if names else ""
    stop(f"no {kind} file {path!r} from {here.resolve()}, nor among the project's.{hint}")


def beside(file: str, name: str) -> SimpleNamespace:
    """Runs another configuration or study file and returns its definitions as attributes.

    The folder need not be importable, so a user's folder works, too.

    Args:
      file: ``__file__`` of the calling file.
      name: path of the other file, relative to the folder of ``file``.
    """
    return SimpleNamespace(**runpy.run_path(str(Path(file).parent / name)))
