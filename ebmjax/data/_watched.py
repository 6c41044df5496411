"""Notices files that change while a run reads its images from them."""

from collections.abc import Iterable
from pathlib import Path

from ebmjax.data._source import DataUnavailableError


class DataChangedError(DataUnavailableError):
    """Raised if a file of images is no longer what it was; the message names it."""


class Watched:
    """Sizes and times of files, as they were first."""

    def __init__(self, files: Iterable[Path]):
        """Notes size and time of change of every file."""
        self._seen = {file: _stamp(file) for file in set(files)}

    def size_of(self, file: Path) -> int | None:
        """Returns the number of bytes that a file had first; None if it was not there."""
        return (self._seen[file] or (None,))[0]

    def check(self, files: Iterable[Path]) -> None:
        """Raises DataChangedError if one of ``files`` has changed since."""
        for file in set(files):
            now = _stamp(file)
            if now != self._seen[file]:
                what = "is gone" if now is None else "has another size or time of change"
                raise DataChangedError(
                    f"{file} {what} since this run began to read it: a run needs the same images "
                    "from its first step to its last. Put the file back as it was and give the "
                    "same command again, or begin a new run in another workdir."
                )


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
