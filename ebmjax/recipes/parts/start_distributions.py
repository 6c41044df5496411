"""Distributions that chains start from."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data, samplers
from ebmjax._stored import map_rows
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.types import Key


def rescale_images(train: data.ImageData) -> Any:
    """Returns the images on the host, (N, ...) in [-1, 1]; those on a disk stay there."""
    return map_rows(
        lambda some: (2.0 * some.astype(np.float32) - 255.0) / 255.0, train.images, np.float32
    )


def start_makers(
    shape: tuple[int, ...], scale: float, mean: Sequence[float] = (0.0,), points: Any = None
) -> dict[str, Callable[[], samplers.StartFn]]:
    """Returns makers of start distributions by name.

    Args:
      shape: of one position.
      scale: half width or standard deviation.
      mean: one number, or one for each coordinate of points.
      points: training points (N, d), for "data".
    """
    return {
        "uniform": lambda: samplers.uniform_start(shape, -scale, scale),
        "gaussian": lambda: samplers.gaussian_start(shape, _fit_mean(mean, shape), scale),
        "data": lambda: jax.tree_util.Partial(_draw_near, jnp.asarray(points), scale),
    }


def _fit_mean(mean: Sequence[float], shape: tuple[int, ...]) -> Any:
    if len(mean) not in (1, shape[-1]) or (len(mean) > 1 and len(shape) > 1):
        raise ConfigError(
            "config.sampler.buffer.start_mean must have one entry, or for points one for each of "
            f"the {shape[-1]} coordinates; got {tuple(mean)}."
        )
    return mean[0] if len(mean) == 1 else jnp.asarray(mean, jnp.float32)


def _draw_near(points: jax.Array, scale: Any, key: Key, label: Any) -> jax.Array:
    """Returns a random one of ``points`` (N, d) under noise."""
    del label
    point_key, noise_key = jax.random.split(key)
    point = jax.random.choice(point_key, points)
    return point + scale * jax.random.normal(noise_key, point.shape)
