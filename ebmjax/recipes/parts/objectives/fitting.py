"""Arrays of examples, as several objectives need them."""

from collections.abc import Callable
from typing import Any

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


def fitted_by(fit: Callable[..., Any]) -> Callable[[Any], Any]:
    """Returns a decorator for an objective whose ``fitted`` is ``fit(train, total_steps, ...)``.

    The keyword arguments of ``fit`` are fields, beside those of the objective.
    """

    def mark(objective: Any) -> Any:
        objective.fit = fit
        return objective

    return mark
