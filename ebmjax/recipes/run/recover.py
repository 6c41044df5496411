"""Lets a run that diverged go on: back to a good checkpoint, with a new key and a remedy.

``recoveries.json`` holds what was done, and is written before anything else changes. So a process
that is killed at any moment is continued under the same remedies.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ebmjax import training
from ebmjax.recipes.config import families, remedies
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.config.ranges import MAX_INTEGER
from ebmjax.recipes.folder import workdir
from ebmjax.recipes.folder.workdir_lock import only_process
from ebmjax.recipes.models import build
from ebmjax.recipes.run import health
from ebmjax.recipes.run.best import FOLDER as BEST
from ebmjax.recipes.run.recovery_rows import cut_rows
from ebmjax.recipes.run.saved_recoveries import FILE as FILE
from ebmjax.recipes.run.saved_recoveries import Recovery as Recovery
from ebmjax.recipes.run.saved_recoveries import read as read
from ebmjax.recipes.run.saved_recoveries import read_complete as read_complete
from ebmjax.recipes.run.saved_recoveries import write
from ebmjax.types import Key

ABANDONED = "abandoned"
"""Folder of what a run measured after the steps that it went back to, by recovery."""

NUM_KEPT = {"stop": 3, "recover": 5}
"""Checkpoints that a run keeps: with more it can go back further."""

ABOVE_STEPS = MAX_INTEGER + 1
"""A recovery's key is numbered above all steps, whose keys come of the same root."""

SKIPPED_AT_END = 3
"""Skipped steps at the very end that are a divergence: there is no time for more to follow."""


def complete(path: Path, config: Config) -> list[Recovery]:
    """Returns ``read(path, config)``, and finishes what a killed process left half done."""
    found = read(path, config)
    if not found or found[-1].is_prepared:
        return found
    with only_process(path):
        return _prepare(path, found)


def remedied(config: Config, recoveries: Sequence[Recovery]) -> Config:
    """Returns ``config`` with all that the recoveries changed."""
    values = {name: new for one in recoveries for name, (_, new) in one.changes.items()}
    return remedies.changed(config, values)


def train_key(config: Config, recoveries: Sequence[Recovery]) -> Key:
    """Returns the key of training after some recoveries, or one for every repeat."""
    key = build.train_key(config)
    if not recoveries:
        return key
    number = ABOVE_STEPS + len(recoveries)
    fold = jax.random.fold_in if key.ndim == 0 else jax.vmap(jax.random.fold_in, (0, None))
    return fold(key, number)


def checkpoints(path: Path, config: Config) -> training.Checkpoints:
    """Returns the checkpoints of the run in ``path``."""
    num_kept = NUM_KEPT[config.train.get("on_divergence", "stop")]
    about = workdir.identity(config)
    return training.Checkpoints(path / "checkpoints", max_to_keep=num_kept, about=about)


def check_end(config: Config, result: training.FitResult) -> None:
    """Raises for a run that recovers and whose last steps were skipped, too few to end it.

    Raises:
      DivergenceError: as ``fit``.
    """
    num, step = int(np.min(result.state.consecutive_skipped)), int(result.state.step)
    if (
        config.train.get("on_divergence", "stop") == "stop"
        or num < SKIPPED_AT_END
        or result.signum is not None
    ):
        return
    reason = f"the last {num} steps had no finite update"
    error = training.DivergenceError(
        f"Training diverged: {reason}, up to step {step}.", step, step - num + 1, reason
    )
    error.wall_seconds, error.compile_seconds = result.wall_seconds, result.compile_seconds
    raise error


