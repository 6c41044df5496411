"""Lets a run that diverged go on: back to a good checkpoint, with a new key and a remedy.

``recoveries.json`` holds what was done, and is written before anything else changes. So a process
that is killed at any moment is continued under the same remedies.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ebmjax import training
from ebmjax._shown import SEE_FAQ
from ebmjax.recipes.config import families, remedies
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.folder import workdir
from ebmjax.recipes.run.best import FOLDER as BEST
from ebmjax.recipes.run.saved_recoveries import FILE, Recovery, read, write

if TYPE_CHECKING:
    from ebmjax.recipes.run.run import Run

ABANDONED = "abandoned"
"""Folder of what a run measured after the steps that it went back to, by recovery."""

SKIPPED_AT_END = 3
"""A run whose last steps, this many, were all skipped counts as diverged."""


def complete(path: Path, config: Config) -> list[Recovery]:
    """Returns ``read(path, config)``, and finishes what a killed process left half done."""
    found = read(path, config)
    if not found or found[-1].is_prepared:
        return found
    with workdir.only_process(path):
        return _prepare(path, found)


def check_end(config: Config, result: training.FitResult) -> None:
    """Raises DivergenceError, as ``fit``, if the last steps were skipped, too few to end a run.

    Only for runs that recover.
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


def go_back(run: "Run", error: training.DivergenceError) -> list[Recovery]:
    """Takes a run that diverged back to a checkpoint, and returns its recoveries with the new one.

    That is the newest healthy one (``Checkpoints.list_steps``) before the first skipped step and
    before the one that the last recovery went back to, whatever was saved since. Where none is left
    because later ones have replaced them, it is the oldest. Without any it is step 0.

    Raises:
      DivergenceError: ``error``, if the configuration says so or has no remedy left.
    """
    remedy, changes = _next_remedy(run, error)
    before = min([error.first_skipped, *(one.from_step for one in run.recoveries[-1:])])
    with run.checkpoints() as kept:
        good = kept.newest_before(before)
        oldest = min(kept.list_steps(), default=0)
        if good is None and error.first_skipped > oldest > run.experiment.plan.checkpoint_every:
            good = kept.newest_before(oldest + 1)
    step, meta = good or (0, {"seconds": {"wall": 0.0, "compile": 0.0}})
    found = Recovery(
        number=len(run.recoveries) + 1,
        diverged_at=error.step,
        first_skipped=error.first_skipped,
        reason=error.reason,
        from_step=step,
        remedy=remedy,
        changes=changes,
        lost_seconds=round(error.wall_seconds - meta["seconds"]["wall"], 3),
        lost_compile_seconds=round(error.compile_seconds - meta["seconds"]["compile"], 3),
    )
    write(run.path, [*run.recoveries, found])
    recoveries = _prepare(run.path, [*run.recoveries, found])
    print(found, *about_health(meta.get("health")), sep="\n", flush=True)
    return recoveries


def _next_remedy(run: "Run", error: training.DivergenceError) -> tuple[str, dict[str, list[Any]]]:
    """Returns the remedy of the next recovery, and what it changes; raises as ``go_back``."""
    train, now = run.config.train, run.experiment.config or run.now
    if train.get("on_divergence", "stop") == "stop":
        raise training.DivergenceError(
            f"{error.args[0]} With --config.train.on_divergence=recover a new run tries such "
            "remedies itself."
        ) from error
    fields = families.fields_of(run.config)
    found = [(name, remedies.changes(fields, now, name)) for name in train.remedies]
    # One that changes nothing in this configuration is passed over.
    usable = [(name, changes) for name, changes in found if changes]
    if len(run.recoveries) == len(usable):
        tried = f"; {run.path}/{FILE} says what was tried" if run.recoveries else ""
        raise training.DivergenceError(
            f"{error.args[0]} The run recovered {len(usable)} times, and no remedy of "
            f"config.train.remedies={list(train.remedies)} is left{tried}."
        ) from error
    return usable[len(run.recoveries)]


def _prepare(path: Path, recoveries: Sequence[Recovery]) -> list[Recovery]:
    """Takes the folder back to the step of the last recovery; may be repeated after a crash.

    Rows, pictures and the best state of later steps move to ``abandoned/<number>``; later
    checkpoints are removed, last of all.
    """
    last = recoveries[-1]
    aside = path / ABANDONED / str(last.number)
    aside.mkdir(parents=True, exist_ok=True)
    _cut_rows(path / "metrics.jsonl", aside, last.from_step)
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


def _cut_rows(file: Path, aside: Path, step: int) -> None:
    """Moves the rows after ``step`` to a file of the same name in ``aside``."""
    rows = training.read_rows(file) if file.exists() else []
    later = [row for row in rows if row["step"] > step]
    if later:
        workdir.write_whole(aside / file.name, _lines(later))
        workdir.write_whole(file, _lines([row for row in rows if row["step"] <= step]))


def _lines(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


class Rows(training.JsonlWriter):
    """metrics.jsonl of a run's folder, with a row for each recovery where the run goes on."""

    def __init__(self, path: Path, log_every: int, recoveries: Sequence[Recovery]):
        super().__init__(path / "metrics.jsonl", log_every=log_every)
        self._recoveries = recoveries

    def start(self, first_step: int) -> None:
        super().start(first_step)
        rows = training.read_rows(self.path) if self._recoveries else []
        known = [row["recovery"]["number"] for row in rows if "recovery" in row]
        for one in self._recoveries:
            if one.number not in known:
                # Without seconds: an interrupted run writes the same rows.
                row = {name: v for name, v in one.report().items() if "seconds" not in name}
                self.write(first_step, {"recovery": row})


def about_health(health: dict[str, Any] | None) -> list[str]:
    """Returns a line that says what a checkpoint, or the end of a run, was judged by."""
    if not health or health["centre"] is None:
        return []
    name, value, centre, width = (health[key] for key in ("name", "value", "centre", "width"))
    how = "within" if health["is_healthy"] else "outside of"
    number = "not finite" if value is None else f"{value:.3g}"
    return [f"{name} {number} there, {how} {centre:.3g} +- {width:.3g}, where it has been."]


def about_bad_end(path: Path, health: dict[str, Any] | None) -> list[str]:
    """Returns lines about a run in ``path`` that ended outside its band; none for a healthy one."""
    if not health or health["is_healthy"]:
        return []
    with training.Checkpoints(path / "checkpoints", is_read_only=True) as kept:
        steps = kept.list_steps()
    newest = f"of step {steps[-1]}" if steps else "not kept any more"
    return [
        "The run ended in bad health. " + "".join(about_health(health)),
        f"The newest checkpoint before it is {newest}. {SEE_FAQ}",
    ]
