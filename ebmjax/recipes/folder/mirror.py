"""Copies a run's folder to a URL while it trains, and fetches it where the folder is empty."""

import contextlib
import hashlib
import logging
import os
import re
import shutil
import stat
import tempfile
import threading
from pathlib import Path

from ebmjax._phases import phase
from ebmjax._records import STEP, list_steps
from ebmjax.recipes.config.errors import Config, WorkdirError
from ebmjax.recipes.folder import workdir
from ebmjax.recipes.folder.mirror_store import (
    KEPT,
    Files,
    MirrorStore,
    is_checkpoint,
    is_copied,
)
from ebmjax.recipes.folder.run_folder import below

logger = logging.getLogger(__name__)

PART = "config.mirror.tmp"
"""Folder in the run's for files on their way, which ``workdir.check`` lets be."""

POLL_SECONDS = 1.0
STALL_SECONDS = 300.0
"""Time at the end without a file or a piece of one copied, after which a mirror is given up."""

Key = tuple[str, int, int]
"""Name, size and time of a file: it is read again only if one of them changes."""


class Mirror:
    """Mirror of a run's folder, written by one process at a time.

    As a context it copies in a thread: at once, whenever there is another finished checkpoint, and
    at the end. A copy that fails is one warning, and the next one makes up for it.

    Args:
      url: of fsspec: a folder, file://, memory://, gs://, s3://, ...
      folder: the run's.

    Raises:
      WorkdirError: if the URL or its package is unknown, or it lies in the folder.
    """

    def __init__(self, url: str, folder: Path):
        self.url, self.folder = url, folder.absolute()
        self._store, self._files = MirrorStore(url, self.folder.resolve()), Files()
        self._mirrored = set[Key]()
        self._known: dict[Key, tuple[str, int]] = {}
        self._error, self._is_ending = "", threading.Event()
        self._thread = threading.Thread(target=self._copy_until_the_end, daemon=True)

    def fetch(self, config: Config, may_differ: str | None = None) -> None:
        """Fills an empty folder from the mirror, if that has a run; else looks whether they fit.

        ``may_differ`` is as of ``workdir.check``.

        Raises:
          WorkdirError: if the mirror cannot be read or is damaged, holds another run, or has come
            further than the folder.
        """
        part = self.folder / PART
        with self._store.explain("read"):
            self._files = self._store.read_newest()
            if "config.json" not in self._files:
                return
            with tempfile.TemporaryDirectory() as place:
                self._store.bring("config.json", self._files["config.json"], Path(place))
                try:
                    workdir.check(Path(place), config, may_differ)
                except WorkdirError as error:
                    text = str(error).replace(f"--workdir {place}", f"--mirror={self.url}")
                    raise WorkdirError(text.replace("--workdir", "--mirror")) from error
            if (self.folder / "config.json").exists():
                self._check_not_ahead()
                return
            entries = list(self.folder.iterdir()) if self.folder.exists() else []
            if part not in entries and any(not one.match("config.*.tmp") for one in entries):
                return  # not a run's folder: ``workdir.check`` refuses it
            size = sum(size for _, size in self._files.values()) / 2**20
            with phase(f"fetching {len(self._files)} files, {size:.0f} MiB, from {self.url}"):
                shutil.rmtree(part, ignore_errors=True)
                for name, about in self._files.items():
                    self._store.bring(name, about, part)
            # A kill in the middle leaves ``part`` and no config.json, so all is fetched again.
            for entry in sorted(part.iterdir(), key=lambda one: one.name == "config.json"):
                shutil.rmtree(self.folder / entry.name, ignore_errors=True)
                entry.replace(self.folder / entry.name)
            part.rmdir()

    def take_over(self) -> None:
        """Takes the mirror, after ``fetch``, or raises WorkdirError; others stop to write there."""
        with self._store.explain("written"):
            self._store.write(self._files)

    def __enter__(self) -> "Mirror":
        self.take_over()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Copies what is left, and says what could not be."""
        self._is_ending.set()
        try:
            with phase(f"copying what is left to {self.url}"):
                seen = None
                while self._thread.is_alive() and seen != self._store.moved:
                    seen = self._store.moved
                    self._thread.join(STALL_SECONDS)
        finally:
            with contextlib.suppress(OSError):  # the folder may be gone
                missing = {_key(self.folder, name) for name in self._names()} - self._mirrored
                if missing:
                    logger.warning(self._about({key[0] for key in missing}))
            shutil.rmtree(self.folder / PART, ignore_errors=True)

    def _about(self, missing: set[str]) -> str:
        ours = [name for name in missing if name.startswith("checkpoints/")]
        steps, others = sorted({int(name.split("/")[1]) for name in ours}), len(missing) - len(ours)
        parts = [f"the checkpoints of the steps {', '.join(map(str, steps))}"] * bool(steps)
        parts += [f"{others} other files"] * bool(others)
        why = self._error or f"nothing was copied for {STALL_SECONDS:.0f} s"
        return (
            f"not mirrored to {self.url}: {' and '.join(parts)} ({why}). They are in "
            f"{self.folder}; the same command tries again."
        )

    def _copy_until_the_end(self) -> None:
        seen: set[str] | None = None
        while True:
            is_ending = self._is_ending.wait(POLL_SECONDS)
            saved = {f"{name}/{step}" for name in KEPT for step in list_steps(self.folder / name)}
            if is_ending or seen is None or not saved <= seen:
                seen = saved
                try:
                    self.copy()
                    self._error = ""
                except Exception as error:  # file systems have many types for it
                    if not self._error:
                        logger.warning(
                            "--mirror=%s could not be written: %s. The run goes on, and its next "
                            "save and its end try again.",
                            self.url,
                            error or type(error).__name__,
                        )
                    self._error = str(error) or type(error).__name__
            if is_ending:
                return

    def copy(self) -> None:
        """Copies the folder as it is now, or raises as the file system and keeps the last copy."""
        self._store.check_alone()
        part = self.folder / PART
        keys = self._hold(part)
        for key in keys:
            if key in self._known:
                continue
            with (part / key[0]).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                size = file.tell()
            self._store.put(part / key[0], digest)
            self._known[key] = digest, size
        shutil.rmtree(part, ignore_errors=True)
        self._known = {key: self._known[key] for key in keys}
        self._files = {key[0]: about for key, about in self._known.items()}
        self._store.write(self._files)
        self._mirrored = set(keys)

    def _hold(self, part: Path) -> list[Key]:
        """Returns the files of one moment; new and changed ones are linked or copied to ``part``.

        So they stay while they are copied, however slowly.
        """
        while True:
            shutil.rmtree(part, ignore_errors=True)
            names = self._names()
            with contextlib.suppress(FileNotFoundError):  # a checkpoint was removed: once more
                keys = [_key(self.folder, name) for name in names]
                for key in keys:
                    if key not in self._known:
                        _link(self.folder, key[0], part)
                if set(filter(is_checkpoint, names)) <= set(self._names()):
                    return keys

    def _names(self) -> list[str]:
        """Returns the files that a mirror has."""
        top = os.fspath(self.folder)
        found = [
            name
            for place, mode in below(top)
            if stat.S_ISREG(mode) and is_copied(name := os.path.relpath(place, top))
        ]
        if "config.json" not in found:
            raise OSError(f"{top} has no config.json any more")
        return found

    def _check_not_ahead(self) -> None:
        """Raises WorkdirError for a folder that the run went on from elsewhere."""
        steps = [re.match(rf"checkpoints/({STEP})/", name) for name in self._files]
        theirs = max((int(found[1]) for found in steps if found), default=0)
        ours = max(list_steps(self.folder / "checkpoints"), default=0)
        # A run that recovers goes back, and may be killed before its mirror knows.
        path, digest = self.folder / "recoveries.json", ""
        if path.exists():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if theirs > ours and self._files.get(path.name, ("", 0))[0] == digest:
            raise WorkdirError(
                f"--mirror={self.url} holds step {theirs} of this run, and --workdir {self.folder} "
                f"only step {ours}. Name an empty --workdir to go on from the mirror, or another "
                "--mirror. Nothing was changed."
            )


def _key(folder: Path, name: str) -> Key:
    about = (folder / name).stat()
    return name, about.st_size, about.st_mtime_ns


def _link(folder: Path, name: str, part: Path) -> None:
    """Links a file of a checkpoint, which nobody changes; copies others, or where links fail."""
    source, target = folder / name, part / name
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        if not is_checkpoint(name):
            raise PermissionError
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(source, target)
