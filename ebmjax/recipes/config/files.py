"""Finds configuration and study files, and lets them share definitions."""

import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType

from ebmjax._user_function import PROJECT
from ebmjax.recipes.config.errors import did_you_mean, stop

MODELS = Path(__file__).parents[1] / "at_hand"
"""Folder of the trained models that come with ebmjax."""


def models() -> dict[str, str]:
    """Returns the cards of the trained models that come with ebmjax, by their names."""
    return {path.parent.name: path.read_text() for path in sorted(MODELS.glob("*/card.md"))}


def places(path: str, folder: str) -> list[Path]:
    """Returns the files that ``path`` may stand for, as for ``find``; the first one counts."""
    here, typed = Path(), Path(path).expanduser()
    names = [Path(f"{name}{end}") for name in (typed, folder / typed) for end in ("", ".py")]
    roots = (here, here / "experiments", PROJECT)
    return [root / name for root in roots for name in names if (root / name).is_file()]


def find(path: str, folder: str, kind: str, where: str = "") -> Path:
    """Returns the file ``path``, looked for from the current folder, then among the project's.

    Args:
      path: as the user gave it, absolute or relative; "joint" stands for configs/joint.py.
      folder: "configs" or "studies", where the project keeps such files; "*" for both.
      kind: word for such a file, for the error.
      where: beginning of the error, such as the row of a study.

    Raises:
      SystemExit: if there is no such file; the message lists those of the project.
    """
    found = places(path, folder)
    if found:
        return found[0]
    names = sorted(f"{p.parent.name}/{p.name}" for p in PROJECT.glob(f"{folder}/*.py"))
    near = did_you_mean(Path(path).stem, (Path(name).stem for name in names))
    hint = f"{near} `ebmjax list` prints all." if near else f" There are {', '.join(names)}."
    stop(f"{where}no {kind} file {path!r} from {Path.cwd()}, nor among the project's.{hint}")


def mistake_in(path: Path, error: BaseException) -> str:
    """Returns "FILE, line 3: KeyError: 'x'" if running the file raised ``error``; else ""."""
    here, line = path.resolve(), None
    for frame, number in traceback.walk_tb(error.__traceback__):
        if Path(frame.f_code.co_filename).resolve() == here:
            line = number
    text = str(error)
    if isinstance(error, SyntaxError) and Path(error.filename or "").resolve() == here:
        line, text = error.lineno, error.msg
    return f"{path}, line {line}: {type(error).__name__}: {text}" if line else ""


def project(name: str) -> ModuleType:
    """Imports a file of the project's ``experiments``, such as "figures.joint", from anywhere.

    A configuration or study that uses it can be copied to any folder.
    """
    package = sys.modules.setdefault("ebmjax_experiments", ModuleType("ebmjax_experiments"))
    package.__path__ = [str(PROJECT)]
    return importlib.import_module(f"ebmjax_experiments.{name}")
