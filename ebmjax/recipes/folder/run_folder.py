"""Reads a run's folder as data: it may be damaged, of another version, or from a stranger.

Nothing in it is imported or executed, nothing is written, and no link leads out of it. Nothing here
imports JAX.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ebmjax import _records
from ebmjax._records import list_steps
from ebmjax._shown import SEE_FAQ, near_path, trim
from ebmjax.recipes.config import declare, families
from ebmjax.recipes.config.errors import Config, ConfigError, WorkdirError, flatten, pick

LOCATIONS = ("data.path", "data.placement")
"""Fields for the place of the data, which may differ between two sittings of a run."""

ANOTHER = "It was edited, or the run was made by another version of ebmjax: put it back."


@contextlib.contextmanager
def explain_errors(folder: Path, option: str = "--workdir") -> Iterator[None]:
    """Turns an error of the system into a WorkdirError."""
    try:
        yield
    except OSError as error:
        raise WorkdirError(
            f"{option} {folder} cannot be used: {error.strerror or error}. Name a folder that "
            "you may write to."
        ) from error


def read_json(path: Path) -> dict[str, Any]:
    """Returns the JSON object in one of a run's or a study's files, or raises WorkdirError."""
    with explain_errors(path.parent):
        try:
            return _records.read_json(path)
        except ValueError as error:  # also for bytes that are not text
            raise WorkdirError(
                f"{path} is not a JSON object as ebmjax writes it ({error}). Put it back as it "
                "was, or use another --workdir."
            ) from error


def check_links(folder: Path) -> None:
    """Raises WorkdirError for a folder with a link that leads out of it, a pipe or a device.

    A reader would read what the link names, and a writer would overwrite it.
    """
    top = os.path.realpath(folder)
    for above, folders, files in os.walk(top):
        for place in (os.path.join(above, name) for name in [*folders, *files]):
            target = os.path.realpath(place)
            if os.path.islink(place) and os.path.commonpath([top, target]) != top:
                raise WorkdirError(
                    f"{place} is a link that leads out of the run's folder, to {target}: remove it."
                )
            # A run at work removes some files meanwhile.
            if os.path.exists(place) and not (os.path.isfile(place) or os.path.isdir(place)):
                raise WorkdirError(f"{place} is neither a file nor a folder: remove it.")


def config_file(folder: Path) -> Path:
    """Returns the path of config.json; raises WorkdirError if there is none."""
    if not folder.exists():
        raise WorkdirError(f"{folder} does not exist.{near_path(folder)}")
    if not (folder / "config.json").exists():
        raise WorkdirError(f"{folder} is not the folder of a run: it has no config.json.")
    return folder / "config.json"


def config_of(folder: Path) -> Config:
    """Returns the configuration in config.json of a run's folder.

    Raises:
      WorkdirError: if it is not one of this version, or has changed since a checkpoint was saved.
    """
    path = config_file(folder)
    check_links(folder)
    saved = read_json(path)
    try:
        config = _as_config(saved)
    except (ConfigError, TypeError) as error:
        raise WorkdirError(f"{path}: {error} {ANOTHER}") from error
    for directory in (folder / "checkpoints", folder / "best"):
        for step in list_steps(directory):
            _check_unchanged(path, config, directory, step)
    return config


def _as_config(saved: dict[str, Any]) -> Config:
    family = saved.get("family")
    family = family if isinstance(family, str) else trim(family)
    pick("family", family, families.FAMILIES)
    flat = flatten(saved)
    every = families.all_fields(family, flat)
    config = declare.defaults(every)
    for name, one in every.items():
        if one.off is not ...:
            declare.put(one, config, name, one.off)
    for name in sorted(flat.keys() & every.keys()):
        flat[name] = declare.from_json(every[name], name, flat[name])
        declare.put(every[name], config, name, flat[name])
    fields = families.fields_of(config)
    for name in sorted(flat.keys() ^ fields.keys()):
        problem = "is missing" if name in fields else "is no field"
        raise ConfigError(f"config.{trim(name)} {problem} of the family {family}.")
    families.prune(config)
    return config


def _check_unchanged(path: Path, config: Config, directory: Path, step: int) -> None:
    try:
        about = _records.read_record(directory, step).get("about")
    except (OSError, ValueError):  # damage, of which the readers of arrays tell
        return
    saved = about.get("config") if isinstance(about, dict) else None
    if not isinstance(saved, dict):
        raise WorkdirError(f"{directory / str(step)} does not name its configuration. {ANOTHER}")
    if changes := differing(config, saved, "evals."):
        raise WorkdirError(
            f"{path} has changed since step {step} was saved: {changes}. Put it back as it was."
        )


def differing(config: Config, saved: dict[str, Any], skipped: str = "-") -> str:
    """Returns the first fields that differ from ``saved``, with both values; empty if none does.

    Names that begin with ``skipped`` do not count. Those that only one of both has come last.
    """
    ours, theirs = flatten(as_json(config)), flatten(saved)
    names = [
        name
        for name in [*sorted(ours.keys() & theirs.keys()), *sorted(ours.keys() ^ theirs.keys())]
        if ours.get(name) != theirs.get(name) and not name.startswith((skipped, *LOCATIONS))
    ]
    return "; ".join(
        f"{name} was {trim(repr(theirs.get(name, 'absent')))} and is now "
        f"{trim(repr(ours.get(name, 'absent')))}"
        for name in names[:5]
    )


def as_json(config: Config) -> dict[str, Any]:
    """Returns the configuration as plain dicts and lists, without parts that it does not name."""
    named = config.copy_and_resolve_references()
    families.prune(named)
    return json.loads(named.to_json_best_effort())


class Saved(NamedTuple):
    """The state to use, as a run's folder describes it; its arrays are not read yet.

    ``step`` is its own, ``newest`` that of the newest checkpoint, whose ``meta`` this is. The best
    state is kept apart.
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
    steps, best = list_steps(folder / "checkpoints"), list_steps(folder / "best")
    shown = ", ".join(map(str, steps))
    is_best = step is None and config.evals.get("checkpoint") == "best"
    refused = {
        "holds no checkpoint to use: train first": not steps,
        f"has no checkpoint of step {step}. It has those of steps {shown}": (
            step is not None and step not in steps
        ),
        "holds no best state, as it monitored no finite number to choose one by. Take "
        "--config.evals.checkpoint=newest": is_best and not best,
    }
    for why, is_refused in refused.items():
        if is_refused:
            raise WorkdirError(f"--workdir {folder} {why}.")
    newest = newest_of(folder / "checkpoints", steps)
    if newest.is_diverged and step is None and not is_best:
        raise WorkdirError(
            f"--workdir {folder} holds a run that diverged, by step {newest.step} of "
            f"{newest.total_steps}. A state of it is used only if you name it: --step= one of "
            f"{shown}, or --config.evals.checkpoint=best. {SEE_FAQ}"
        )
    if is_best:
        step = best[-1]
    return newest._replace(step=newest.step if step is None else step, is_best=is_best)


def newest_of(directory: Path, steps: Sequence[int]) -> Saved:
    """Returns the newest checkpoint whose description can be read."""
    with explain_errors(directory.parent):
        for step in reversed(steps):
            try:
                meta = _records.read_record(directory, step)["user"]
                total, is_diverged = int(meta["total_steps"]), bool(meta["is_diverged"])
            except (ValueError, OverflowError, KeyError, TypeError):
                continue
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                continue  # it lacks a file: others are errors of the system
            return Saved(step, step, total, False, is_diverged, meta)
    raise WorkdirError(
        f"None of the checkpoints {list(reversed(steps))} in {directory} can be read back as it "
        "was written. Put the folder back as it was, or use another --workdir."
    )
