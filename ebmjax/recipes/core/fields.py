"""Ground floor: the type of a configuration, its fields by dotted name, and the user's errors.

Commands print an error of the user as one paragraph, without a traceback.
"""

import sys
from collections.abc import Mapping
from typing import Any, NoReturn

Config = Any
"""An ``ml_collections.ConfigDict``; its fields are beyond the sight of type checkers."""

REFUSED, FAILED = 2, 1
"""Exit codes: what was asked for cannot be done, and nothing was written; a run broke off."""


class ConfigError(ValueError):
    """A field of the configuration is unknown, of the wrong type or out of range."""


class WorkdirError(RuntimeError):
    """The run's folder cannot be used."""


class WriteError(RuntimeError):
    """The run's folder could be written when the run began, and no longer can."""


def stop(message: object, code: int = REFUSED) -> NoReturn:
    """Prints ``message`` as an error and ends the process with ``code``.

    Raises:
      SystemExit: whose text is the line that was printed.
    """
    ending = SystemExit(f"error: {message}")
    print(ending, file=sys.stderr, flush=True)
    ending.code = code
    raise ending


def choose(name: str, value: str, table: Mapping[str, Any]) -> Any:
    """``table[value]``, or a ConfigError that lists the choices of ``config.<name>``."""
    if value not in table:
        raise ConfigError(f"config.{name} must be one of {sorted(table)}, got {value!r}.")
    return table[value]


def flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dicts as one, keys joined by dots."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        flat |= flatten(value, name + ".") if isinstance(value, dict) else {name: value}
    return flat
