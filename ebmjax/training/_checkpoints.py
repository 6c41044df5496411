"""Checkpoints with digests; a damaged one is skipped for the one before it."""

import contextlib
import errno
import json
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np

from ebmjax._checks import check_at_least
from ebmjax._records import json_digest, read_record
from ebmjax.training._state import host_leaves, like, tree_digest
from ebmjax.types import PyTree

logger = logging.getLogger(__name__)

T = TypeVar("T")

# A missing file, or one of another kind, is damage, not an error of the system.
MISSING = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP)
EXHAUSTED = (errno.ENOMEM, errno.EMFILE, errno.ENFILE)
ROOM_FOR_METADATA = 2**16


class CheckpointMismatchError(ValueError):
    """Raised if a checkpoint holds another model or configuration than the run."""


class CheckpointDamagedError(RuntimeError):
    """Raised if no checkpoint of the folder can be read back as it was written."""


class CheckpointAccessError(OSError):
    """Raised if the system refuses to read or write a checkpoint; its content is not at fault.

    ``errno`` holds the system's number.
    """

    def __str__(self) -> str:
        return str(self.strerror)


class Checkpoints:
    """Folder with the newest few checkpoints of one run.

    Arrays are stored whole, so a checkpoint moves between device counts, with a digest, which shows
    silent damage. Use it once, in a ``with`` statement or by handing it to ``fit``.

    Args:
      directory: made if missing.
      max_to_keep: older checkpoints are removed; at least 1. Passing ones come on top.
      about: facts of the run (anything JSON can hold), saved with each checkpoint.
      is_read_only: whether the folder stays as it is: damaged checkpoints are not moved.

    Raises:
      CheckpointAccessError: if the folder cannot be made.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        max_to_keep: int = 3,
        about: Mapping[str, Any] | None = None,
        is_read_only: bool = False,
    ):
        check_at_least("max_to_keep", max_to_keep, 1)
        import orbax.checkpoint as ocp  # it takes 0.7 s to import, and only runs that save need it

        self._ocp = ocp
        self.directory = Path(directory).expanduser().absolute()
        self._about, self._is_read_only = dict(about or {}), is_read_only
        options = ocp.CheckpointManagerOptions(create=False)
        self._max_to_keep = max_to_keep
        self._are_passing: dict[int, bool] = {}
        self._has_saved = False
        with _explain_access("made", self.directory):
            if not is_read_only:
                self.directory.mkdir(parents=True, exist_ok=True)
            self._manager = ocp.CheckpointManager(self.directory, options=options)
        # Orbax logs errors with tracebacks that it also raises.
        logging.getLogger("absl").addFilter(_is_of_others)

    def save(
        self, step: int, tree: PyTree, meta: dict[str, Any], *, is_passing: bool = False
    ) -> None:
        """Writes the ``tree`` of ``step``, with ``meta`` (anything JSON can hold).

        It copies to the host, then writes in the background; the caller may donate ``tree``. A
        passing checkpoint, as of an interruption, only lets the run continue: it goes once a later
        one is there, and a run never goes back to it.

        Raises:
          CheckpointAccessError: if there is no room, or the folder or the previous checkpoint could
            not be written. Existing checkpoints stay as they are.
        """
        leaves = host_leaves(tree)
        # As it will be read back: JSON's keys are strings, whose order differs from numbers'.
        user, about = json.loads(json.dumps([meta, self._about]))
        record = {
            "step": step,
            "user": user,
            "about": about,
            "layout": _layout(tree),
            "digest": tree_digest(leaves),
            "is_passing": is_passing,
        }
        args = self._ocp.args.Composite(
            state=self._ocp.args.StandardSave(leaves),
            meta=self._ocp.args.JsonSave({"record": record, "digest": json_digest(record)}),
        )
        with _explain_access("written", self.directory):
            self._manager.wait_until_finished()
            self._remove_surplus()
            check_room(self.directory, sum(leaf.nbytes for leaf in leaves.values()))
            is_saved = self._manager.save(step, args=args, force=True)
        if not is_saved:
            raise RuntimeError(f"orbax refused to save step {step} in {self.directory}.")
        self._are_passing[step], self._has_saved = is_passing, True

    def _remove_surplus(self) -> None:
        """Removes what a later save has replaced; called while none is being written."""
        *earlier, _ = sorted(self._manager.all_steps()) or [0]
        kept = self.list_steps()
        for step in earlier:
            if step not in kept:
                self._manager.delete(step)

    def list_steps(self) -> list[int]:
        """Returns the steps of checkpoints to go back to, the oldest first: none is passing."""
        steps = sorted(self._manager.all_steps())
        return [one for one in steps if not self._is_passing(one)][-self._max_to_keep :]

    def _is_passing(self, step: int) -> bool:
        if step not in self._are_passing:
            try:
                self._are_passing[step] = read_record(self.directory, step)["is_passing"]
            except Exception:  # damaged: it stays until it is old
                self._are_passing[step] = False
        return self._are_passing[step]

    def restore_latest(self, template: PyTree) -> tuple[PyTree, dict[str, Any]] | None:
        """Returns the newest intact checkpoint as (tree like ``template``, meta), or None.

        Damaged newer checkpoints are reported and, unless the folder is read only, moved to
        ``<step>.damaged``, so that the run can save those steps again.

        Raises:
          CheckpointMismatchError: if the newest readable one does not fit ``template``.
          CheckpointDamagedError: if there are checkpoints and all are damaged. Nothing is moved.
          CheckpointAccessError: if memory, file handles or permissions did not suffice to read one.
            Nothing is moved.
        """
        found, damaged = self._newest(lambda step: self._restore(step, template))
        if found is not None and not self._is_read_only:
            for step in damaged:  # kept: a disk that failed to read it once may read it later
                folder = self.directory / str(step)
                shutil.rmtree(folder.with_name(f"{step}.damaged"), ignore_errors=True)
                folder.rename(folder.with_name(f"{step}.damaged"))
                self._manager.reload()
        return found

    def restore(self, template: PyTree, step: int) -> tuple[PyTree, dict[str, Any]]:
        """Returns the checkpoint of ``step`` as (tree like ``template``, meta); moves nothing.

        Raises:
          CheckpointMismatchError, CheckpointAccessError, CheckpointDamagedError: as
            ``restore_latest``.
        """
        try:
            found, _ = self._newest(lambda one: self._restore(one, template), [step])
        except CheckpointDamagedError as error:
            message = f"Checkpoint {step} in {self.directory} cannot be read back. Take another."
            raise CheckpointDamagedError(message) from error
        assert found is not None
        return found

    def read_latest(self) -> tuple[dict[str, np.ndarray], int] | None:
        """Returns the newest intact checkpoint as (leaves, step), or None.

        Leaves have their path as key, as ``jax.tree_util.keystr`` writes it. A random key is given
        by its key data; leaves without elements are left out.

        Raises:
          CheckpointDamagedError, CheckpointAccessError: as ``restore_latest``.
        """

        def read(step: int) -> tuple[dict[str, np.ndarray], int]:
            arrays, record = self._intact(step, None)
            names = (f"{i:05d}" for i in range(len(record["layout"])))
            leaves = zip(record["layout"], names, strict=True)
            return {path: arrays[name] for path, name in leaves if name in arrays}, step

        return self._newest(read)[0]

    def newest_before(self, step: int) -> tuple[int, dict[str, Any]] | None:
        """Returns (step, meta) of the newest intact one of ``list_steps`` before ``step``, or None.

        Raises:
          CheckpointDamagedError, CheckpointAccessError: as ``restore_latest``.
        """
        steps = [one for one in reversed(self.list_steps()) if one < step]
        return self._newest(lambda one: (one, self._intact(one, None)[1]["user"]), steps)[0]

    def remove_after(self, step: int) -> None:
        """Removes all checkpoints after ``step``, the newest first.

        A process that is killed meanwhile leaves a folder as of a run that has come less far.
        """
        steps = self._manager.all_steps()
        for later in sorted((one for one in steps if one > step), reverse=True):
            self._manager.delete(later)

    def _newest(
        self, read: Callable[[int], T], steps: Sequence[int] | None = None
    ) -> tuple[T | None, list[int]]:
        """Returns the result of ``read`` on the newest intact checkpoint, and damaged ones."""
        damaged: list[int] = []
        steps = sorted(self._manager.all_steps(), reverse=True) if steps is None else steps
        for step in steps:
            try:
                return read(step), damaged
            except CheckpointMismatchError:
                raise
            except Exception as error:  # orbax raises many types for damage
                if (number := _system_errno(error)) is not None:
                    raise CheckpointAccessError(
                        number,
                        f"Checkpoint {self.directory / str(step)} could not be read: "
                        f"{os.strerror(number)}. It may be whole, so it stays where it is. Mend "
                        "the cause (memory, file handles, permissions, the disk) and start again, "
                        "or move it away to go on from the one before.",
                    ) from error
                reason = str(error)[:200]
                logger.warning("Checkpoint %d in %s is damaged: %s", step, self.directory, reason)
                damaged.append(step)
        if damaged:
            raise CheckpointDamagedError(
                f"None of the checkpoints {damaged} in {self.directory} could be read back. Move "
                "that folder away to start again from the first step, or use another workdir."
            )
        return None, []

    def _restore(self, step: int, template: PyTree) -> tuple[PyTree, dict[str, Any]]:
        restored, record = self._intact(step, template)
        return like(template, restored), record["user"]

    def _intact(self, step: int, template: PyTree) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Returns leaves by number, checked against ``template``, and their description."""
        ocp, record = self._ocp, read_record(self.directory, step)
        abstract = None
        if template is not None:
            saved, wanted = record["layout"], _layout(template)
            names = sorted(saved.keys() | wanted.keys())
            if other := [name for name in names if saved.get(name) != wanted.get(name)]:
                raise CheckpointMismatchError(
                    f"Checkpoint {step} belongs to another configuration: {other[0]} is "
                    f"{saved.get(other[0], 'absent')} in the checkpoint and "
                    f"{wanted.get(other[0], 'absent')} in this run. Continue with the "
                    "configuration it was made with, or use another workdir."
                )
            abstract = host_leaves(template)
        restored = self._manager.restore(
            step, args=ocp.args.Composite(state=ocp.args.StandardRestore(abstract))
        )["state"]
        if tree_digest(restored) != record["digest"]:
            raise ValueError("its arrays are not the ones that were written")
        return restored, record

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, *_: object) -> None:
        """Waits for writes in the background.

        Raises:
          CheckpointAccessError: if one could not be written.
        """
        with _explain_access("written", self.directory):
            self._manager.wait_until_finished()
            if self._has_saved:
                self._remove_surplus()
            self._manager.close()


