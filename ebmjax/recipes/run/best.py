"""Keeps the best state of a run, chosen by a number that the run monitors."""

import math
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ebmjax.recipes.config.checks import IS_HIGHER_BETTER
from ebmjax.recipes.config.errors import ConfigError, WorkdirError
from ebmjax.training import CheckpointDamagedError, Checkpoints, TrainState

FOLDER = "best"


class KeepBest:
    """Calls ``monitor`` and saves the state if its number is the best so far.

    The first of equals is kept; a state before training, or without a finite number, never is.
    After an interruption the kept state still counts, unless its step is taken again: then that
    step's number decides.

    Args:
      monitor: the run's monitor.
      workdir: gets ``best/``, one checkpoint.
      name: name of the number, in ``IS_HIGHER_BETTER``.
      template: a state with the run's structure and shapes.
      about: see ``Checkpoints``.
    """

    def __init__(
        self,
        monitor: Callable[[TrainState, int], dict[str, Any]],
        workdir: Path,
        name: str,
        template: TrainState,
        about: Mapping[str, Any] | None = None,
    ):
        self.monitor, self.folder, self.name = monitor, workdir / FOLDER, name
        self.sign = 1.0 if IS_HIGHER_BETTER[name] else -1.0
        self.about, self.best, self.kept_step = about, -math.inf, -1
        found = _read_kept(workdir, template)
        if found is not None:
            self.best, self.kept_step = self.sign * found[1][name], found[1]["step"]

    def __call__(self, state: TrainState, step: int) -> dict[str, Any]:
        """Returns the row of ``monitor``; raises ConfigError if it lacks the number."""
        if step <= self.kept_step:  # kept by an earlier sitting whose later steps are lost
            shutil.rmtree(self.folder)
            self.best, self.kept_step = -math.inf, -1
        row = self.monitor(state, step)
        if self.name not in row:
            raise ConfigError(
                f"config.train.keep_best={self.name!r} is not monitored by this run, "
                f"which monitors {sorted(row)}: take one of these, or --config.train.keep_best=''."
            )
        value = row[self.name]
        if step > 0 and math.isfinite(value) and self.sign * value > self.best:
            self.best, self.kept_step = self.sign * value, step
            with Checkpoints(self.folder, max_to_keep=1, about=self.about) as kept:
                kept.save(step, state, {"step": step, self.name: value})
        return row


def restore(workdir: Path, template: TrainState) -> TrainState:
    """Returns the state that ``KeepBest`` kept.

    Raises:
      WorkdirError: if there is none, or it is damaged.
      CheckpointMismatchError: see ``Checkpoints.restore_latest``.
    """
    found = _read_kept(workdir, template)
    if found is None:
        raise WorkdirError(
            f"--workdir {workdir} holds no best state: it monitored no finite number to choose "
            "one by after the first step. Take --config.evals.checkpoint=newest."
        )
    return found[0]


def _read_kept(workdir: Path, template: TrainState) -> tuple[TrainState, dict[str, Any]] | None:
    """Returns the state and its number, if there is one."""
    folder = workdir / FOLDER
    if not folder.exists():
        return None
    try:
        with Checkpoints(folder, is_read_only=True) as kept:
            return kept.restore_latest(template)
    except CheckpointDamagedError as error:
        raise WorkdirError(
            f"{folder} holds a best state that cannot be read back as it was written. Delete that "
            "folder: a run that goes on keeps the best from there on, and one that has ended is "
            "evaluated with --config.evals.checkpoint=newest."
        ) from error