def go_back(
    path: Path,
    config: Config,
    experiment: build.Experiment,
    recoveries: Sequence[Recovery],
    error: training.DivergenceError,
) -> list[Recovery]:
    """Takes the run in ``path`` back to a checkpoint, and says so.

    That is the newest healthy one (``Checkpoints.kept_steps``) before the first skipped step and
    before the one that the last recovery went back to, whatever was saved since. Where none is left
    because later ones have replaced them, it is the oldest. Without any it is step 0.

    Args:
      path: the run's folder.
      config: as the run was given.
      experiment: that diverged, with all remedies of ``recoveries``.
      recoveries: earlier ones.
      error: how it diverged.

    Returns:
      ``recoveries`` and the new one.

    Raises:
      DivergenceError: ``error``, if the configuration says so or has no remedy left.
    """
    now = experiment.config or remedied(config, recoveries)
    remedy, changes = _next_remedy(path, config, now, len(recoveries), error)
    before = min([error.first_skipped, *(one.from_step for one in recoveries[-1:])])
    with checkpoints(path, config) as kept:
        good = kept.newest_before(before)
        oldest = min(kept.kept_steps(), default=0)
        if good is None and error.first_skipped > oldest > experiment.plan.checkpoint_every:
            good = kept.newest_before(oldest + 1)
    step, meta = good or (0, {"seconds": {"wall": 0.0, "compile": 0.0}})
    found = Recovery(
        number=len(recoveries) + 1,
        diverged_at=error.step,
        first_skipped=error.first_skipped,
        reason=error.reason,
        from_step=step,
        remedy=remedy,
        changes=changes,
        lost_seconds=round(error.wall_seconds - meta["seconds"]["wall"], 3),
        lost_compile_seconds=round(error.compile_seconds - meta["seconds"]["compile"], 3),
    )
    write(path, [*recoveries, found])
    prepared = _prepare(path, [*recoveries, found])
    print(found, *health.about(meta.get("health")), sep="\n", flush=True)
    return prepared


def _next_remedy(
    path: Path, config: Config, now: Config, num_before: int, error: training.DivergenceError
) -> tuple[str, dict[str, list[Any]]]:
    """Returns the remedy of the next recovery, and what it changes in ``now``.

    Raises:
      DivergenceError: ``error``, if the configuration says so or has no remedy left.
    """
    if config.train.get("on_divergence", "stop") == "stop":
        raise training.DivergenceError(
            f"{error} With --config.train.on_divergence=recover a new run tries such remedies "
            "itself."
        ) from error
    fields = families.fields_of(config)
    found = [(name, remedies.changes(fields, now, name)) for name in config.train.remedies]
    # One that changes nothing in this configuration is passed over.
    usable = [(name, changes) for name, changes in found if changes]
    if num_before == len(usable):
        tried = f"; {path}/{FILE} says what was tried" if num_before else ""
        raise training.DivergenceError(
            f"{error} The run recovered {len(usable)} times, and no remedy of "
            f"config.train.remedies={list(config.train.remedies)} is left{tried}."
        ) from error
    return usable[num_before]


def _prepare(path: Path, recoveries: Sequence[Recovery]) -> list[Recovery]:
    """Takes the folder back to the step of the last recovery; may be repeated after a crash.

    Rows, pictures and the best state of later steps move to ``abandoned/<number>``; later
    checkpoints are removed, last of all.
    """
    last = recoveries[-1]
    aside = path / ABANDONED / str(last.number)
    aside.mkdir(parents=True, exist_ok=True)
    cut_rows(path / "metrics.jsonl", aside, last.from_step)
    for file in [*workdir.snapshots(path), *(path / "plots").iterdir()]:
        if _step_of(file) > last.from_step:
            (aside / file.parent.name).mkdir(exist_ok=True)
            file.replace(aside / file.parent.name / file.name)
    if any(_step_of(file) > last.from_step for file in (path / BEST).glob("*")):
        (path / BEST).rename(aside / BEST)
    with training.Checkpoints(path / "checkpoints") as kept:
        kept.remove_after(last.from_step)
    done = [*recoveries[:-1], replace(last, is_prepared=True)]
    write(path, done)
    return done


def _step_of(file: Path) -> int:
    """Returns the step at the end of a file's name; -1 without any."""
    number = re.search(r"(\d+)$", file.stem)
    return int(number[1]) if number else -1
