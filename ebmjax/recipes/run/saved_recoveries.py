"""Writes and reads recoveries.json: what a run that diverged did to go on. Needs no JAX."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ebmjax._shown import SEE_FAQ, trim
from ebmjax.recipes.config import declare, families, remedies
from ebmjax.recipes.config.declare import Fields
from ebmjax.recipes.config.errors import Config, WorkdirError
from ebmjax.recipes.folder import run_folder, workdir

FILE = "recoveries.json"

STEPS = ("number", "diverged_at", "first_skipped", "from_step")
OTHERS = {
    "reason": str,
    "lost_seconds": (int, float),
    "lost_compile_seconds": (int, float),
    "is_prepared": bool,
}


@dataclass(frozen=True)
class Recovery:
    """One recovery of a run.

    Attributes:
      number: from 1 on.
      diverged_at: step at which too many had been skipped in a row.
      first_skipped: step from which on none had a finite update.
      reason: why steps were skipped; "" if unknown.
      from_step: step of the checkpoint that the run goes on from; 0 for the start.
      remedy: name in ``REMEDIES``.
      changes: value before and after of every field that the remedy changes.
      lost_seconds: training time between ``from_step`` and ``diverged_at``, compiling included.
      lost_compile_seconds: the part of it spent compiling.
      is_prepared: whether the folder is back at ``from_step``.
    """

    number: int
    diverged_at: int
    first_skipped: int
    reason: str
    from_step: int
    remedy: str
    changes: dict[str, list[Any]]
    lost_seconds: float
    lost_compile_seconds: float
    is_prepared: bool = False

    def report(self) -> dict[str, Any]:
        """Returns what summary.json says of it."""
        return {name: value for name, value in asdict(self).items() if name != "is_prepared"}

    def __str__(self) -> str:
        changed = ", ".join(
            f"config.{name} {old:g} -> {new:g}" for name, (old, new) in self.changes.items()
        )
        reason = f": {self.reason}, from step {self.first_skipped} on" if self.reason else ""
        return (
            f"Diverged at step {self.diverged_at}{reason}.\nRecovery {self.number}: goes on from "
            f"step {self.from_step} with a new key and {remedies.REMEDIES[self.remedy].words} "
            f"({changed}). {SEE_FAQ}"
        )


def write(path: Path, recoveries: Sequence[Recovery]) -> None:
    """Writes the recoveries of the run in ``path``."""
    workdir.write_json(path / FILE, {"recoveries": [asdict(one) for one in recoveries]})


def read(path: Path, config: Config) -> list[Recovery]:
    """Returns the recoveries of the run in ``path``, the first one first.

    Raises:
      WorkdirError: if the file does not hold any, or changes what no remedy changes.
    """
    file = path / FILE
    if not file.exists():
        return []
    saved: Any = run_folder.read_json(file).get("recoveries")
    try:
        _check(saved, families.fields_of(config))
        return [Recovery(**one) for one in saved]
    except (ValueError, TypeError) as error:
        raise WorkdirError(
            f"{file} must hold the recoveries of this run, but does not ({error}). The run cannot "
            "go on without it: put it back as it was, or use another --workdir."
        ) from error


def read_complete(path: Path, config: Config) -> list[Recovery]:
    """Returns ``read(path, config)``; a recovery that a killed process left raises WorkdirError."""
    found = read(path, config)
    if found and not found[-1].is_prepared:
        raise WorkdirError(
            f"--workdir {path} holds a run that was killed while it went back to step "
            f"{found[-1].from_step}: continue it first, by the command that it was started with."
        )
    return found


def _check(saved: Any, fields: Fields) -> None:
    """Raises TypeError or ValueError unless a run can have made ``saved``, which is followed."""
    if not isinstance(saved, list):
        raise TypeError(f"its recoveries are no list, but {trim(repr(saved))}")
    for number, one in enumerate(saved, start=1):
        if not isinstance(one, dict):
            raise TypeError(f"recovery {number} is no object, but {trim(repr(one))}")
        for name in STEPS:  # of these, folders and files are named
            if type(one.get(name)) is not int or one[name] < 0:
                raise ValueError(f"its {name} must be an integer, got {trim(repr(one.get(name)))}")
        for name, kinds in OTHERS.items():
            if not isinstance(one.get(name), kinds):
                raise TypeError(f"its {name} cannot be {trim(repr(one.get(name)))}")
        if one["number"] != number:
            raise ValueError(f"recovery {number} has the number {one['number']}")
        _check_changes(one.get("remedy"), one.get("changes"), fields)


def _check_changes(remedy: Any, changes: Any, fields: Fields) -> None:
    if not isinstance(remedy, str) or remedy not in remedies.REMEDIES:
        raise ValueError(
            f"a remedy is one of {sorted(remedies.REMEDIES)}, got {trim(repr(remedy))}"
        )
    if not isinstance(changes, dict):
        raise TypeError(f"changes are no object, but {trim(repr(changes))}")
    for name, values in changes.items():
        if name not in fields or remedies.change_of(remedy, name) is None:
            raise ValueError(f"the remedy {remedy} does not change {trim(repr(name))}")
        if not isinstance(values, list) or len(values) != 2:
            raise ValueError(f"{name} must have two values, got {trim(repr(values))}")
        for value in values:
            declare.from_json(fields[name], name, value)
