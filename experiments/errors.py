"""Errors that are the user's to mend: commands print them as one paragraph, no traceback."""

import sys
from typing import NoReturn

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
