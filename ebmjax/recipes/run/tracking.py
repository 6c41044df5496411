"""Shows a running run: TensorBoard, a progress bar or plain lines."""

import json
import math
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tensorboardX import SummaryWriter
from tensorboardX.summary import hparams
from tqdm import tqdm

from ebmjax._phases import SECONDS, say, show_life
from ebmjax._shown import duration
from ebmjax.recipes.evaluators.result_tables import why_none
from ebmjax.recipes.evaluators.sample_scores import fid_text, mean_of

JUDGED = ("loss", "test_accuracy", "sample_fid", "density_tv", "test_log_evidence")
"""Numbers that stand beside the hyperparameters of runs in TensorBoard."""


class TensorBoardWriter:
    """Writes every number of a row as a scalar, and lists as ``name/0``, ``name/1``, ...

    A step's pictures go with its row. Each sitting of a run, and each recovery, has another file in
    the run's folder. ``hyperparameters`` are the configuration by dotted names.
    """

    def __init__(self, directory: str | Path, hyperparameters: Mapping[str, Any] | None = None):
        self._directory = Path(directory).expanduser()
        self._hyperparameters = hyperparameters or {}
        self._writer: SummaryWriter | None = None

    def start(self, first_step: int) -> None:
        # Hides rows that an interrupted run logged past its last checkpoint.
        purge_step = first_step + 1 if first_step else 0
        # tensorboardX names files by the second, and would write over one of the same second.
        number = len(list(self._directory.glob("events.out.tfevents.*")))
        suffix = f".{number:04d}.step{first_step}.process{os.getpid()}"
        self._writer = SummaryWriter(
            str(self._directory), purge_step=purge_step, filename_suffix=suffix
        )
        if self._hyperparameters:
            plain = {
                name: value if isinstance(value, bool | int | float | str) else json.dumps(value)
                for name, value in self._hyperparameters.items()
            }
            file: Any = self._writer.file_writer  # add_hparams would make a folder for them
            for summary in hparams(plain, dict.fromkeys(JUDGED)):
                file.add_summary(summary)

    def write(self, step: int, row: dict[str, Any]) -> None:
        assert self._writer is not None, "start() comes first"
        for name, number in finite_numbers(row).items():
            self._writer.add_scalar(name, number, step)
        for name, path in pictures_of(self._directory, step).items():
            with Image.open(path) as picture:
                pixels = np.asarray(picture.convert("RGB"))
            self._writer.add_image(name, pixels, step, dataformats="HWC")

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def finite_numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """Returns the numbers of a row that a service can draw; those of lists as ``name/0``, ..."""
    found = ((name + rest, x) for name, value in row.items() for rest, x in _numbers(value))
    return {name: x for name, x in found if isinstance(x, int | float) and math.isfinite(x)}


def pictures_of(folder: Path, step: int) -> dict[str, Path]:
    """Returns the pictures of a step in a run's folder, such as "samples", by name."""
    found = sorted((folder / "plots").glob(f"*_{step:06d}.png"))
    return {path.stem.rpartition("_")[0]: path for path in found}


def _numbers(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, list):
        entries = enumerate(value)
        return [(f"/{i}{rest}", number) for i, entry in entries for rest, number in _numbers(entry)]
    return [("", value)]


IN_LINES = {
    "loss": "loss",
    "accuracy": "accuracy",
    "test_accuracy": "test accuracy",
    "reconstruction_error": "squared error",
    "test_log_evidence": "test log evidence",
    "density_tv": "total variation",
    "sample_fid": "FID",  # in the words of ``fid_text``
    "energy_gap": "gap",
    "log_density_gap": "gap",
    "chain_acceptance_prob": "acceptance",
    "prior_acceptance": "acceptance of the prior",
}
"""Numbers that a line of progress shows, with their names there."""


class Progress:
    """Shows the newest numbers of a run, as a line of text."""

    def __init__(self, total_steps: int):
        self._total_steps = total_steps
        self._found: dict[str, tuple[int, Any]] = {}

    def start(self, first_step: int) -> None:
        """Shows nothing yet: the clock starts at the first row of training, after compiling."""

    def write(self, step: int, row: dict[str, Any]) -> None:
        if "loss" in row:
            self._found |= {name: (step, value) for name, value in row.items()}
            self._show(step, self._line(step))

    def close(self) -> None:
        """Does nothing."""

    def _show(self, step: int, line: str) -> None:
        raise NotImplementedError

    def _line(self, step: int) -> str:
        """Returns the numbers after ``step``; an older one says of which step it is."""
        texts = {
            name: f"{text} "
            + (why_none(name, value := self._found[name][1]) or f"{mean_of(value):.4g}")
            for name, text in IN_LINES.items()
            if name in self._found
        }
        if "sample_fid" in self._found:
            texts["sample_fid"] = fid_text({name: found[1] for name, found in self._found.items()})
        return "  ".join(
            text + f" (at {self._found[name][0]})" * (self._found[name][0] != step)
            for name, text in texts.items()
        )


class ProgressBar(Progress):
    """Progress bar with step rate, time left and the newest numbers, for terminals."""

    _first_step = 0
    _bar: tqdm | None = None

    def start(self, first_step: int) -> None:
        self._first_step = first_step

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()

    def _show(self, step: int, line: str) -> None:
        if self._bar is None:
            self._bar = tqdm(total=self._total_steps, initial=self._first_step, unit="step")
        self._bar.set_postfix_str(line, refresh=False)
        self._bar.update(step - self._bar.n)
        show_life()


class PlainLines(Progress):
    """Prints a line with the newest numbers now and then, for logs and pipes."""

    def __init__(self, total_steps: int):
        super().__init__(total_steps)
        self._last = time.perf_counter()
        self._reference: tuple[int, float] | None = None

    def _show(self, step: int, line: str) -> None:
        now = time.perf_counter()
        self._reference = self._reference or (step, now)
        # Just sooner than a phase's reminder, which a line takes the place of.
        if now - self._last < SECONDS - 0.5 and step != self._total_steps:
            return
        self._last = now
        steps, seconds = step - self._reference[0], now - self._reference[1]
        pace = ""
        if steps and seconds:
            left = (self._total_steps - step) * seconds / steps
            pace = f"  {steps / seconds:.1f} steps/s  about {duration(left)} left"
        say(f"step {step}/{self._total_steps}  {line}{pace}")


def progress_writer(total_steps: int) -> ProgressBar | PlainLines:
    """Returns a bar on a terminal, plain lines elsewhere."""
    return ProgressBar(total_steps) if sys.stderr.isatty() else PlainLines(total_steps)
