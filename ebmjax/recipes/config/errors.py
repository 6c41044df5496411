"""Ground floor: the type of a configuration, its fields by dotted name, and the user's errors.

Commands print an error of the user as one paragraph, without a traceback.
"""

import difflib
import logging
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from ebmjax._phases import say
from ebmjax._shown import printable, trim

Config = Any
"""An ``ml_collections.ConfigDict``; its fields are beyond the sight of type checkers."""

REFUSED, FAILED = 2, 1
"""Exit codes: what was asked for cannot be done, and nothing was written; a run broke off."""
NEAR = 0.6  # similarity of two names from which one may be meant by the other


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
    ending = SystemExit("\n".join(map(printable, f"error: {message}".split("\n"))))
    print(ending, file=sys.stderr, flush=True)
    ending.code = code
    raise ending


class PlainWarnings(logging.Handler):
    """Prints warnings in the style of all other lines: "warning: ..."."""

    def emit(self, record: logging.LogRecord) -> None:
        say(f"{record.levelname.lower()}: {record.getMessage()}", "stderr")


def pick(name: str, value: str, table: Mapping[str, Any]) -> Any:
    """``table[value]``, or a ConfigError that lists the choices of ``config.<name>``."""
    if value not in table:
        near = did_you_mean(str(value), table)
        raise ConfigError(
            f"config.{name} must be one of {sorted(table)}, got {trim(repr(value))}.{near}"
        )
    return table[value]


def count_nouns(number: int, noun: str) -> str:
    """Returns "1 run", "2 runs"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Returns " Did you mean 'a' or 'b'?" with the nearest of ``names``; empty if none is near.

    The last parts of dotted names count most. Among equals the name of the nearer section wins.
    """
    section, _, last = name.rpartition(".")
    scores: dict[str, float] = {}
    for one in names:
        other, _, its_last = one.rpartition(".")
        similar = difflib.SequenceMatcher(None, last, its_last).ratio()
        similar = 1.2 if last == its_last else 0.9 if last in its_last.split("_") else similar
        if similar >= NEAR:
            scores[one] = similar + difflib.SequenceMatcher(None, section, other).ratio() / 2
    near = [one for one in scores if scores[one] >= max(scores.values()) - NEAR / 2]
    found = sorted(near, key=lambda one: (-scores[one], one))[:3]
    return f" Did you mean {' or '.join(map(repr, found))}?" if found else ""


def flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dicts as one, keys joined by dots."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        flat |= flatten(value, name + ".") if isinstance(value, dict) else {name: value}
    return flat
