"""Says what a long call does: a line when a phase begins, and its seconds while it lasts."""

import contextlib
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Literal, TypeVar

Where = Literal["stdout", "stderr", "nowhere"]
T = TypeVar("T")

SECONDS = 4.5  # a reminder that a busy machine wakes late still comes within 5
LONGEST = 6  # so that hours leave a line every half minute

_lock = threading.RLock()
_open: list[tuple[threading.Event, deque[str], Where]] = []  # phases that are said, innermost last
_said_at = 0.0
_where: ContextVar[Where | None] = ContextVar("where", default=None)


@contextlib.contextmanager
def tell_phases(where: Literal["stdout", "stderr", "nowhere"]) -> Iterator[None]:
    """Chooses where long calls inside say what they do, such as ``training.fit`` that it compiles.

    Elsewhere only a call that trains something hidden says so, on stderr. "nowhere" silences it.
    """
    before = _where.set(where)
    try:
        yield
    finally:
        _where.reset(before)


@contextlib.contextmanager
def phase(
    text: str, *, default: Where = "nowhere", seconds: float = SECONDS, again: str = ""
) -> Iterator[Callable[[str], None]]:
    """Says ``text`` now, and again with its seconds after every silence while the block runs.

    Each reminder waits twice as long as the one before it, up to ``LONGEST`` times the first. Only
    the innermost phase reminds. Nothing is said after the block, and its errors pass.

    Args:
      text: what is done, with its number of images or steps.
      default: where it is said outside of ``tell_phases``.
      seconds: silence before the first reminder, also counted from the lines of ``say``.
      again: what the reminders say in place of ``text``.

    Yields:
      ``note(text)``: text of the reminders to come, such as "step 300".
    """
    where, started = _where.get() or default, time.monotonic()
    notes, ended = deque([""], maxlen=1), threading.Event()
    me = ended, notes, where

    def remind() -> None:
        wait = longest = seconds
        while not ended.wait(wait):
            with _lock:
                silence = time.monotonic() - _said_at
                if silence >= longest and _open[-1:] == [me]:
                    say(f"{again or text}: {time.monotonic() - started:.0f} s{notes[-1]}", where)
                    silence, longest = 0.0, min(2.0 * longest, LONGEST * seconds)
                wait = longest - silence if silence < longest else longest

    if where != "nowhere":
        with _lock:
            say(text, where)
            _open.append(me)
        threading.Thread(target=remind, daemon=True).start()
    try:
        yield lambda note: notes.append(f", {note}")
    finally:
        with _lock:
            ended.set()
            _open[:] = [other for other in _open if other is not me]


def say_part(text: str) -> None:
    """Says what the phase at hand does next, now and in its reminders; nothing outside of one."""
    with _lock:
        if _open:
            _, notes, where = _open[-1]
            notes.append(f", {text}")
            say(f"  {text}", where)


def count(things: Iterable[T], total: int, what: str = "") -> Iterator[T]:
    """Yields ``things``; meanwhile reminders of the phase at hand say "3 of ``total`` ``what``"."""
    for number, thing in enumerate(things):
        with _lock:
            if _open:
                _open[-1][1].append(f", {number:,} of {total:,}{what}")
        yield thing


def say(text: str, where: Where = "stdout") -> None:
    """Prints a line at once; a stream that is closed is no error."""
    global _said_at
    stream = getattr(sys, where, None)
    with _lock, contextlib.suppress(OSError, ValueError):
        _said_at = time.monotonic()
        if stream is not None:
            print(text, file=stream, flush=True)
