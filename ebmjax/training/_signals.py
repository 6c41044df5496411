"""Lets a signal stop a run at the next safe point, on all its processes at the same."""

import signal
from types import FrameType

import jax
from jax.sharding import Mesh

from ebmjax.training._processes import is_shared, largest


class StopRequest:
    """Makes SIGINT and SIGTERM only set ``signum``; a second SIGINT interrupts at once.

    Args:
      mesh: of the run; its processes agree on the signal.
      is_handling: whether signals are handled at all; else they do what the program wants.

    Attributes:
      signum: the signal that came to this process, or None.
    """

    def __init__(self, mesh: Mesh, is_handling: bool = True) -> None:
        self.signum: int | None = None
        self._handled = (signal.SIGINT, signal.SIGTERM) if is_handling else ()
        self._shared = mesh if is_shared(mesh) else None
        self._asked: jax.Array | None = None
        self._previous: dict[int, object] = {}

    def __enter__(self) -> "StopRequest":
        for signum in self._handled:
            try:
                self._previous[signum] = signal.signal(signum, self._handle)
            except ValueError:  # only the main thread may set handlers; others run without
                break
        return self

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        del frame
        if self.signum is not None and signum == signal.SIGINT:
            raise KeyboardInterrupt
        self.signum = signum

    def poll(self) -> int | None:
        """Returns the signal that stops the run here, or None; call it after every block.

        With several processes it is of one call before: to ask them all would wait for the block
        that has just begun.
        """
        if self._shared is None:
            return self.signum
        before, self._asked = self._asked, largest(self.signum or 0, self._shared)
        return None if before is None else int(before) or None

    def poll_all(self) -> int | None:
        """Returns the signal that came to any process up to now, or None."""
        if self._shared is None:
            return self.signum
        return int(largest(self.signum or 0, self._shared)) or None

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)  # type: ignore[arg-type]
