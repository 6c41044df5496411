"""A bar for long chains: lines on stderr that say how far they are."""

import time
from collections.abc import Callable
from typing import Any

import jax

from ebmjax._phases import LONGEST, SECONDS, say

WIDTH = 20  # characters of the bar


def make_progress(num_steps: int) -> Callable[[Any], None]:
    """Returns a function of a traced step from 0 on, which says now and then how far it is.

    It says so at the end and after every silence of some seconds, which grows as in
    ``ebmjax._phases``. Whole programs call it, so that it measures time from step 0 of each run.
    """
    every = max(1, num_steps // 100)
    started = said = time.monotonic()
    wait = SECONDS

    def report(step: Any) -> None:
        nonlocal started, said, wait
        done, now = int(step) + 1, time.monotonic()
        if done == 1:
            started, said, wait = now, now, SECONDS
        if done < num_steps and now - said < wait:
            return
        said, wait = now, min(2.0 * wait, LONGEST * SECONDS)
        bar = "#" * (WIDTH * done // num_steps)
        left = (now - started) * (num_steps - done) / max(1, done - 1)
        until = f", about {left:.0f} s left" if done < num_steps else ""
        text = f"[{bar:.<{WIDTH}}] step {done:,} of {num_steps:,}, {now - started:.0f} s{until}"
        say(f"run_chain {text}", "stderr")

    def show_step(step: jax.Array) -> None:
        is_shown = (step % every == 0) | (step == num_steps - 1)
        jax.lax.cond(is_shown, lambda: jax.debug.callback(report, step), lambda: None)

    return show_step
