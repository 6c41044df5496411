"""Draws or reads the points of a run, and says what is known of their density."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data
from ebmjax.recipes.config import by_images
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.parts.image_data import DEFAULT_HOLDOUT, Images, number_held_out
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
      part_of: the part of the space (a mode, a circle) of each of the positions (n, d), from 0.
      num_parts: number of parts.
    """

    draw: Callable[[Key, int], jax.Array]
    log_density_fn: LogDensityFn
    means: np.ndarray
    part_of: Callable[[np.ndarray], np.ndarray]
    num_parts: int

    def shares(self, positions: np.ndarray, masses: np.ndarray | None = None) -> np.ndarray:
        """Returns (parts,): shares of the mass of the finite ``positions``; NaN without any.

        Args:
          positions: (n, d).
          masses: (n,), not negative; equal unless given.
        """
        finite = np.all(np.isfinite(positions), axis=1)
        weights = None if masses is None else masses[finite]
        totals = np.bincount(self.part_of(positions[finite]), weights, minlength=self.num_parts)
        with np.errstate(invalid="ignore"):
            return totals / np.sum(totals)


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
        train, test, truth, about = _own(config)
    else:
        truth = NAMED[section.name](config)
        section.max_train = section.max_train or NUM_TRAIN
        section.max_test, section.holdout = section.max_test or NUM_TEST, 0
        key = jax.random.key(config.seed, impl="threefry2x32")
        keys = jax.random.split(jax.random.fold_in(key, KEY_NUMBER))
        train, test = (
            np.asarray(truth.draw(*one))
            for one in zip(keys, (section.max_train, section.max_test), strict=True)
        )
        about = f"train {len(train):,} and test {len(test):,} points of {section.name}"
    section.num_classes = 0
    found = by_images.ImageFacts(len(train), train.shape[1:])
    lines = (about, *by_images.fill_in(config, found))
    train, test = (data.ImageData(one, np.zeros(len(one), np.int32)) for one in (train, test))
    return Images(train, test, test, lines), truth, config


def _own(config: Config) -> tuple[np.ndarray, np.ndarray, Truth, str]:
    """Returns points to train on and points held out of the user's file, their truth and a line."""
    section, must_hold = config.data, f"config.data.path={config.data.path!r}"
    try:
        values = data.load_points(section.path)
    except ValueError as error:
        raise ConfigError(f"{must_hold}: {error}") from error
    if not values.std(axis=0).all():  # one point, too
        raise ConfigError(f"{must_hold} must hold points that differ in every coordinate.")
    order = data.epoch_indices(0, 0, len(values))[: section.max_train]
    share = DEFAULT_HOLDOUT if section.holdout is None else section.holdout
    number = number_held_out(share, len(order))
    section.max_train, section.holdout = len(order), number
    about = (
        f"train {len(order) - number:,} of {len(values):,} points ({number:,} held out), truth: "
        "their kernel estimate"
    )
    split = len(order) - number
    return values[order[:split]], values[order[split:]], _estimate(values), about


def _estimate(values: np.ndarray) -> Truth:
    """Returns draws of ``values`` (N, d) and their Gaussian kernel estimate (Scott's rule)."""
    dimension = values.shape[1]
    kernels = values[data.epoch_indices(0, 0, len(values))[:NUM_KERNELS]]
    widths = values.std(axis=0) * len(kernels) ** (-1 / (dimension + 4))
    constant = np.log(len(kernels)) + dimension / 2 * np.log(2 * np.pi) + np.log(widths).sum()

    def draw(key: Key, num: int) -> jax.Array:
        chosen = jax.random.choice(key, len(values), (num,), replace=num > len(values))
        return jnp.asarray(values)[chosen]

    def log_density_fn(position: jax.Array) -> jax.Array:
        distances = jnp.sum(jnp.square((position[None] - kernels) / widths[None]), axis=1)
        return jax.nn.logsumexp(-0.5 * distances) - constant

    return _around(draw, log_density_fn, values.mean(axis=0)[None])


def _around(draw: Any, log_density_fn: Any, means: Any) -> Truth:
    """Returns a truth whose parts are the positions nearest to each mean."""
    means = np.asarray(means)

    def part_of(positions: np.ndarray) -> np.ndarray:
        return np.argmin(np.linalg.norm(positions[..., None, :] - means, axis=-1), axis=-1)

    return Truth(draw, log_density_fn, means, part_of, len(means))


def _mixture(**law: Any) -> Truth:
    draw = partial(data.gaussian_mixture_points, **law)
    return _around(draw, partial(data.gaussian_mixture_log_density, **law), law["means"])


def _gmm(config: Config) -> Truth:
    """Nijkamp et al. 2020; the robust-objective paper does not give its weights."""
    del config
    return _mixture(means=data.circle_means(8), scale=0.15, weights=jnp.arange(1.0, 9.0))


def _gaussians(config: Config) -> Truth:
    """One Gaussian for each of ``data.weights``, their means on a circle of ``data.radius``."""
    section = config.data
    means = data.circle_means(len(section.weights), section.radius)
    return _mixture(means=means, scale=section.scale, weights=jnp.asarray(section.weights))


def _circles(config: Config) -> Truth:
    del config
    law = {"radii": jnp.arange(1.0, 5.0), "scale": 0.15}
    radii = np.asarray(law["radii"])

    def part_of(positions: np.ndarray) -> np.ndarray:
        distances = np.linalg.norm(positions, axis=-1)
        return np.argmin(np.abs(distances[..., None] - radii), axis=-1)

    draw, density = partial(data.ring_points, **law), partial(data.ring_log_density, **law)
    return Truth(draw, density, np.zeros((1, 2)), part_of, len(radii))


NAMED = {"gmm": _gmm, "gaussians": _gaussians, "circles": _circles}
"""Sources of points with a known density."""
