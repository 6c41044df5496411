"""Lets one process at a time train or evaluate in a run's folder."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from ebmjax.recipes.config.errors import WorkdirError

try:
    import fcntl
except ImportError:  # pragma: no cover (Windows has other locks)
    fcntl = None


@contextlib.contextmanager
def only_process(workdir: Path) -> Iterator[None]:
    """Keeps other processes (and a second entry of this one) out of the same prepared folder.

    The lock is on config.json and ends with the process, also after kill -9. File systems without
    such locks are not guarded.

    Raises:
      WorkdirError: if another process is there.
    """
    with (workdir / "config.json").open() as file:
        _lock(file, workdir, "LOCK_EX")
        yield


def check_free(workdir: Path) -> None:
    """Raises WorkdirError if another process trains or evaluates in the folder; holds no lock."""
    with (workdir / "config.json").open() as file:
        _lock(file, workdir, "LOCK_SH")


def _lock(file: TextIO, workdir: Path, kind: str) -> None:
    try:
        if fcntl is not None:
            fcntl.flock(file, getattr(fcntl, kind) | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise WorkdirError(
            f"--workdir {workdir} is in use: another process trains or evaluates there. "
            "Wait for it, interrupt it, or use another --workdir. Nothing was changed."
        ) from error
    except OSError:  # a network's file system may have no locks
        pass
