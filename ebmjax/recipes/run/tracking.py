"""Shows a running run: TensorBoard, wandb or trackio (``--track``), a bar or plain lines."""

import hashlib
import importlib
import inspect
import math
import os
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tensorboardX import SummaryWriter
from tqdm import tqdm

from ebmjax._phases import SECONDS, say, show_life
from ebmjax._shown import duration
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.evaluators.result_tables import fid_text, mean_of, why_none
from ebmjax.recipes.folder import workdir

SERVICES = ("wandb", "trackio")
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


class TensorBoardWriter:
    """Writes the numbers of rows and the pictures of their steps; each sitting has its file."""

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
        for name, number in _numbers(row).items():
            self._writer.add_scalar(name, number, step)
        for name, path in _pictures(self._folder, step).items():
            with Image.open(path) as picture:
                pixels = np.asarray(picture.convert("RGB"))
            self._writer.add_image(name, pixels, step, dataformats="HWC")

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def load_service(name: str) -> Any:
    """Returns the module of one of ``SERVICES``, or raises ConfigError."""
    if name not in SERVICES:
        raise ConfigError(f"track must be one of {', '.join(SERVICES)}, got {name!r}.")
    try:
        module = importlib.import_module(name)
        if not hasattr(module, "init"):  # a folder of that name beside the command
            raise ImportError(f"{name} has no function init")
        return module
    except ImportError as error:
        raise ConfigError(
            f"--track={name} needs the package {name}, which cannot be imported ({error}). Install "
            f"it (pip install {name}), or leave --track out."
        ) from error


class ServiceWriter:
    """Sends rows, the pictures of their steps, and the configuration to wandb or trackio.

    A run that continues in its folder goes on in the same tracked run, and sends no row twice.

    Args:
      name: one of ``SERVICES``.
      folder: the run's.
      fields: the configuration by dotted names, as JSON holds it.
    """

    def __init__(self, name: str, folder: Path, fields: Mapping[str, Any]):
        self._name, self._folder, self._fields = name, folder, dict(fields)
        self._run: Any = None
        self._sent = max((row["step"] for row in workdir.read_rows(folder)), default=-1)

    def start(self, first_step: int) -> None:
        """Begins or continues the tracked run; raises ConfigError if the service refuses."""
        module, place = load_service(self._name), str(self._folder.absolute())
        name = f"{self._folder.absolute().name}-{hashlib.sha256(place.encode()).hexdigest()[:8]}"
        project = os.environ.get(f"{self._name.upper()}_PROJECT", "ebmjax")
        options = {"project": project, "name": name, "config": self._fields, "resume": "allow"}
        if "id" in inspect.signature(module.init).parameters:
            options["id"] = name
        try:
            self._run = module.init(**options)
        except Exception as error:
            raise ConfigError(
                f"--track={self._name} could not begin: {str(error).rstrip('.')}. The same command "
                "without --track trains all the same."
            ) from error

    def write(self, step: int, row: dict[str, Any]) -> None:
        """Sends a row; the training goes on without the service if that fails."""
        if self._run is None or step <= self._sent:
            return
        try:
            image = load_service(self._name).Image
            seen = {k: image(str(path)) for k, path in _pictures(self._folder, step).items()}
            if found := _numbers(row) | seen:
                self._run.log(found, step=step)
                self._sent = step
        except Exception as error:
            self._run = None
            warnings.warn(f"--track={self._name} ended at step {step}: {error}", stacklevel=2)

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()


def _numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the finite numbers of a row; those of lists as ``name/0``, ``name/1``, ..."""

    def flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, list):
            for i, entry in enumerate(value):
                yield from flat(f"{name}/{i}", entry)
        elif isinstance(value, int | float) and math.isfinite(value):
            yield name, value

    return dict(pair for name, value in row.items() for pair in flat(name, value))


def _pictures(folder: Path, step: int) -> dict[str, Path]:
    """Returns the pictures of a step in a run's folder, such as "samples", by name."""
    found = sorted((folder / "plots").glob(f"*_{step:06d}.png"))
    return {path.stem.rpartition("_")[0]: path for path in found}


class Progress:
    """Shows the newest numbers of a run: in a bar on a terminal, elsewhere by a line now and then.

    The clock starts at the first row of training, after compiling.
    """

    def __init__(self, total_steps: int):
        self._total_steps, self._first_step = total_steps, 0
        self._found: dict[str, tuple[int, Any]] = {}
        self._bar: tqdm | None = None
        self._last = time.perf_counter()
        self._reference: tuple[int, float] | None = None

    def start(self, first_step: int) -> None:
        self._first_step = first_step

    def write(self, step: int, row: dict[str, Any]) -> None:
        if "loss" not in row:
            return
        self._found |= {name: (step, value) for name, value in row.items()}
        if sys.stderr.isatty():
            if self._bar is None:
                self._bar = tqdm(total=self._total_steps, initial=self._first_step, unit="step")
            self._bar.set_postfix_str(self._line(step), refresh=False)
            self._bar.update(step - self._bar.n)
            show_life()
            return
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
        say(f"step {step}/{self._total_steps}  {self._line(step)}{pace}")

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()

    def _line(self, step: int) -> str:
        """Returns the numbers after ``step``; an older one says of which step it is."""
        values = {name: value for name, (_, value) in self._found.items()}
        texts = {
            name: f"{text} {why_none(name, values[name]) or f'{mean_of(values[name]):.4g}'}"
            for name, text in IN_LINES.items()
            if name in values
        }
        if "sample_fid" in values:
            texts["sample_fid"] = fid_text(values)
        return "  ".join(
            text + f" (at {self._found[name][0]})" * (self._found[name][0] != step)
            for name, text in texts.items()
        )
