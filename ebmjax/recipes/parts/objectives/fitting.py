"""Arrays of examples, as several objectives need them."""

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data
from ebmjax._stored import take_rows
from ebmjax.learning import Samples
from ebmjax.types import Metrics


def first_rows(train: data.ImageData, most: int) -> np.ndarray:
    """Returns the first training examples, flat (N, d), float64, as the energy sees them."""
    rows = np.asarray(take_rows(train.images, np.arange(min(len(train.images), most))))
    x = np.asarray(data.to_signed_unit(jnp.asarray(rows)) if rows.dtype == np.uint8 else rows)
    return x.reshape(len(x), -1).astype(np.float64)


def across(values: jax.Array, x: jax.Array) -> jax.Array:
    """Returns ``values`` (N,), shaped to multiply examples ``x`` (N, ...)."""
    return values.reshape(-1, *[1] * (x.ndim - 1))


def log_density_means(batch: Samples, negatives: Samples) -> Metrics:
    """Returns the mean log densities of data and samples by the network, and their gap."""
    positive, negative = jnp.mean(batch.f), jnp.mean(negatives.f)
    return {
        "positive_log_density": positive,
        "negative_log_density": negative,
        "log_density_gap": positive - negative,
    }
