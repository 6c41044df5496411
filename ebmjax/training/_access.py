"""Errors of the system around checkpoints: no room, no memory, no permission."""

import contextlib
import errno
import logging
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

# A missing file, or one of another kind, is damage, not an error of the system.
MISSING = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP)
EXHAUSTED = (errno.ENOMEM, errno.EMFILE, errno.ENFILE)
ROOM_FOR_METADATA = 2**16


class CheckpointAccessError(OSError):
    """Raised if the system refuses to read or write a checkpoint; its content is not at fault.

    ``errno`` holds the system's number.
    """

    def __str__(self) -> str:
        return str(self.strerror)

    @classmethod
    def of_read(cls, number: int, checkpoint: Path) -> "CheckpointAccessError":
        """Returns the error for a checkpoint that could not be read."""
        return cls(
            number,
            f"Checkpoint {checkpoint} could not be read: {os.strerror(number)}. It may be whole, "
            "so it stays where it is. Mend the cause (memory, file handles, permissions, the "
            "disk) and start again, or move it away to go on from the one before.",
        )


@contextlib.contextmanager
def explain_access(done: str, directory: Path) -> Iterator[None]:
    """Turns errors of the system into a CheckpointAccessError: "could not be ``done``"."""
    try:
        yield
    except Exception as error:  # orbax has many types for it
        number = system_errno(error)
        if number is None:
            raise
        raise CheckpointAccessError(
            number,
            f"A checkpoint in {directory} could not be {done}: {os.strerror(number)}. Those that "
            "are there stay as they are. Make room, or mend the permissions, and start again.",
        ) from error


def check_room(directory: Path, num_bytes: int) -> None:
    """Reserves ``num_bytes`` in the folder and gives them back.

    Without this check, Orbax fails in the background and prints hundreds of lines.

    Raises:
      OSError: if there is no room: the disk is full or read-only, or a quota is used up.
    """
    with tempfile.TemporaryFile(dir=directory) as file:
        if hasattr(os, "posix_fallocate"):  # macOS and Windows have none
            os.posix_fallocate(file.fileno(), 0, num_bytes + ROOM_FOR_METADATA)


def silence_orbax_errors() -> None:
    """Drops errors that orbax logs with tracebacks, because orbax also raises them."""
    logging.getLogger("absl").addFilter(_is_of_others)


def _is_of_others(record: logging.LogRecord) -> bool:
    return record.levelno < logging.ERROR or "orbax" not in record.pathname


def system_errno(error: BaseException | None) -> int | None:
    """Returns the errno of an error of the system; None if the content is wrong.

    TensorStore reports the system's errors only in its messages.
    """
    while error is not None:
        if isinstance(error, MemoryError):
            return errno.ENOMEM
        if isinstance(error, OSError) and error.errno not in (None, *MISSING):
            return error.errno
        if found := re.search(r"\[os_error_code='(\d+)'\]", str(error)):
            return None if int(found[1]) in MISSING else int(found[1])
        if "RESOURCE_EXHAUSTED" in str(error):
            return errno.ENOMEM
        for number in EXHAUSTED:
            if os.strerror(number) in str(error):
                return number
        error = error.__cause__ or error.__context__
    return None
