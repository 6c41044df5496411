"""Recipes: from a configuration to a finished run, and back to its model (``load``)."""

from typing import Any


def __getattr__(name: str) -> Any:
    """Imports ``load`` when it is first used: commands that refuse a field need no JAX."""
    if name == "load":
        from ebmjax.recipes.core.trained import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
