"""A run's folder: made, checked, locked and written, and read as data.

It may be damaged, of another version, or from a stranger: nothing in it is imported or executed, no
link leads out of it, and readers write nothing. Nothing here imports JAX.
"""

import contextlib
import json
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import ebmjax
from ebmjax import _npy, _records
from ebmjax._records import list_steps
from ebmjax._shown import SEE_FAQ, trim
from ebmjax._user_function import PACKAGE
from ebmjax.recipes.config import declare, families
from ebmjax.recipes.config.errors import Config, ConfigError, WorkdirError, flatten, pick

try:
    import fcntl
except ImportError:  # pragma: no cover (Windows has other locks)
    fcntl = None

LOCATIONS = ("data.path", "data.placement")
"""Fields for the place of the data, which may differ between two sittings of a run."""

ANOTHER = "It was edited, or the run was made by another version of ebmjax: put it back."

PER_IMAGE = "per_image.npz"
PerImage = dict[str, np.ndarray]
"""Set of images to (images,); a number is the sum of the sets' means."""
RunParts = tuple[Any, PerImage]
"""Digest of the images, and a number of each image."""


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
    """Returns the path of config.json; raises WorkdirError without it, or for ``check_links``."""
    if not folder.exists():
        raise WorkdirError(f"{folder} does not exist.")
    if not (folder / "config.json").exists():
        raise WorkdirError(f"{folder} is not the folder of a run: it has no config.json.")
    check_links(folder)
    return folder / "config.json"


def config_of(folder: Path) -> Config:
    """Returns the configuration in config.json of a run's folder.

    Raises:
      WorkdirError: if it is not one of this version, or has changed since a checkpoint was saved.
    """
    path = config_file(folder)
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
        declare.put(every[name], config, name, declare.from_json(every[name], name, flat[name]))
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
    if not isinstance(about, dict) or not isinstance(about.get("config"), dict):
        raise WorkdirError(f"{directory / str(step)} does not name its configuration. {ANOTHER}")
    if changes := differing(config, about["config"], "evals."):
        raise WorkdirError(
            f"{path} has changed since step {step} was saved: {changes}. Put it back as it was."
        )


