"""Lets a run that diverged go on: back to a good checkpoint, with a new key and smaller steps.

The folder goes back first, and ``recoveries.json`` is written then. A process that is killed
between diverges once more at the same step, and goes back to the same checkpoint.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ebmjax import training
from ebmjax._shown import SEE_FAQ, trim
from ebmjax.recipes.config import declare, families
from ebmjax.recipes.config.errors import Config, WorkdirError, flatten
from ebmjax.recipes.folder import run_folder, workdir

FILE = "recoveries.json"

MOST = 5
"""Recoveries of a run."""

SKIPPED_AT_END = 3
"""A run whose last steps, this many, were all skipped counts as diverged."""

SMALLER = {
    r"sampler\.(.+\.)?step_size|optimizer\.((prior|generator)\.(final_)?)?learning_rate": 0.5,
    r"sampler\.(.+\.)?noise_scale": 0.5**0.5,  # the temperature stays
}
"""Factor of a recovery, by patterns of the names of fields."""

KINDS: dict[Any, tuple[type, ...]] = {dict[str, list[Any]]: (dict,), float: (int, float)}
"""Types in JSON of the fields of a recovery that have another type here."""


@dataclass(frozen=True)
class Recovery:
    """One recovery of a run.

    Attributes:
      number: from 1 on.
      diverged_at: step at which too many had been skipped in a row.
      first_skipped: step from which on none had a finite update.
      reason: why steps were skipped; "" if unknown.
      from_step: step of the checkpoint that the run goes on from; 0 for the start.
      changes: value before and after of every field that it changes.
      lost_seconds: training time between ``from_step`` and ``diverged_at``, compiling included.
      lost_compile_seconds: the part of it spent compiling.
    """

    number: int
    diverged_at: int
    first_skipped: int
    reason: str
    from_step: int
    changes: dict[str, list[Any]]
    lost_seconds: float
    lost_compile_seconds: float

    def __str__(self) -> str:
        changes = (f"config.{name} {old:g} -> {new:g}" for name, (old, new) in self.changes.items())
        reason = f": {self.reason}, from step {self.first_skipped} on" if self.reason else ""
        return (
            f"Diverged at step {self.diverged_at}{reason}.\nRecovery {self.number}: goes on from "
            f"step {self.from_step} with a new key and smaller steps ({', '.join(changes)}). "
            f"{SEE_FAQ}"
        )


def smaller_steps(config: Config) -> dict[str, list[Any]]:
    """Returns [value, new value] of every field that a recovery changes.

    Steps of a sampler that adapt stay: a checkpoint holds them.
    """
    adapts = config.get("sampler", {}).get("target_acceptance") is not None
    found = {}
    for name, value in flatten(run_folder.as_json(config)).items():
        if not value or (adapts and name.startswith("sampler.")):
            continue
        for pattern, factor in SMALLER.items():
            if re.fullmatch(pattern, name):
                found[name] = [value, factor * value]
    return found


def read(path: Path, config: Config) -> list[Recovery]:
    """Returns the recoveries of the run in ``path``, the first one first.

    Raises:
      WorkdirError: if the file does not hold any, or changes what no recovery changes.
    """
    file = path / FILE
    if not file.exists():
        return []
    try:
        saved = run_folder.read_json(file)["recoveries"]
        if not isinstance(saved, list):
            raise TypeError(f"its recoveries are no list, but {trim(repr(saved))}")
        found = [Recovery(**one) for one in saved]
        for number, one in enumerate(found, start=1):
            _check(number, one, families.fields_of(config))
    except (ValueError, TypeError, KeyError) as error:
        raise WorkdirError(
            f"{file} must hold the recoveries of this run, but does not ({error}). The run cannot "
            "go on without it: put it back as it was, or use another --workdir."
        ) from error
    return found


def _check(number: int, one: Recovery, fields: declare.Fields) -> None:
    """Raises an error unless a run can have made this recovery, which is followed."""
    for name, kind in Recovery.__annotations__.items():
        value, kinds = getattr(one, name), KINDS.get(kind, (kind,))
        if type(value) not in kinds or (kind is int and value < 0):  # folders are named by steps
            raise ValueError(f"its {name} cannot be {trim(repr(value))}")
    if one.number != number:
        raise ValueError(f"recovery {number} has the number {one.number}")
    for name, values in one.changes.items():
        if name not in fields or not any(re.fullmatch(pattern, name) for pattern in SMALLER):
            raise ValueError(f"a recovery does not change {trim(repr(name))}")
        if not isinstance(values, list) or len(values) != 2:
            raise ValueError(f"{name} must have two values, got {trim(repr(values))}")
        for value in values:
            declare.from_json(fields[name], name, value)


def check_end(config: Config, result: training.FitResult) -> None:
    """Raises DivergenceError, as ``fit``, if the last steps were skipped, too few to end a run.

    Only for runs that recover.
    """
    num, step = int(result.state.consecutive_skipped), int(result.state.step)
    is_stopping = config.train.get("on_divergence", "stop") == "stop"
    if is_stopping or num < SKIPPED_AT_END or result.signum is not None:
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
    recoveries: Sequence[Recovery],
    checkpoints: Callable[[], training.Checkpoints],
    error: training.DivergenceError,
) -> list[Recovery]:
    """Takes a run that diverged back to a checkpoint, and returns its recoveries with the new one.

    That is the newest of ``Checkpoints.list_steps`` before the first skipped step and before the
    one that the last recovery went back to, whatever was saved since. Where later ones have
    replaced that one, it is the oldest; without any, step 0.

    Args:
      path: the run's folder.
      config: with all that the recoveries so far changed, and what the images decided.
      recoveries: so far.
      checkpoints: function that opens those of the run.
      error: what ended it.

    Raises:
      DivergenceError: ``error``, if the configuration says so or it has recovered often enough.
    """
    changes = smaller_steps(config)
    if config.train.get("on_divergence", "stop") == "stop":
        raise training.DivergenceError(
            f"{error.args[0]} With --config.train.on_divergence=recover a new run takes smaller "
            "steps itself."
        ) from error
    if len(recoveries) == MOST or not changes:
        raise training.DivergenceError(
            f"{error.args[0]} The run recovered {len(recoveries)} times with ever smaller steps"
            f"{f' ({path}/{FILE})' * bool(recoveries)}, and no more."
        ) from error
    last = recoveries[-1].from_step if recoveries else error.first_skipped
    with checkpoints() as kept:
        good = kept.newest_before(min(error.first_skipped, last))
        oldest = min(kept.list_steps(), default=0)
        if good is None and error.first_skipped > oldest > last > 0:  # later ones have replaced it
            good = kept.newest_before(oldest + 1)
        step, meta = good or (0, {"seconds": {"wall": 0.0, "compile": 0.0}})
        rows = workdir.read_rows(path)  # the checkpoints last: without any, no rows may be left
        lines = (json.dumps(row) + "\n" for row in rows if row["step"] <= step)
        workdir.write_whole(path / "metrics.jsonl", "".join(lines))
        kept.remove_after(step)
    found = Recovery(
        number=len(recoveries) + 1,
        diverged_at=error.step,
        first_skipped=error.first_skipped,
        reason=error.reason,
        from_step=step,
        changes=changes,
        lost_seconds=round(error.wall_seconds - meta["seconds"]["wall"], 3),
        lost_compile_seconds=round(error.compile_seconds - meta["seconds"]["compile"], 3),
    )
    print(found, flush=True)
    every = [*recoveries, found]
    workdir.write_json(path / FILE, {"recoveries": [asdict(one) for one in every]})
    return every


class Rows(training.JsonlWriter):
    """metrics.jsonl of a run's folder, with a row for each recovery where the run goes on."""

    def __init__(self, path: Path, recoveries: Sequence[Recovery]):
        super().__init__(path / "metrics.jsonl")
        self._recoveries = recoveries

    def start(self, first_step: int) -> None:
        super().start(first_step)
        rows = training.read_rows(self.path) if self._recoveries else []
        known = [row["recovery"]["number"] for row in rows if "recovery" in row]
        for one in self._recoveries:
            if one.number not in known:
                # Without seconds: an interrupted run writes the same rows.
                row = {name: v for name, v in asdict(one).items() if "seconds" not in name}
                self.write(first_step, {"recovery": row})
