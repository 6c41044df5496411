"""Recipes: from a configuration to a finished run (``train``), and back to its model (``load``)."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ebmjax.recipes.run.trained import TrainedRun as TrainedRun
    from ebmjax.recipes.run.trained import load as load
    from ebmjax.recipes.run.trained import train as train

_LATE = ("TrainedRun", "load", "train")


def __getattr__(name: str) -> Any:
    """Imports a name when it is first used: commands that refuse a field need no JAX."""
    if name in _LATE:
        return getattr(importlib.import_module("ebmjax.recipes.run.trained"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Names of the module, with those that are not loaded yet."""
    return sorted({*globals(), *_LATE})
