"""A digest of the bytes of a PyTree, to say that two runs agree bit for bit."""

import hashlib

import jax
import numpy as np

from ebmjax.types import PyTree


def tree_digest(tree: PyTree) -> str:
    """SHA-256 over paths, dtypes, shapes and bytes of every leaf, as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        array = np.asarray(leaf)
        header = f"{jax.tree_util.keystr(path)}:{array.dtype}:{array.shape};"
        digest.update(header.encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
