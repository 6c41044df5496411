"""Finds a function in a user's own file or module, by the name ``place:function``."""

import importlib
import os
import re
import runpy
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

PACKAGE = Path(__file__).resolve().parent
PLACES = [PACKAGE / "experiments", PACKAGE.parent / "experiments"]
PROJECT = next((place for place in PLACES if place.is_dir()), PLACES[0])
"""Folder of the project's configurations and studies: in the installed package, or the checkout."""


def is_function_name(name: str) -> bool:
    """Returns whether ``name`` is "FILE.py:function" or "module:function".

    A data set of tensorflow-datasets with a version, "cifar10:3.0.1", is neither.
    """
    place, colon, function = name.rpartition(":")
    if not colon or not function.isidentifier():
        return False
    return place.endswith(".py") or all(part.isidentifier() for part in place.split("."))


def names_code(name: str) -> bool:
    """Returns whether a source of data called ``name`` may run code from outside the package.

    That is a user's function, and a data set of a namespace, whose code tensorflow-datasets may
    fetch. A data set with a version, "cifar10:3.0.1", is neither.
    """
    return ":" in name and not re.fullmatch(r"[^:]*:[\d.*]+", name)


@cache
def definitions(path: Path) -> SimpleNamespace:
    """Runs a file, once in a process, and returns its definitions as attributes."""
    return SimpleNamespace(**runpy.run_path(str(path)))


def user_function(name: str) -> Callable[..., Any]:
    """Returns the function that "FILE.py:function" or "module:function" names.

    Files and modules are looked for from the current folder, and files then among the project's
    experiments ("literal/mala.py:literal_mala"); modules may also be installed. Those
    of Python itself are refused: no function there makes networks or images, and some run programs.

    Raises:
      ValueError: if the file or module cannot be imported, or has no such function.
    """
    place, _, function_name = name.rpartition(":")
    if not place.endswith(".py") and place.partition(".")[0] in sys.stdlib_module_names:
        raise ValueError(
            f"{name!r} names a module of Python itself, which is never imported for this. Name a "
            "function of yours by its file, FILE.py:FUNCTION."
        )
    try:
        if place.endswith(".py"):
            file = Path(place).expanduser()
            is_project = not file.exists() and (PROJECT / file).is_file()
            found: Any = definitions((PROJECT / file if is_project else file).resolve())
        else:
            if os.getcwd() not in sys.path:
                sys.path.insert(0, os.getcwd())
            found = importlib.import_module(place)
    except (Exception, SystemExit) as error:  # whatever the user's own code raises
        raise ValueError(
            f"{name!r} must be FILE.py:FUNCTION or MODULE:FUNCTION, and {place!r} cannot be "
            f"imported: {type(error).__name__}: {error}."
        ) from error
    function = getattr(found, function_name, None)
    if not callable(function):
        there = [one for one, value in vars(found).items() if callable(value) and one[0] != "_"]
        raise ValueError(f"{name!r} must name a function of {place!r}, which has {there[:8]}.")
    return function
