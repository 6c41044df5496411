"""A trace of what the devices do in some steps of a run."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from ebmjax._checks import check_at_least


class Profile:
    """Makes ``fit`` write a trace of ``num_steps`` steps, or of the whole blocks that hold them.

    The first block of a sitting is left out: it compiles, and the device warms up. Use it as a
    context, so that a run that breaks off closes its trace.

    Attributes:
      folder: gets the trace, for XProf and TensorBoard, and ``perfetto_trace.json.gz``.
      num_steps: number of steps to trace, at least 1.
      num_traced: number of traced steps; 0 if the sitting has one block.
    """

    def __init__(self, folder: str | Path, num_steps: int):
        check_at_least("num_steps", num_steps, 1)
        self.folder = Path(folder).expanduser()
        self.num_steps = num_steps
        self.num_traced = 0
        self._is_warm = False
        self._is_open = False

    def run(self, block: Callable[[], Any], size: int) -> Any:
        """Runs a block of ``size`` steps and returns what it returns, inside the trace or not."""
        if self.num_traced >= self.num_steps:
            return block()
        if self._is_warm and not self._is_open:
            jax.profiler.start_trace(self.folder, create_perfetto_trace=True)
            self._is_open = True
        outcome = jax.block_until_ready(block())
        self._is_warm = True
        if self._is_open:
            self.num_traced += size
            if self.num_traced >= self.num_steps:
                self.close()
        return outcome

    def close(self) -> None:
        """Ends the trace, if one was begun."""
        if self._is_open:
            self._is_open = False
            # JAX names a trace by the second, and would write over one of the same second.
            name = "plugins/profile/%Y_%m_%d_%H_%M_%S"
            while (self.folder / time.strftime(name)).exists():
                time.sleep(0.05)
            jax.profiler.stop_trace()

    def __enter__(self) -> "Profile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
