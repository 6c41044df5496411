"""Draws or reads the points of a run, and says what is known of their density."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data
from ebmjax.recipes.config import by_images
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.parts.image_data import DEFAULT_HOLDOUT, Images, name_fields, number_held_out
from ebmjax.types import Key, LogDensityFn

NUM_KERNELS = 1000
"""Most points that the estimate of the density of your own points is made of."""
NUM_TRAIN, NUM_TEST = 50_000, 1000
"""Points that are drawn where the configuration says no number."""
KEY_NUMBER = 2**31
"""Number folded into the key of the seed for the points; the other keys are split from it."""


class Truth(NamedTuple):
    """Knowledge of the law of the points.

    Attributes:
      draw: ``draw(key, num) -> (num, d)``, different ones while there are enough.
      log_density_fn: log density of one position, or an estimate of it.
      means: (modes, d), means of the modes.
    """

    draw: Callable[[Key, int], jax.Array]
    log_density_fn: LogDensityFn
    means: np.ndarray


def load(config: Config) -> tuple[Images, Truth, Config]:
    """Returns the points of ``config.data``, the truth, and ``config`` with what they decide.

    Points lie in ``images``, float32 (N, d), with labels 0.

    Raises:
      ConfigError: unless the user's file holds finite points that differ in every coordinate.
      FileNotFoundError: if it does not exist.
    """
    config = config.copy_and_resolve_references()
    section = config.data
    if section.name == "points":
        with name_fields(config, "train"):
            values = data.load_points(section.path)
            if not values.std(axis=0).all():  # one point, too
                raise ValueError("points must differ in every coordinate.")
        order = data.epoch_indices(0, 0, len(values))
        points = values[order[: section.max_train]]
        section.max_train = len(points)
        section.holdout = number_held_out(section.holdout or DEFAULT_HOLDOUT, len(points))
        train, test = np.split(points, [-section.holdout])
        truth = _estimate(values, values[order[:NUM_KERNELS]])
        about = (
            f"train {len(train):,} of {len(values):,} points ({len(test):,} held out), truth: "
            "their kernel estimate"
        )
    else:
        truth = _know(section)
        section.max_train = section.max_train or NUM_TRAIN
        section.max_test, section.holdout = section.max_test or NUM_TEST, 0
        key = jax.random.key(config.seed, impl="threefry2x32")
        keys = jax.random.split(jax.random.fold_in(key, KEY_NUMBER))
        train = np.asarray(truth.draw(keys[0], section.max_train))
        test = np.asarray(truth.draw(keys[1], section.max_test))
        about = f"train {len(train):,} and test {len(test):,} points of {section.name}"
    section.num_classes = 0
    lines = (about, *by_images.fill_in(config, len(train), train.shape[1:]))
    train, test = (data.ImageData(one, np.zeros(len(one), np.int32)) for one in (train, test))
    return Images(train, test, test, lines), truth, config


def _estimate(values: np.ndarray, kernels: np.ndarray) -> Truth:
    """Returns draws of ``values`` (N, d) and the Gaussian kernel estimate (Scott's rule)."""
    density = jax.scipy.stats.gaussian_kde(kernels.T)

    def draw(key: Key, num: int) -> jax.Array:
        return jax.random.choice(key, jnp.asarray(values), (num,), replace=num > len(values))

    return Truth(draw, lambda x: density.logpdf(x)[0], values.mean(axis=0)[None])


def _know(section: Any) -> Truth:
    """Returns the law of a named source, a mixture of Gaussians or circles."""
    if section.name == "circles":
        law: dict[str, Any] = {"radii": jnp.arange(1.0, 5.0), "scale": 0.15}
        draw, density = partial(data.ring_points, **law), partial(data.ring_log_density, **law)
        return Truth(draw, density, np.zeros((1, 2)))
    # Nijkamp et al. 2020; the robust-objective paper does not give its weights.
    means, scale, weights = data.circle_means(8), 0.15, jnp.arange(1.0, 9.0)
    if section.name == "gaussians":
        means = data.circle_means(len(section.weights), section.radius)
        scale, weights = section.scale, jnp.asarray(section.weights)
    law = {"means": means, "scale": scale, "weights": weights}
    draw = partial(data.gaussian_mixture_points, **law)
    return Truth(draw, partial(data.gaussian_mixture_log_density, **law), np.asarray(means))
