"""Finds the state of a run that is asked for, by one look at its folder. Needs no JAX."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ebmjax._records import list_steps, read_record
from ebmjax._shown import SEE_FAQ, near_path
from ebmjax.recipes.config.errors import Config, WorkdirError
from ebmjax.recipes.folder.run_folder import explain_errors

ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
"""Errors of a checkpoint that lacks a file, which is damage; others are the system's."""


class Saved(NamedTuple):
    """The state to use, as a run's folder describes it; its arrays are not read yet.

    Attributes:
      step: its step.
      newest: step of the newest checkpoint.
      total_steps: length of the run.
      is_best: whether it is the best state, which is kept apart.
      is_diverged: whether the run had diverged.
      meta: the newest checkpoint's, see ``Checkpoints.save``.
    """

    step: int
    newest: int
    total_steps: int
    is_best: bool
    is_diverged: bool
    meta: dict[str, Any]

    @property
    def is_end(self) -> bool:
        """Returns whether the run is finished and this is its outcome, the end or the best."""
        return self.newest == self.total_steps and (self.is_best or self.step == self.newest)

    def __str__(self) -> str:
        run = "finished" if self.newest == self.total_steps else "unfinished"
        run = f"diverged at step {self.newest:,}" if self.is_diverged else run
        best = "the best state, of " * self.is_best
        return f"{run}: {best}step {self.step:,} of {self.total_steps:,}"


def find_saved(folder: Path, config: Config, step: int | None = None) -> Saved:
    """Returns the state to use: of ``step``, else the best or the newest as ``config.evals`` says.

    Raises:
      WorkdirError: if it is not there; if the run diverged and neither a step nor the best state
        is asked for.
    """
    steps = list_steps(folder / "checkpoints")
    is_best = step is None and config.evals.get("checkpoint") == "best"
    if not steps:
        raise WorkdirError(
            f"--workdir {folder} holds no checkpoint to use.{near_path(folder)} Train first: "
            "`ebmjax run` with its configuration and this --workdir."
        )
    if step is not None and step not in steps:
        raise WorkdirError(
            f"--workdir {folder} has no checkpoint of step {step}. It has those of the steps "
            f"{', '.join(map(str, steps))}."
        )
    newest = newest_of(folder / "checkpoints", steps)
    if is_best:
        kept = list_steps(folder / "best")
        if not kept:
            raise WorkdirError(
                f"--workdir {folder} holds no best state: it monitored no finite number to choose "
                "one by after the first step. Take --config.evals.checkpoint=newest."
            )
        step = kept[-1]
    found = newest._replace(step=newest.step if step is None else step, is_best=is_best)
    if newest.is_diverged and step is None:
        raise WorkdirError(
            f"--workdir {folder} holds a run that diverged, by step {newest.step} of "
            f"{newest.total_steps}. A state of it is used only if you name it: --step= one of "
            f"{', '.join(map(str, steps))}, or its best state (if it has train.keep_best) with "
            "--config.evals.checkpoint=best. To train on from what it has learnt, use another "
            f"workdir and --config.train.start_from={folder}. {SEE_FAQ}"
        )
    return found


def newest_of(directory: Path, steps: Sequence[int]) -> Saved:
    """Returns the newest checkpoint whose description can be read."""
    with explain_errors(directory.parent):
        for step in reversed(steps):
            try:
                meta = read_record(directory, step)["user"]
                total, is_diverged = int(meta["total_steps"]), bool(meta["is_diverged"])
            except (ValueError, OverflowError, KeyError, TypeError, *ABSENT):
                continue
            return Saved(step, step, total, False, is_diverged, meta)
    raise WorkdirError(
        f"None of the checkpoints {list(reversed(steps))} in {directory} can be read back as it "
        "was written. Put the folder back as it was, or use another --workdir."
    )
