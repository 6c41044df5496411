"""Reads what a report shows from a run's folder: numbers and texts, of any kind, as mere data."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ebmjax._records import list_steps
from ebmjax.recipes.config.errors import Config, WorkdirError, flatten
from ebmjax.recipes.config.show_fields import read_named
from ebmjax.recipes.folder import run_folder, saved_state, workdir

COMMAND = "command.json"
"""File with the command that started the run last, and how its fields differ from the file's."""

LARGEST, MAX_STEP = 1e300, 2**53
"""Numbers and steps beyond them are left out: they cannot be drawn."""


def record_command(folder: Path, command: str, config: Config, name: str) -> None:
    """Writes command.json; ``name`` is ``CONFIG[:VARIANT]``, as ``command`` names it."""
    named, changes = read_named(name), None
    if named is not None:
        old, new = (flatten(run_folder.as_json(one)) for one in (named, config))
        both = sorted(old.keys() | new.keys())
        changes = {k: [old.get(k), new.get(k)] for k in both if old.get(k) != new.get(k)}
    about = {"command": command, "config": name, "changes": changes}
    workdir.write_json(folder / COMMAND, about)


class RunData(NamedTuple):
    """Content of a run's folder; empty where a file is missing.

    Attributes:
      folder: the run's.
      files: its JSON objects as they are, by the names of their files.
      config: fields by dotted names.
      rows: of metrics.jsonl, with numbers only.
      results: numbers of summary.json by dotted names; of an unfinished run the newest of its rows.
      evaluation: numbers of evaluation.json by dotted names.
      saved: the newest checkpoint; None without any.
    """

    folder: Path
    files: Mapping[str, Mapping[str, Any]]
    config: Mapping[str, Any]
    rows: Sequence[dict[str, Any]]
    results: Mapping[str, Any]
    evaluation: Mapping[str, Any]
    saved: saved_state.Saved | None

    def newest(self, name: str) -> Mapping[str, Any]:
        """Returns the last row that has a number; {} without any."""
        return next((row for row in reversed(self.rows) if row.get(name) is not None), {})

    def entries(self, file: str, name: str) -> list[Any]:
        """Returns a list in one of the files; [] if it has none."""
        found = self.files[file].get(name)
        return found if isinstance(found, list) else []


def read(folder: Path) -> RunData:
    """Returns what the folder holds.

    Raises:
      WorkdirError: if it is no run's folder, or one of its files is damaged.
    """
    run_folder.config_file(folder)
    names = ("config.json", "summary.json", "evaluation.json", "recoveries.json", COMMAND)
    places = {name: folder / name for name in names}
    files = {n: run_folder.read_json(p) if p.exists() else {} for n, p in places.items()}
    rows = _clean(workdir.read_rows(folder))
    saved, checkpoints = None, folder / "checkpoints"
    with contextlib.suppress(WorkdirError):  # there is none, or all are damaged
        saved = saved_state.newest_of(checkpoints, list_steps(checkpoints))
    results = _numbers(files["summary.json"]) or {k: v for row in rows for k, v in row.items()}
    config, evaluation = flatten(files["config.json"]), _numbers(files["evaluation.json"])
    return RunData(folder, files, config, rows, results, evaluation, saved)


def _clean(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns rows that can be drawn: numbers, None for NaN, and lists of one length a name."""
    lengths: dict[str, int] = {}
    found = []
    for row in rows:
        kept = {}
        for name, value in row.items():
            length = _length(value)
            if length >= 0 and lengths.setdefault(name, length) == length:
                kept[name] = value
        if kept.get("step", MAX_STEP) < MAX_STEP:
            found.append(kept)
    return found


def _length(value: Any) -> int:
    """Returns the number of numbers in a list, 0 for one by itself, and -1 for all else."""
    if isinstance(value, list):
        return len(value) if value and not any(map(_length, value)) else -1
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return 0 if value is None or (is_number and abs(value) < LARGEST) else -1


def _numbers(tree: dict[str, Any]) -> dict[str, Any]:
    """Returns the numbers of a report by dotted names, and the names of extractors."""
    named = ("extractor", "generation.extractor.name")
    return {
        name: value
        for name, value in flatten(tree).items()
        if name != "revision"  # null, as a number may be, outside of a checkout
        and (isinstance(value, str) if name in named else _length(value) >= 0)
    }


def as_json(value: Any) -> str:
    """Returns a field's value as a table shows it."""
    return json.dumps(value, ensure_ascii=False)
