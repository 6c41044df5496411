"""Digest of a PyTree's bytes, to show that two runs agree bit for bit."""

import hashlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax._stored import in_parts, is_stored
from ebmjax.types import PyTree


def is_key(leaf: Any) -> bool:
    """Returns whether ``leaf`` is an array of typed random keys."""
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def as_numpy(leaf: Any) -> np.ndarray:
    """Returns the numbers of ``leaf``, also of typed random keys; possibly a view."""
    if isinstance(leaf, jax.Array) and is_key(leaf):
        return np.asarray(jax.random.key_data(leaf))
    return np.asarray(leaf)


def tree_digest(tree: PyTree) -> str:
    """Returns SHA-256 over paths, dtypes, shapes and bytes of all leaves, 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        array = leaf if is_stored(leaf) else as_numpy(leaf)
        header = f"{jax.tree_util.keystr(path)}:{array.dtype}:{array.shape};"
        digest.update(header.encode())
        for part in in_parts(array):
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()