def _layout(tree: PyTree) -> dict[str, str]:
    """Returns path to "dtype(shape)" of every leaf."""
    return {
        jax.tree_util.keystr(path): f"{leaf.dtype}{tuple(leaf.shape)}"
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


@contextlib.contextmanager
def _explain_access(done: str, directory: Path) -> Iterator[None]:
    """Turns errors of the system into a CheckpointAccessError: "could not be ``done``"."""
    try:
        yield
    except Exception as error:  # orbax has many types for it
        number = _system_errno(error)
        if number is None:
            raise
        raise CheckpointAccessError(
            number,
            f"A checkpoint in {directory} could not be {done}: {os.strerror(number)}. Those that "
            "are there stay as they are. Make room, or mend the permissions, and start again.",
        ) from error


def check_room(directory: Path, num_bytes: int) -> None:
    """Reserves ``num_bytes`` in the folder and gives them back; raises OSError without room.

    Without this check, Orbax fails in the background and prints hundreds of lines.
    """
    with tempfile.TemporaryFile(dir=directory) as file:
        if hasattr(os, "posix_fallocate"):  # macOS and Windows have none
            os.posix_fallocate(file.fileno(), 0, num_bytes + ROOM_FOR_METADATA)


def _is_of_others(record: logging.LogRecord) -> bool:
    return record.levelno < logging.ERROR or "orbax" not in record.pathname


def _system_errno(error: BaseException | None) -> int | None:
    """Returns the errno of an error of the system; None if the content is wrong.

    TensorStore reports the system's errors only in its messages.
    """
    while error is not None:
        if isinstance(error, MemoryError):
            return errno.ENOMEM
        if isinstance(error, OSError) and error.errno not in (None, *MISSING):
            return error.errno
        if found := re.search(r"\[os_error_code='(\d+)'\]", str(error)):
            return None if int(found[1]) in MISSING else int(found[1])
        if "RESOURCE_EXHAUSTED" in str(error):
            return errno.ENOMEM
        for number in EXHAUSTED:
            if os.strerror(number) in str(error):
                return number
        error = error.__cause__ or error.__context__
    return None
