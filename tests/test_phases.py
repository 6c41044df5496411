"""Lines that say what a long call does."""

import io
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import partial

import pytest

from ebmjax import training
from ebmjax._phases import count, phase, say_part, tell_phases

QUICK = 0.02  # seconds of silence after which a phase reminds here


def wait_for(is_there: Callable[[], bool]) -> None:
    """Waits for a thread, and fails where it never does what it should."""
    until = time.monotonic() + 30
    while not is_there():
        assert time.monotonic() < until, "nothing came"
        time.sleep(QUICK / 10)


@contextmanager
def heard() -> Iterator[io.StringIO]:
    with redirect_stdout(io.StringIO()) as stream, tell_phases("stdout"):
        yield stream


def lines(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


def test_a_phase_is_said_at_once_and_reminds_while_it_lasts() -> None:
    with heard() as out, phase("reading 4,000 images", seconds=QUICK) as note:
        assert lines(out) == ["reading 4,000 images"]
        wait_for(lambda: len(lines(out)) > 1)
        assert lines(out)[1] == "reading 4,000 images: 0 s"
        note("number 7")
        wait_for(lambda: lines(out)[-1] == "reading 4,000 images: 0 s, number 7")
    said = out.getvalue()
    time.sleep(5 * QUICK)
    assert out.getvalue() == said, "said after its end"


def test_a_part_is_said_and_stands_in_the_reminders(capsys: pytest.CaptureFixture[str]) -> None:
    say_part("outside of a phase")
    with heard() as out, phase("evaluating", seconds=QUICK):
        say_part("attacking 9 images")
        wait_for(lambda: len(lines(out)) > 2)
    assert lines(out)[:3] == [
        "evaluating",
        "  attacking 9 images",
        "evaluating: 0 s, attacking 9 images",
    ]
    assert not capsys.readouterr().out


def test_lines_are_whole_where_threads_say_them() -> None:
    def work(name: str) -> None:
        with tell_phases("stdout"):
            for _ in range(20):
                with phase(name, seconds=1e-4):
                    time.sleep(1e-3)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("left", "right")]
    with heard() as out:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert set(lines(out)) == {"left", "right", "left: 0 s", "right: 0 s"}


def test_a_library_call_is_heard_where_it_hides_work_and_can_be_silenced() -> None:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        with phase("quiet"), phase("training the feature classifier", default="stderr"):
            pass
        with training.tell_phases("nowhere"), phase("silenced", default="stderr"):
            pass
        with training.tell_phases("stdout"), phase("moved", default="stderr"):
            pass
    assert (err.getvalue(), out.getvalue()) == ("training the feature classifier\n", "moved\n")


def test_things_that_are_counted_show_in_the_reminders() -> None:
    with heard() as out, phase("reading", seconds=QUICK):
        for said in count(
            [f"reading: 0 s, {n} of 3,000 headers" for n in range(3)], 3000, " headers"
        ):
            wait_for(partial(lambda said: said in lines(out), said))
    assert list(count("ab", 2)) == ["a", "b"]  # outside of a phase, too
