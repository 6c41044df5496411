"""A digest of the bytes of a PyTree, to say that two runs agree bit for bit."""

import hashlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax.types import PyTree


def is_key(leaf: Any) -> bool:
    """Whether ``leaf`` is an array of typed random keys."""
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def as_numpy(leaf: Any) -> np.ndarray:
    """The numbers of ``leaf``, of typed random keys too; possibly a view."""
    if isinstance(leaf, jax.Array) and is_key(leaf):
        return np.asarray(jax.random.key_data(leaf))
    return np.asarray(leaf)


def tree_digest(tree: PyTree) -> str:
    """SHA-256 over paths, dtypes, shapes and bytes of every leaf, as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        array = as_numpy(leaf)
        header = f"{jax.tree_util.keystr(path)}:{array.dtype}:{array.shape};"
        digest.update(header.encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
