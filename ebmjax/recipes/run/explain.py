"""Errors of a run that its user can mend: which they are, and what is said of them."""

import contextlib
import errno
import re
from collections.abc import Iterator
from pathlib import Path

from ebmjax import training
from ebmjax.data import DataChangedError, DataUnavailableError
from ebmjax.recipes.config.errors import Config, ConfigError, WorkdirError, WriteError, flatten

USER_ERRORS = (
    ConfigError,
    WorkdirError,
    WriteError,
    DataUnavailableError,
    FileNotFoundError,
    NotADirectoryError,
    training.CheckpointAccessError,
    training.CheckpointDamagedError,
    training.CheckpointMismatchError,
    training.DivergenceError,
)

BROKE_OFF = (WriteError, DataChangedError, training.DivergenceError)
"""Errors of a run that had begun; the others leave everything as it was."""

TAKES_NO_MORE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EACCES, errno.EIO)


@contextlib.contextmanager
def explain_by_fields(config: Config) -> Iterator[None]:
    """Turns the library's errors into errors of a configuration."""
    try:
        yield
    except USER_ERRORS:
        raise
    except (ValueError, TypeError) as error:
        fields = ", ".join(fields_behind(str(error), config))
        where = f" Set here: {fields}." if fields else ""
        raise ConfigError(f"the configuration does not fit together: {error}{where}") from error


def fields_behind(message: str, config: Config) -> list[str]:
    """Returns the fields, with values, that a message of the library names by arguments.

    A message has ``padding=2`` or "padding must ..., got 2" for config.data.crop_padding: the field
    ends in the argument's name and has its value.
    """
    given = re.findall(r"\b(\w+)='?([\w.:/+-]*\w)", message)
    given += re.findall(r"^(\w+) must .*?\bgot '?([\w.+-]*\w)", message)
    flat = {name: str(value) for name, value in flatten(config.to_dict()).items()}
    return [
        f"config.{name}={value}"
        for name, value in flat.items()
        if f"config.{name}" not in message
        and any(
            f"_{name}".replace(".", "_").endswith(f"_{argument}") and value == other
            for argument, other in given
        )
    ]


@contextlib.contextmanager
def explain_writes(path: Path) -> Iterator[None]:
    """Turns an OSError that says the folder takes no more files into a WriteError."""
    try:
        yield
    except OSError as error:
        if error.errno not in TAKES_NO_MORE:
            raise
        if isinstance(error, training.CheckpointAccessError):
            raise WriteError(str(error)) from error
        raise WriteError(
            f"--workdir {path} could not be written any more: {error.strerror}. What was saved "
            "before is safe. Make room, or mend the permissions, and give the same command again."
        ) from error
