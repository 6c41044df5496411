"""Makes a run's folder, checks and locks it, and reads and writes its files."""

import contextlib
import json
import os
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ebmjax import _records
from ebmjax._records import list_steps
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

_QUIET: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 10}


def default_workdir(config_name: str) -> Path:
    """Returns ``runs/<config>/<time>-<process>`` in the current folder, new for every process."""
    return Path("runs") / config_name / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


def check(workdir: Path, config: Config, may_differ: str | None = None) -> None:
    """Raises WorkdirError for a folder of another configuration's run, or of other files.

    Fields whose names begin with ``may_differ`` may have changed since.
    """
    path = workdir / "config.json"
    with explain_errors(workdir):
        if path.exists():
            theirs = as_json(config_of(workdir))
            found = differing(config, theirs, lambda name: not name.startswith(may_differ or "-"))
            if found:
                raise WorkdirError(
                    f"--workdir {workdir} belongs to a run with another configuration: {found}. "
                    "Continue it with its own, or use another --workdir."
                )
        # A run killed while it wrote config.json has left a temporary file and nothing else.
        elif workdir.exists() and any(not p.match("config.*.tmp") for p in workdir.iterdir()):
            raise WorkdirError(
                f"--workdir {workdir} holds files but no config.json: name an empty or new folder."
            )


def check_checkpoints(workdir: Path, checkpoint_every: int) -> None:
    """Raises WorkdirError for a run that has saved checkpoints and has none left.

    A run that was killed before its first checkpoint may begin again; its rows reach at most the
    second checkpoint's step. If only the end is saved, ``checkpoint_every`` is 0.
    """
    if list_steps(workdir / "checkpoints"):
        return
    last_step = max((row["step"] for row in read_rows(workdir)), default=0)
    is_finished = (workdir / "summary.json").exists()
    if is_finished or 0 < 2 * checkpoint_every < last_step:
        raise WorkdirError(
            f"--workdir {workdir} holds {'a finished run' if is_finished else 'a run'} whose rows "
            f"reach step {last_step}, but no checkpoint. Put checkpoints/ back, or use another "
            "--workdir."
        )


def prepare(workdir: Path, config: Config) -> None:
    """Makes the folder with its config.json, or checks that it has the same configuration."""
    check(workdir, config)
    path = workdir / "config.json"
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
    theirs = {"evals": read_json(workdir / "evaluation.json").get("evals")}
    found = differing(config, theirs, lambda name: name.startswith("evals"))
    if found:
        raise WorkdirError(
            f"{workdir}/evaluation.json was made with another config.evals: {found}. Evaluate it "
            "again with --mode=eval, or use another --workdir."
        )


def revision() -> str | None:
    """Returns the commit of this code, with "-dirty" if files have changed; None without git."""
    here = Path(__file__).resolve()
    git = ["git", "-C", str(here.parent)]
    describe = [*git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        # A copy inside another checkout does not have its commit.
        subprocess.run([*git, "ls-files", "--error-unmatch", here.name], check=True, **_QUIET)
        return subprocess.run(describe, check=True, **_QUIET).stdout.strip()
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
    import numpy as np  # imported late: studies report mistakes without it

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
