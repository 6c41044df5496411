"""The best state that a run has come by, judged by a number of its own evaluations."""

import math
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from ebmjax.training import Checkpoints, TrainState
from experiments.config import Config
from experiments.errors import ConfigError, WorkdirError
from experiments.validate import choose

IS_HIGHER_BETTER = {
    "test_accuracy": True,
    "test_nll": False,
    "test_brier": False,
    "test_ece": False,
    "sample_fid": False,
    "sample_is": True,
}
CHECKPOINTS = {name: name for name in ("newest", "best")}
FOLDER = "best"


def check(config: Config, numbers: Collection[str]) -> None:
    """Raises ConfigError for a choice that cannot be made, or that test images would make.

    Args:
      config: ``data.num_validation``, ``train.keep_best`` and ``eval.checkpoint`` are read.
      numbers: those of ``IS_HIGHER_BETTER`` that evaluations of the family may tell.
    """
    name = config.train.keep_best
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
    """``evaluate`` that also saves the state whenever its number is the best so far.

    The first of equals is kept, and none of before training or without a finite number. Of an
    interrupted run, what it kept counts on.

    Args:
      evaluate: a run's own.
      workdir: gets ``best/``, one checkpoint.
      name: of the number, in ``IS_HIGHER_BETTER``.
      template: a state like those that are kept.
    """

    def __init__(
        self,
        evaluate: Callable[[TrainState, int], dict[str, Any]],
        workdir: Path,
        name: str,
        template: TrainState,
    ):
        self.evaluate, self.folder, self.name = evaluate, workdir / FOLDER, name
        self.sign = 1.0 if IS_HIGHER_BETTER[name] else -1.0
        self.best = -math.inf
        if self.folder.exists():
            with Checkpoints(self.folder, max_to_keep=1) as kept:
                found = kept.restore_latest(template)
            self.best = self.sign * found[1][name] if found else -math.inf

    def __call__(self, state: TrainState, step: int) -> dict[str, Any]:
        """The row of ``evaluate``.

        Raises:
          ConfigError: if it lacks the number.
        """
        row = self.evaluate(state, step)
        if self.name not in row:
            raise ConfigError(
                f"config.train.keep_best={self.name!r} is no number of this run's evaluations, "
                f"which tell {sorted(row)}: take one of these, or --config.train.keep_best=''."
            )
        value = row[self.name]
        if step > 0 and math.isfinite(value) and self.sign * value > self.best:
            self.best = self.sign * value
            with Checkpoints(self.folder, max_to_keep=1) as kept:
                kept.save(step, state, {self.name: value})
        return row


def restore(workdir: Path, template: TrainState) -> TrainState:
    """The state that ``KeepBest`` kept.

    Raises:
      WorkdirError: if there is none.
      CheckpointMismatchError, CheckpointDamagedError: see ``Checkpoints.restore_latest``.
    """
    found = None
    if (workdir / FOLDER).exists():
        with Checkpoints(workdir / FOLDER, max_to_keep=1) as kept:
            found = kept.restore_latest(template)
    if found is None:
        raise WorkdirError(
            f"--workdir {workdir} holds no best state: none of its evaluations after the first "
            "step had a finite number to choose it by. Take --config.eval.checkpoint=newest."
        )
    return found[0]
