"""Leaves of a state as host arrays by number, and back."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax.training._digest import as_numpy, is_key
from ebmjax.types import PyTree


def host_leaves(tree: PyTree) -> dict[str, np.ndarray]:
    """Returns leaves by number, copied: training donates the device buffers behind views.

    Leaves without elements are left out, because orbax refuses them.
    """
    leaves = {f"{i:05d}": as_numpy(leaf) for i, leaf in enumerate(jax.tree.leaves(tree))}
    return {name: np.array(leaf) for name, leaf in leaves.items() if leaf.size}


def like(template: PyTree, host_leaves: dict[str, np.ndarray]) -> PyTree:
    """Inverts ``host_leaves``."""
    leaves, treedef = jax.tree.flatten(template)
    names = (f"{i:05d}" for i in range(len(leaves)))
    return treedef.unflatten(
        revive(host_leaves[name], like) if name in host_leaves else like
        for name, like in zip(names, leaves, strict=True)
    )


def revive(host_leaf: np.ndarray, like: Any) -> Any:
    """Returns the value saved as ``host_leaf``: a random key if ``like`` is one."""
    if not is_key(like):
        return host_leaf
    return jax.random.wrap_key_data(jnp.asarray(host_leaf), impl=jax.random.key_impl(like))


def layout(tree: PyTree) -> dict[str, str]:
    """Returns path to "dtype(shape)" of every leaf."""
    return {
        jax.tree_util.keystr(path): f"{leaf.dtype}{tuple(leaf.shape)}"
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }
