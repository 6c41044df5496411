"""Chooses the values of a search's trials and keeps them, by Optuna.

A trial's values depend only on the seed, its number and the trials that ended before, and one
record holds them all. So a search that was killed goes on with the trials that it would have had.
"""

import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, TrialState, create_trial

from ebmjax.recipes.config.errors import ConfigError, WorkdirError
from ebmjax.recipes.study.search_space import Space

optuna.logging.set_verbosity(optuna.logging.WARNING)

JOURNAL, ABOUT = "journal.log", "search"
IN_BLOCK = 3
"""Trials of a block, if every combination of the structural fields is tried."""
REDRAWS = 20
"""Draws of a trial whose values an earlier one had, at most."""


@dataclass(frozen=True)
class Search:
    """One search, which has a folder for itself.

    Attributes:
      space: the fields.
      number: name of the number that trials are compared by.
      direction: of the number, as Optuna names it.
      seed: of all choices.
      num_trials: trials in all.
    """

    space: Space
    number: str
    direction: Literal["minimize", "maximize"]
    seed: int
    num_trials: int

    @property
    def num_blocks(self) -> int:
        """Number of blocks of neighbouring trials, whose structural fields have the same values.

        A search compiles about sqrt(trials) training steps. Where that is enough for every
        combination, blocks have three trials, because a step that was compiled is kept.
        """
        names, root = self.space.structural, math.isqrt(self.num_trials - 1) + 1
        if not names or not self.space.traced:
            return self.num_trials if names else 1
        has_all = bool(self.space.combinations(names, root))
        return max(root, self.num_trials // IN_BLOCK) if has_all else root

    @property
    def num_programs(self) -> int:
        """Number of training steps that trials compile, at most."""
        names = self.space.structural
        return len(self.space.combinations(names, self.num_blocks)) or self.num_blocks


def draw(search: Search, before: Sequence[FrozenTrial]) -> dict[str, Any]:
    """Returns the values of the next trial.

    Every combination of the structural fields has one of the first blocks, if there are blocks
    enough. The first trial of another block chooses them by Optuna's TPE, as each trial chooses the
    others.
    """
    number, space = len(before), search.space
    starts = [block * search.num_trials // search.num_blocks for block in range(search.num_blocks)]
    block, start = max((item for item in enumerate(starts) if item[1] <= number), key=max)
    grid = space.combinations(space.structural, search.num_blocks)
    random.Random(search.seed).shuffle(grid)
    fixed: dict[str, Any] = {}
    if start < number:
        fixed = {name: before[start].params[name] for name in space.structural}
    elif block < len(grid):
        fixed = grid[block]
    free = {name: one for name, one in space.fields.items() if name not in fixed}
    values = fixed
    for redraw in range(REDRAWS):
        seed = np.random.SeedSequence([search.seed, number, redraw]).generate_state(1)
        sampler = optuna.samplers.TPESampler(seed=int(seed[0]))
        memory = optuna.create_study(direction=search.direction, sampler=sampler)
        memory.add_trials(before)
        values = fixed | {k: _round(one, memory.ask(free).params[k]) for k, one in free.items()}
        if all(values != trial.params for trial in before):
            break
    return {name: values[name] for name in space.fields}


def _round(one: Any, value: Any) -> Any:
    """Returns four digits of a real number, which a command can show, within its ends."""
    return min(max(float(f"{value:.4g}"), one.low), one.high) if type(value) is float else value


def open_study(search: Search, about: Mapping[str, Any], folder: Path, url: str) -> optuna.Study:
    """Returns Optuna's study of a folder, or at ``url``; another search's raises WorkdirError."""
    path = folder.absolute() / JOURNAL
    if (folder / "table.json").exists() and not (url or path.exists()):
        raise WorkdirError("it holds a study or another search. Name another folder.")
    name = str(path.parent) if url else ABOUT
    try:
        study = optuna.create_study(
            storage=url or _open_journal(path),
            study_name=name,
            direction=search.direction,
            load_if_exists=True,
        )
    except Exception as error:  # whatever a server says
        if not url:
            raise
        raise ConfigError(f"--storage={url} cannot be used: {error}") from error
    kept, ours = study.user_attrs.get(ABOUT), json.loads(json.dumps(about))
    if kept is None and not study.trials:
        study.set_user_attr(ABOUT, ours)
    elif kept != ours:
        other = next((key for key in ours if (kept or {}).get(key) != ours[key]), "")
        raise WorkdirError(
            f"it holds a search with another {other}, {(kept or {}).get(other)!r} and not "
            f"{ours[other]!r}. Continue it with what it began with, or name another folder."
        )
    return study


def _open_journal(path: Path) -> JournalStorage:
    """Returns the storage of a file, without the half of a line that a killed process left."""
    lock = JournalFileOpenLock(str(path))
    journal = JournalFileBackend(str(path), lock)
    lock.acquire()
    try:
        text = path.read_bytes()
        if not text.endswith(b"\n"):
            with path.open("r+b") as file:
                file.truncate(text.rfind(b"\n") + 1)
    finally:
        lock.release()
    return JournalStorage(journal)


def ask(search: Search, study: optuna.Study, num_together: int) -> list[FrozenTrial]:
    """Returns the trials that run next: those that were running, or ``num_together`` new ones.

    Each new trial is one record. All of a group are drawn before the first of them runs.
    """
    while len(before := study.trials) < search.num_trials:
        if len(before) % num_together == 0 and running(study):
            break
        study.add_trial(
            create_trial(
                state=TrialState.RUNNING,
                params=draw(search, before),
                distributions=dict(search.space.fields),
            )
        )
    return running(study)


def running(study: optuna.Study) -> list[FrozenTrial]:
    """Returns the trials that were drawn and have not ended."""
    return study.get_trials(states=(TrialState.RUNNING,))


def tell(study: optuna.Study, number: int, value: float | None, **notes: Any) -> None:
    """Ends a trial: with its number, or pruned without one. ``notes`` are kept with the trial."""
    trial = study.trials[number]
    for name, note in notes.items():
        study._storage.set_trial_user_attr(trial._trial_id, name, note)
    study.tell(number, value, state=TrialState.PRUNED if value is None else TrialState.COMPLETE)


def rank(study: optuna.Study) -> list[FrozenTrial]:
    """Returns the trials with a number, the best first."""
    is_largest_first = study.direction == optuna.study.StudyDirection.MAXIMIZE
    done = study.get_trials(states=(TrialState.COMPLETE,))
    return sorted(done, key=lambda trial: trial.value or 0.0, reverse=is_largest_first)
