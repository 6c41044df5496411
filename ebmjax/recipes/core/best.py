"""Keeps the best state of a run, chosen by a number that the run monitors."""

import math
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from ebmjax.recipes.core.fields import Config, ConfigError, WorkdirError, choose
from ebmjax.training import CheckpointDamagedError, Checkpoints, TrainState

IS_HIGHER_BETTER = {
    "test_accuracy": True,
    "test_nll": False,
    "test_brier": False,
    "test_ece": False,
    "sample_fid": False,
    "sample_kid": False,
    "sample_is": True,
}
OF_SAMPLES = {"sample_fid", "sample_kid", "sample_is"}
CHECKPOINTS = {name: name for name in ("newest", "best")}
FOLDER = "best"


def check(config: Config, numbers: Collection[str]) -> None:
    """Raises ConfigError for an impossible choice, and for one that test images would make.

    Args:
      config: ``data.num_validation``, ``train.keep_best`` and ``eval.checkpoint`` are read.
      numbers: those of ``IS_HIGHER_BETTER`` that the family may monitor.
    """
    name = config.train.keep_best
    if name in IS_HIGHER_BETTER and name not in numbers:
        raise ConfigError(
            f"config.train.keep_best={name!r} is not monitored by this run, which monitors "
            f"{sorted(numbers)}: take one of these, or --config.train.keep_best=''."
        )
    checkpoint = choose("eval.checkpoint", config.eval.checkpoint, CHECKPOINTS)
    if name:
        choose("train.keep_best", name, {one: one for one in numbers})
    if name.startswith("test_") and not config.data.num_validation:
        raise ConfigError(
            f"config.train.keep_best={name!r} chooses a state by the images that it is judged by: "
            "hold training images out for the choice with --config.data.num_validation=N."
        )
    if checkpoint == "best" and not name:
        raise ConfigError(
            "config.eval.checkpoint='best' needs config.train.keep_best, the number that says "
            f"which state is best: set --config.train.keep_best to one of {sorted(numbers)}."
        )


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
    """

    def __init__(
        self,
        monitor: Callable[[TrainState, int], dict[str, Any]],
        workdir: Path,
        name: str,
        template: TrainState,
    ):
        self.monitor, self.folder, self.name = monitor, workdir / FOLDER, name
        self.sign = 1.0 if IS_HIGHER_BETTER[name] else -1.0
        self.best, self.kept_step = -math.inf, -1
        found = _kept(workdir, template)
        if found is not None:
            self.best, self.kept_step = self.sign * found[1][name], found[1]["step"]

    def __call__(self, state: TrainState, step: int) -> dict[str, Any]:
        """Returns the row of ``monitor``.

        Raises:
          ConfigError: if it lacks the number.
        """
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
            with Checkpoints(self.folder, max_to_keep=1) as kept:
                kept.save(step, state, {"step": step, self.name: value})
        return row


def restore(workdir: Path, template: TrainState) -> TrainState:
    """Returns the state that ``KeepBest`` kept.

    Raises:
      WorkdirError: if there is none, or it is damaged.
      CheckpointMismatchError: see ``Checkpoints.restore_latest``.
    """
    found = _kept(workdir, template)
    if found is None:
        raise WorkdirError(
            f"--workdir {workdir} holds no best state: it monitored no finite number to choose "
            "one by after the first step. Take --config.eval.checkpoint=newest."
        )
    return found[0]


def _kept(workdir: Path, template: TrainState) -> tuple[TrainState, dict[str, Any]] | None:
    """Returns the state and its number, if there is one."""
    folder = workdir / FOLDER
    if not folder.exists():
        return None
    try:
        with Checkpoints(folder, max_to_keep=1) as kept:
            return kept.restore_latest(template)
    except CheckpointDamagedError as error:
        raise WorkdirError(
            f"{folder} holds a best state that cannot be read back as it was written. Delete that "
            "folder: a run that goes on keeps the best from there on, and one that has ended is "
            "evaluated with --config.eval.checkpoint=newest."
        ) from error
