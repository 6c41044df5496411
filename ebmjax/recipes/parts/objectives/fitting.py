"""Arrays of examples, as several objectives need them."""

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data
from ebmjax._stored import take_rows


def first_rows(train: data.ImageData, most: int) -> np.ndarray:
    """Returns the first training examples, flat (N, d), float64, as the energy sees them."""
    rows = np.asarray(take_rows(train.images, np.arange(min(len(train.images), most))))
    x = np.asarray(data.to_signed_unit(jnp.asarray(rows)) if rows.dtype == np.uint8 else rows)
    return x.reshape(len(x), -1).astype(np.float64)


def across(values: jax.Array, x: jax.Array) -> jax.Array:
    """Returns ``values`` (N,), shaped to multiply examples ``x`` (N, ...)."""
    return values.reshape(-1, *[1] * (x.ndim - 1))