def differing(config: Config, saved: dict[str, Any], *skipped: str) -> str:
    """Returns the first fields that differ from ``saved``, with both values; empty if none does.

    Names that begin with one of ``skipped`` do not count. Names that only one has come last.
    """
    ours, theirs = flatten(as_json(config)), flatten(saved)
    names = [
        name
        for name in [*sorted(ours.keys() & theirs.keys()), *sorted(ours.keys() ^ theirs.keys())]
        if ours.get(name) != theirs.get(name) and not name.startswith((*skipped, *LOCATIONS))
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
    why = ""
    if not steps:
        why = "holds no checkpoint to use: train first."
    elif step is not None and step not in steps:
        why = f"has no checkpoint of step {step}. It has those of steps {shown}."
    elif is_best and not best:
        why = "holds no best state, as it monitored no finite number to choose one by. Take "
        why += "--config.evals.checkpoint=newest."
    if why:
        raise WorkdirError(f"--workdir {folder} {why}")
    newest = newest_of(folder / "checkpoints")
    if newest.is_diverged and step is None and not is_best:
        raise WorkdirError(
            f"--workdir {folder} holds a run that diverged, by step {newest.step} of "
            f"{newest.total_steps}. A state of it is used only if you name it: --step= one of "
            f"{shown}, or --config.evals.checkpoint=best. {SEE_FAQ}"
        )
    step = best[-1] if is_best else newest.step if step is None else step
    return newest._replace(step=step, is_best=is_best)


def newest_of(directory: Path) -> Saved:
    """Returns the newest checkpoint whose description can be read."""
    steps = list_steps(directory)[::-1]
    with explain_errors(directory.parent):
        for step in steps:
            try:
                meta = _records.read_record(directory, step)["user"]
                total, is_diverged = int(meta["total_steps"]), bool(meta["is_diverged"])
            except (ValueError, OverflowError, KeyError, TypeError):
                continue
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                continue  # it lacks a file: others are errors of the system
            return Saved(step, step, total, False, is_diverged, meta)
    raise WorkdirError(
        f"None of the checkpoints {steps} in {directory} can be read back as it was written. Put "
        "the folder back as it was, or use another --workdir."
    )


def check(workdir: Path, config: Config, *may_differ: str) -> None:
    """Raises WorkdirError for a folder of another configuration's run, or of other files.

    Fields whose names begin with one of ``may_differ`` may have changed since.
    """
    path = workdir / "config.json"
    with explain_errors(workdir):
        if path.exists():
            if found := differing(config, as_json(config_of(workdir)), *may_differ):
                raise WorkdirError(
                    f"--workdir {workdir} belongs to a run with another configuration: {found}. "
                    "Continue it with its own, or use another --workdir."
                )
        # A run killed while it wrote config.json has left a temporary file and nothing else.
        elif workdir.exists() and any(not p.match("config.*.json") for p in workdir.iterdir()):
            raise WorkdirError(
                f"--workdir {workdir} holds files but no config.json: name an empty or new folder."
            )


def prepare(workdir: Path, config: Config) -> None:
    """Makes the folder with its config.json, or checks that it has the same configuration.

    A finished run without checkpoints is not trained again.
    """
    check(workdir, config)
    path = workdir / "config.json"
    if (workdir / "summary.json").exists() and not list_steps(workdir / "checkpoints"):
        raise WorkdirError(
            f"--workdir {workdir} holds a finished run, but no checkpoint. Put checkpoints/ back, "
            "or use another --workdir."
        )
    with explain_errors(workdir):
        workdir.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            write_whole(path, json.dumps(as_json(config), indent=2, sort_keys=True) + "\n")
        (workdir / "plots").mkdir(exist_ok=True)
    check(workdir, config)  # another process may have been the first


def check_writable(workdir: Path, option: str = "--workdir") -> None:
    """Raises WorkdirError unless a file can be made in the folder; leaves none.

    A folder that does not exist yet is judged by the nearest one above it that does.
    """
    with explain_errors(workdir, option):
        place = next(one for one in (workdir, *workdir.absolute().parents) if one.exists())
        tempfile.TemporaryFile(dir=place).close()


@contextlib.contextmanager
def only_process(workdir: Path) -> Iterator[None]:
    """Keeps others out of a prepared folder: a second entry, of any process, raises WorkdirError.

    The lock is on config.json and ends with the process, also after kill -9. File systems without
    such locks are not guarded.
    """
    with (workdir / "config.json").open() as file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise WorkdirError(
                f"--workdir {workdir} is in use: another process trains or evaluates there."
            ) from error
        except OSError:  # a network's file system may have no locks
            pass
        yield


def check_evaluated(workdir: Path, config: Config) -> None:
    """Raises WorkdirError if evaluation.json was made with another section ``evals``."""
    evals = read_json(workdir / "evaluation.json").get("evals")
    if found := differing(config, as_json(config) | {"evals": evals}):
        raise WorkdirError(
            f"{workdir}/evaluation.json was made with another config.evals: {found}. Evaluate it "
            "again with --mode=eval, or use another --workdir."
        )


def revision() -> str | None:
    """Returns the commit of this code, with "-dirty" if files have changed; None without git."""
    top = PACKAGE.parent
    if not (top / ".git").exists():  # a copy inside another checkout does not have its commit
        return None
    git = ["git", "-C", str(top), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(git, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def write_json(path: Path, report: dict[str, Any]) -> None:
    """Writes strict JSON, whole or not at all; null replaces numbers that are not finite."""
    strict = json.loads(json.dumps(report), parse_constant=lambda _: None)
    write_whole(path, json.dumps(strict, indent=2, sort_keys=True) + "\n")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields another path to write to, which takes the place of ``path`` once it is written."""
    temporary = path.with_name(f"{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Writes a file whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text)


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Writes arrays of any names to an .npz file; ``numpy.savez`` takes some for its arguments."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def read_arrays(path: Path, begins: str = "") -> dict[str, np.ndarray]:
    """Returns arrays of an .npz file, those whose names begin so; see ``_npy.find_array``.

    Raises:
      WorkdirError: if it is damaged, or holds anything but plain arrays.
    """
    try:
        names = [name for name in _npy.members(path)[0] if name.startswith(begins)]
        return {name: _npy.find_array(path, name).load() for name in names}
    except ValueError as error:
        raise WorkdirError(str(error)) from error


def save_snapshot(workdir: Path, step: int, arrays: Mapping[str, Any]) -> None:
    """Saves what monitoring saw at ``step``: ``monitor/<step>.npz``."""
    (workdir / "monitor").mkdir(exist_ok=True)
    write_arrays(workdir / "monitor" / f"{step:06d}.npz", arrays)


def snapshots(workdir: Path) -> list[Path]:
    """Returns the files of ``save_snapshot``, by step."""
    found = [path for path in (workdir / "monitor").glob("*.npz") if path.stem.isdecimal()]
    return sorted(filter(Path.is_file, found), key=lambda path: int(path.stem))


def read_rows(workdir: Path) -> list[dict[str, Any]]:
    """Returns the rows of metrics.jsonl, none if there is no such file; see ``_records``."""
    path = workdir / "metrics.jsonl"
    return _records.read_rows(path) if path.is_file() else []


def write_per_image(folder: Path, found: Mapping[str, PerImage]) -> dict[str, float]:
    """Writes per_image.npz: its arrays are called "<name in evaluation.json>#<set of images>".

    Returns the standard error of each number, because the test set is finite. Numbers of fewer than
    two images, and those that are not finite, are left out.
    """
    arrays, errors = {}, {}
    for name, parts in found.items():
        if all(len(part) > 1 and np.isfinite(part).all() for part in parts.values()):
            errors[name] = ebmjax.metrics.sampling_error(tuple(parts.values()))
            arrays |= {f"{name}#{part}": array for part, array in parts.items()}
    write_arrays(folder / PER_IMAGE, arrays)
    return errors


def read_per_image(folder: Path, name: str) -> PerImage | None:
    """Returns the number ``name`` of each image; None if it is missing."""
    path = folder / PER_IMAGE
    arrays = read_arrays(path, f"{name}#") if path.exists() else {}
    for key, array in arrays.items():
        is_kind = array.ndim == 1 and len(array) > 1 and array.dtype.kind in "buif"
        if not (is_kind and np.isfinite(array).all()):
            raise WorkdirError(f"{trim(key)} in {path} is no list of finite numbers. {ANOTHER}")
    return {key.removeprefix(f"{name}#"): array for key, array in arrays.items()} or None


def stack_parts(runs: Sequence[RunParts]) -> tuple[np.ndarray, ...] | None:
    """Returns (seeds, images) of each set; None unless there are runs, all on the same images."""
    images = {(digest, *((name, len(x)) for name, x in parts.items())) for digest, parts in runs}
    if len(images) != 1:
        return None
    return tuple(np.stack([parts[name] for _, parts in runs]) for name in runs[0][1])


def paired_difference(
    ours: Mapping[int, RunParts], theirs: Mapping[int, RunParts], *, factor: float = 1.0
) -> dict[str, Any] | None:
    """Returns the paired difference over common seeds; None without any on the same images."""
    seeds = [seed for seed in ours if seed in theirs]
    stacked = stack_parts([one[seed] for one in (ours, theirs) for seed in seeds])
    if stacked is None:
        return None
    halves = zip(*(np.split(x, 2) for x in stacked), strict=True)
    found = ebmjax.metrics.paired_difference(*halves)
    low, high = sorted([factor * found.low, factor * found.high])
    difference = factor * found.difference
    return {"difference": difference, "low": low, "high": high, "seeds": len(seeds)}
