"""Reads a user's points of the plane from an .npy file."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax.data import epoch_indices, load_points
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.types import Key, LogDensityFn

NUM_KERNELS = 1000
"""Most points that the estimate of the density is made of."""


class OwnPoints(NamedTuple):
    """Points of an unknown density.

    Attributes:
      points: ``points(key, num) -> (num, 2)``, different ones while there are enough.
      log_density_fn: log of a Gaussian kernel estimate (Scott's rule), which stands for the truth.
      num: number of points in the file.
      mean: (2,), of all points.
    """

    points: Callable[[Key, int], jax.Array]
    log_density_fn: LogDensityFn
    num: int
    mean: np.ndarray


def own_points(config: Config) -> OwnPoints:
    """Returns the points in the file ``config.data.path``.

    Raises:
      ConfigError: unless the file holds finite points that differ in both coordinates.
      FileNotFoundError: if it does not exist.
    """
    must_hold = f"config.data.path={config.data.path!r}"
    try:
        values = load_points(config.data.path)
    except ValueError as error:
        raise ConfigError(f"{must_hold}: {error}") from error
    spread = values.std(axis=0)
    if not spread.all():  # one point, too
        raise ConfigError(f"{must_hold} must hold points that differ in both coordinates.")

    def points(key: Key, num: int) -> jax.Array:
        has_enough = num <= len(values)
        chosen = jax.random.choice(key, len(values), (num,), replace=not has_enough)
        return jnp.asarray(values)[chosen]

    kernels = values[epoch_indices(0, 0, len(values))[:NUM_KERNELS]]
    widths = spread * len(kernels) ** (-1 / 6)
    constant = np.log(len(kernels)) + np.log(2 * np.pi) + np.log(widths).sum()

    def log_density_fn(position: jax.Array) -> jax.Array:
        scaled = (position[None] - kernels) / widths[None]
        distances = jnp.sum(jnp.square(scaled), axis=1)
        return jax.nn.logsumexp(-0.5 * distances) - constant

    return OwnPoints(points, log_density_fn, len(values), values.mean(axis=0))


def about(config: Config, num_found: int) -> tuple[str, ...]:
    """Returns the line that says how many points a run learns from."""
    num = min(config.data.num_points, num_found)
    return (f"train {num:,} of {num_found:,} points, truth: their kernel estimate",)
