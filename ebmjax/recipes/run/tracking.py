"""Shows a running run: event files for TensorBoard, and lines of progress."""

import math
import os
import time
from pathlib import Path
from typing import Any

import jax
from tensorboardX import SummaryWriter

from ebmjax import training
from ebmjax._phases import SECONDS, say
from ebmjax._shown import duration
from ebmjax.recipes.evaluators.result_tables import fid_text, mean_of

MEASURED = ("test_accuracy", "test_log_evidence", "density_tv", "sample_fid")
"""Numbers of the monitor that a line of progress shows."""
IN_LINES = ("loss", "accuracy", "reconstruction_error", "energy_gap", "log_density_gap")
IN_LINES += ("chain_acceptance_prob", "prior_acceptance", *MEASURED)


class TensorBoardWriter:
    """Writes the finite numbers of rows, also those in lists; each sitting has its file."""

    def __init__(self, folder: str | Path):
        self._folder = Path(folder).expanduser()
        self._writer: SummaryWriter | None = None

    def start(self, first_step: int) -> None:
        # tensorboardX names files by the second, and would write over one of the same second.
        number = len(list(self._folder.glob("events.out.tfevents.*")))
        self._writer = SummaryWriter(
            str(self._folder),
            # Hides rows that an interrupted run logged past its last checkpoint.
            purge_step=first_step + 1 if first_step else 0,
            filename_suffix=f".{number:04d}.step{first_step}.process{os.getpid()}",
        )

    def write(self, step: int, row: dict[str, Any]) -> None:
        assert self._writer is not None, "start() comes first"
        for path, value in jax.tree_util.tree_leaves_with_path(row):
            if isinstance(value, int | float) and math.isfinite(value):
                name = jax.tree_util.keystr(path, simple=True, separator="/")
                self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class Progress(training.Writer):
    """Prints a line with a row's numbers now and then, where it was measured, and at the end.

    The clock starts at the first row of training, after compiling.
    """

    def __init__(self, total_steps: int):
        self._total_steps = total_steps
        self._last = time.perf_counter()
        self._first: tuple[int, float] | None = None

    def write(self, step: int, row: dict[str, Any]) -> None:
        if "loss" not in row:
            return
        now = time.perf_counter()
        first_step, started = self._first = self._first or (step, now)
        is_shown = step == self._total_steps or not row.keys().isdisjoint(MEASURED)
        # Just sooner than a phase's reminder, which a line takes the place of.
        if now - self._last < SECONDS - 0.5 and not is_shown:
            return
        self._last = now
        texts = [
            fid_text(row) if name == "sample_fid" else f"{name} {mean_of(row[name]):.4g}"
            for name in IN_LINES
            if name in row
        ]
        if step > first_step and now > started:
            pace = (step - first_step) / (now - started)
            left = duration((self._total_steps - step) / pace)
            texts.append(f"{pace:.1f} steps/s  about {left} left")
        say("  ".join([f"step {step}/{self._total_steps}", *texts]))
