"""Makes a run's folder, checks and locks it, and reads and writes its files."""

import contextlib
import json
import os
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import ebmjax
from ebmjax import _records
from ebmjax.recipes.config.errors import Config, WorkdirError
from ebmjax.recipes.folder.run_folder import (
    as_json,
    config_of,
    differing,
    explain_errors,
    read_json,
)

try:
    import fcntl
except ImportError:  # pragma: no cover (Windows has other locks)
    fcntl = None

PER_IMAGE = "per_image.npz"
PerImage = dict[str, np.ndarray]
"""Set of images to (images,); a number is the sum of the sets' means."""
RunParts = tuple[Any, PerImage]
"""Digest of the images, and a number of each image."""


def default_workdir(config_name: str) -> Path:
    """Returns ``runs/<config>/<time>-<process>`` in the current folder, new for every process."""
    return Path("runs") / config_name / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


def check(workdir: Path, config: Config, may_differ: str = "-") -> None:
    """Raises WorkdirError for a folder of another configuration's run, or of other files.

    Fields whose names begin with ``may_differ`` may have changed since.
    """
    path = workdir / "config.json"
    with explain_errors(workdir):
        if path.exists():
            if found := differing(config, as_json(config_of(workdir)), may_differ):
                raise WorkdirError(
                    f"--workdir {workdir} belongs to a run with another configuration: {found}. "
                    "Continue it with its own, or use another --workdir."
                )
        # A run killed while it wrote config.json has left a temporary file and nothing else.
        elif workdir.exists() and any(not p.match("config.*.tmp") for p in workdir.iterdir()):
            raise WorkdirError(
                f"--workdir {workdir} holds files but no config.json: name an empty or new folder."
            )


def prepare(workdir: Path, config: Config) -> None:
    """Makes the folder with its config.json, or checks that it has the same configuration.

    A finished run without checkpoints is not trained again.
    """
    check(workdir, config)
    path = workdir / "config.json"
    if (workdir / "summary.json").exists() and not _records.list_steps(workdir / "checkpoints"):
        raise WorkdirError(
            f"--workdir {workdir} holds a finished run, but no checkpoint. Put checkpoints/ back, "
            "or use another --workdir."
        )
    with explain_errors(workdir):
        workdir.mkdir(parents=True, exist_ok=True)
        check_writable(workdir)
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
    here = Path(__file__).resolve()
    options: dict[str, Any] = {"check": True, "capture_output": True, "text": True, "timeout": 10}
    git = ["git", "-C", str(here.parent)]
    describe = [*git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        # A copy inside another checkout does not have its commit.
        subprocess.run([*git, "ls-files", "--error-unmatch", here.name], **options)
        return subprocess.run(describe, **options).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def write_json(path: Path, report: dict[str, Any]) -> None:
    """Writes strict JSON, whole or not at all; null replaces numbers that are not finite."""
    strict = json.loads(json.dumps(report), parse_constant=lambda _: None)
    write_whole(path, json.dumps(strict, indent=2, sort_keys=True) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Writes a file whole or not at all."""
    temporary = path.with_name(f"{path.stem}.{os.getpid()}.tmp")
    temporary.write_text(text)
    temporary.replace(path)


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Writes arrays of any names to an .npz file; ``numpy.savez`` takes some for its arguments."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


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
    if not (folder / PER_IMAGE).exists():
        return None
    with np.load(folder / PER_IMAGE) as arrays:
        keys = [key for key in arrays if key.rpartition("#")[0] == name]
        return {key.rpartition("#")[2]: arrays[key] for key in keys} or None


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
    halves = (tuple(x[: len(seeds)] for x in stacked), tuple(x[len(seeds) :] for x in stacked))
    found = ebmjax.metrics.paired_difference(*halves)
    low, high = sorted([factor * found.low, factor * found.high])
    ends = {"low": low, "high": high, "seeds": len(seeds)}
    return {"difference": factor * found.difference, **ends}
