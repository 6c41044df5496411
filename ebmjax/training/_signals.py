"""Lets a signal stop a run at the next safe point."""

import signal
from types import FrameType


class StopRequest:
    """Makes SIGINT and SIGTERM only set ``signum``; a second SIGINT interrupts at once.

    Attributes:
      signum: the signal that came, or None.
    """

    def __init__(self) -> None:
        self.signum: int | None = None
        self._previous: dict[int, object] = {}

    def __enter__(self) -> "StopRequest":
        for signum in (signal.SIGINT, signal.SIGTERM):
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

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)  # type: ignore[arg-type]
