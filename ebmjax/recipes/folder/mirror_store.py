"""A mirror at its URL: files by their digests, and manifests that name them."""

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ebmjax._records import MAX_BYTES, STEP, json_digest, parse_json
from ebmjax.recipes.config.errors import WorkdirError

KEPT = ("checkpoints", "best")
"""Folders of checkpoints, of which only finished ones are copied."""

PIECE = 2**24

Files = dict[str, tuple[str, int]]
"""Name, with slashes, to SHA-256 and number of bytes."""


class MirrorStore:
    """``files/<SHA-256>`` and ``manifests/<number>.json`` below a URL, by fsspec.

    A manifest names all files that a folder had at one moment. It is written after them, and what
    only older ones name is removed after it. So wherever a copy is cut off, the newest whole
    manifest has all its files.

    Raises:
      WorkdirError: if the URL or its package is unknown, or it lies in ``folder``, the run's.
    """

    def __init__(self, url: str, folder: Path):
        self.url = url
        with self.explain("opened"):
            from fsspec import Callback  # imported late: only runs with a mirror need it
            from fsspec.core import url_to_fs
            from fsspec.implementations.local import LocalFileSystem

            self._fs, root = url_to_fs(url)
        if isinstance(self._fs, LocalFileSystem) and Path(root).resolve().is_relative_to(folder):
            raise WorkdirError(f"--mirror={url} must not lie in the run's folder, {folder}.")
        self._root, self._progress = root.rstrip("/"), Callback()
        self._number, self._there = -1, set[str]()  # of the newest manifest, and its files

    @property
    def moved(self) -> int:
        """Rises while something is copied."""
        return self._progress.value

    def read_newest(self) -> Files:
        """Returns the files of the newest whole manifest; none of a new mirror."""
        numbers = self._numbers()
        self._number = max(numbers, default=-1)
        for number in reversed(numbers):
            with self._fs.open(self._manifest(number), "rb") as file:
                text = file.read(MAX_BYTES + 1)
            with contextlib.suppress(ValueError):  # a kill cut it off
                return _parse_manifest(text)
        if self._list("files"):
            raise WorkdirError(
                f"--mirror={self.url} is damaged: it has files and no manifest that names them. "
                "Move it away, or use another --mirror."
            )
        return {}

    def write(self, files: Files) -> None:
        """Writes the next manifest, and removes what it does not name."""
        for name in ("files", "manifests"):
            self._fs.makedirs(f"{self._root}/{name}", exist_ok=True)
        text = json.dumps({"files": files, "digest": json_digest(files)}).encode()
        _parse_manifest(text)  # so that it can be read
        older = self.check_alone()
        self._number += 1
        self._fs.pipe_file(self._manifest(self._number), text)
        self._there = {digest for digest, _ in files.values()}
        for number in older:
            self._fs.rm_file(self._manifest(number))
        for name in self._list("files"):
            if name not in self._there:
                self._fs.rm_file(f"{self._root}/files/{name}")

    def put(self, path: Path, digest: str) -> None:
        """Copies a file, unless it is there."""
        if digest not in self._there:
            place = f"{self._root}/files/{digest}"
            self._fs.put_file(str(path), place, callback=self._progress)
            self._progress.relative_update()
            self._there.add(digest)

    def bring(self, name: str, about: tuple[str, int], folder: Path) -> None:
        """Fetches one file; raises WorkdirError if it is not the one that was mirrored."""
        digest, left = about
        path, found = folder / name, hashlib.sha256()
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            contextlib.suppress(FileNotFoundError),
            self._fs.open(f"{self._root}/files/{digest}", "rb") as file,
            path.open("wb") as out,
        ):
            while left >= 0 and (piece := file.read(min(PIECE, left + 1))):
                found.update(piece)
                out.write(piece)
                left -= len(piece)
        if left or found.hexdigest() != digest:
            raise WorkdirError(
                f"--mirror={self.url} is damaged: {name} is not the file that was mirrored. Move "
                "the mirror away to start again, or use another --mirror."
            )

    def check_alone(self) -> list[int]:
        """Returns the numbers of manifests; raises WorkdirError if another process adds them."""
        numbers = self._numbers()
        if max(numbers, default=-1) > self._number:
            raise WorkdirError("another process has begun to mirror a run there")
        return numbers

    def _numbers(self) -> list[int]:
        self._fs.invalidate_cache()
        names = self._list("manifests")
        return sorted(int(name[:-5]) for name in names if re.fullmatch(r"\d{1,18}\.json", name))

    def _list(self, folder: str) -> list[str]:
        try:
            found = self._fs.ls(f"{self._root}/{folder}", detail=False)
        except FileNotFoundError:
            return []
        return [place.rstrip("/").rpartition("/")[2] for place in found]

    def _manifest(self, number: int) -> str:
        return f"{self._root}/manifests/{number}.json"

    @contextlib.contextmanager
    def explain(self, done: str) -> Iterator[None]:
        """Turns any error of a file system into a WorkdirError: "cannot be ``done``"."""
        try:
            yield
        except WorkdirError:
            raise
        except Exception as error:
            raise WorkdirError(
                f"--mirror={self.url} cannot be {done}: {str(error) or type(error).__name__}. "
                "Nothing was trained."
            ) from error


def _parse_manifest(text: bytes) -> Files:
    """Returns a manifest's files; raises ValueError if it is not whole, or leads elsewhere."""
    found = parse_json(text)
    files: Mapping[str, Any] = found["files"] if isinstance(found.get("files"), dict) else {}
    if json_digest(files) != found.get("digest"):
        raise ValueError("it is not the manifest that was written")
    for name, about in files.items():
        match about:
            case [str() as digest, int() as size] if (
                is_copied(name) and re.fullmatch("[0-9a-f]{64}", digest) and size >= 0
            ):
                continue
        raise WorkdirError(f"a manifest of the mirror has an odd entry, {name!r}")
    return {name: (digest, size) for name, (digest, size) in files.items()}


def is_checkpoint(name: str) -> bool:
    """Returns whether a file is a checkpoint's."""
    return name.split("/")[0] in KEPT


def is_copied(name: str) -> bool:
    """Returns whether a mirror has a file of this name, which lies in the folder."""
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts) or re.search(r"[\\:\0]", name):
        return False
    if is_checkpoint(name):
        return len(parts) > 2 and bool(re.fullmatch(STEP, parts[1]))
    return not any(part.endswith(".tmp") for part in parts)
