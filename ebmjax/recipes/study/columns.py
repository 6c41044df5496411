"""Finds a mistyped column of a study before its runs."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ebmjax.recipes.config.errors import ConfigError, did_you_mean
from ebmjax.recipes.evaluators.known_numbers import PATTERNS, expand, is_known, patterns


def check_columns(
    columns: Mapping[str, Sequence[Any]], of: Collection[str], has_own_parts: bool = False
) -> list[str]:
    """Returns a line for each column whose name no report of the families ``of`` is known to hold.

    Raises:
      ConfigError: if such a name is near a known one, and no part of the user may bring it.
    """
    known = [name for one in of for pattern in patterns(one) for name in expand(pattern)]
    own = sorted({*of} - PATTERNS.keys())
    lines = []
    for heading, (name, *_) in columns.items():
        if any(is_known(name, family) for family in of):
            continue
        near = "" if own else did_you_mean(name, known)
        told = f"column {heading!r}: no report of a run of these rows is known to hold {name!r}."
        if near and not has_own_parts:
            raise ConfigError(told + near)
        lines.append(
            f"{told}{near} It stays empty unless {' or '.join(own) or 'your own part'} adds it."
        )
    return lines
