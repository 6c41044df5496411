"""Checkpoints that prove they are intact, and step back when the last one is not."""

import logging
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax.training._digest import tree_digest
from ebmjax.types import PyTree

logger = logging.getLogger(__name__)


class CheckpointMismatchError(ValueError):
    """The checkpoint holds another model or another configuration than the run."""


class CheckpointDamagedError(RuntimeError):
    """No checkpoint of the folder could be read back as it was written."""


class Checkpoints:
    """A folder of checkpoints of one run, the newest few kept.

    Arrays are stored whole, as host arrays, so a checkpoint moves between device counts. Each
    carries a digest of its bytes: storage that silently flips one is caught, which the format
    alone would not do.

    Args:
      directory: made where missing.
      max_to_keep: older checkpoints are removed.
    """

    def __init__(self, directory: str | Path, *, max_to_keep: int = 3):
        import orbax.checkpoint as ocp  # 0.7 s to import, and only runs that save need it

        self._ocp = ocp
        self.directory = Path(directory).absolute()
        options = ocp.CheckpointManagerOptions(max_to_keep=max_to_keep, create=True)
        self._manager = ocp.CheckpointManager(self.directory, options=options)

    def save(self, step: int, tree: PyTree, meta: dict[str, Any]) -> None:
        """Writes ``tree`` as of ``step``, with ``meta`` (anything JSON can hold).

        Copies to the host first, then writes in the background; the caller may donate ``tree``.
        """
        leaves = _host_leaves(tree)
        args = self._ocp.args.Composite(
            state=self._ocp.args.StandardSave(leaves),
            meta=self._ocp.args.JsonSave(
                {"user": meta, "layout": _layout(tree), "digest": tree_digest(leaves)}
            ),
        )
        if not self._manager.save(step, args=args, force=True):
            raise RuntimeError(f"orbax refused to save step {step} in {self.directory}.")

    def restore_latest(self, template: PyTree) -> tuple[PyTree, dict[str, Any]] | None:
        """The newest intact checkpoint as (tree like ``template``, meta), or None if there is none.

        Damaged checkpoints on the way are reported and removed, so that the run can save those
        steps again.

        Raises:
          CheckpointMismatchError: if the newest readable one does not fit ``template``.
          CheckpointDamagedError: if there are checkpoints and all are damaged. Nothing is removed.
        """
        damaged: list[int] = []
        for step in sorted(self._manager.all_steps(), reverse=True):
            try:
                tree, meta = self._restore(step, template)
            except CheckpointMismatchError:
                raise
            except Exception as error:  # orbax raises many types for what damage can do
                logger.warning("Checkpoint %d in %s is damaged: %s", step, self.directory, error)
                damaged.append(step)
                continue
            for bad in damaged:
                self._manager.delete(bad)
            return tree, meta
        if damaged:
            raise CheckpointDamagedError(
                f"None of the checkpoints {damaged} in {self.directory} could be read back. Move "
                "that folder away to start again from the first step, or use another workdir."
            )
        return None

    def _restore(self, step: int, template: PyTree) -> tuple[PyTree, dict[str, Any]]:
        ocp = self._ocp
        meta = self._manager.restore(step, args=ocp.args.Composite(meta=ocp.args.JsonRestore()))
        meta = meta["meta"]
        _check_layout(step, meta["layout"], _layout(template))
        abstract = _host_leaves(template)
        restored = self._manager.restore(
            step, args=ocp.args.Composite(state=ocp.args.StandardRestore(abstract))
        )["state"]
        if tree_digest(restored) != meta["digest"]:
            raise ValueError("the bytes read back are not the bytes that were written")
        leaves = [restored[name] for name in sorted(restored)]
        leaves = [
            jax.random.wrap_key_data(leaf, impl=jax.random.key_impl(like))
            if _is_key(like)
            else leaf
            for leaf, like in zip(leaves, jax.tree.leaves(template), strict=True)
        ]
        return jax.tree.unflatten(jax.tree.structure(template), leaves), meta["user"]

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, *_: object) -> None:
        """Waits for writes in the background; raises what went wrong in them."""
        self._manager.wait_until_finished()
        self._manager.close()


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _host_leaves(tree: PyTree) -> dict[str, np.ndarray]:
    """Leaves by number, copied: training donates the device buffers that a view would show."""
    leaves = [
        jax.random.key_data(leaf) if _is_key(leaf) else leaf for leaf in jax.tree.leaves(tree)
    ]
    return {f"{i:05d}": np.array(leaf) for i, leaf in enumerate(leaves)}


def _layout(tree: PyTree) -> dict[str, str]:
    """Path to "dtype(shape)" of every leaf."""
    return {
        jax.tree_util.keystr(path): f"{leaf.dtype}{tuple(leaf.shape)}"
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def _check_layout(step: int, saved: dict[str, str], wanted: dict[str, str]) -> None:
    if saved == wanted:
        return
    names = sorted(saved.keys() | wanted.keys())
    differing = next(name for name in names if saved.get(name) != wanted.get(name))
    raise CheckpointMismatchError(
        f"Checkpoint {step} belongs to another configuration: {differing} is "
        f"{saved.get(differing, 'absent')} in the checkpoint and {wanted.get(differing, 'absent')} "
        "in this run. Continue with the configuration it was made with, or use another workdir."
    )
