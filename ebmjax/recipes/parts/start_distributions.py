"""Distributions that chains start from."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data, samplers
from ebmjax._phases import phase
from ebmjax._stored import map_rows
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.types import Key

MOST_FITTED = 4000
"""Images that Gaussians are fitted to, at most: their products take seconds."""
SMALLEST_AMPLITUDE = 0.1
"""Added to amplitudes of a spectrum, in sums of pixels in [-1, 1], whose logarithm is taken."""
NUM_CLUSTERS, LEAST_IN_CLUSTER = 8, 10
"""Clusters of images without classes, at most, and images of one, at least."""
MAX_START_BYTES = 4e8
"""Most memory for whole covariances of starts; beyond it they have few directions."""


def rescale_images(train: data.ImageData) -> Any:
    """Returns the images on the host, (N, ...) in [-1, 1]; those on a disk stay there."""
    return map_rows(
        lambda some: (2.0 * some.astype(np.float32) - 255.0) / 255.0, train.images, np.float32
    )


def split_images(train: data.ImageData) -> data.ImageData:
    """Returns at most ``MOST_FITTED`` images, labelled by clusters of equal size.

    They are clusters of the pixels, or of the log amplitudes of their spectrum, which do not change
    when a texture is shifted: those whose Gaussians give held-out images the larger log density.
    """
    images = np.asarray(train.images[:MOST_FITTED])
    x = images.astype(np.float32) / 127.5 - 1.0
    spectrum = np.log(np.abs(np.fft.rfft2(x, axes=(1, 2))) + SMALLEST_AMPLITUDE)
    found = [_halve(x), _halve(spectrum.astype(np.float32))]
    return data.ImageData(images, max(found, key=partial(_score_held_out, x)))


def _halve(features: np.ndarray) -> np.ndarray:
    """Returns labels (n,) of features (n, *shape), halved at medians of a principal component."""
    labels = np.zeros(len(features), np.int32)
    most = min(NUM_CLUSTERS, max(len(features) // LEAST_IN_CLUSTER, 1))
    for _ in range(int(math.log2(most))):
        for places in [np.flatnonzero(labels == label) for label in range(labels.max() + 1)]:
            own = features[places]
            first = samplers.fit_factor_gaussian(own, num_directions=1).directions
            order = np.argsort(own.reshape(len(own), -1) @ np.asarray(first)[:, 0])
            labels[places] *= 2
            labels[places[order[len(order) // 2 :]]] += 1
    return labels


def _score_held_out(x: np.ndarray, labels: np.ndarray) -> float:
    """Returns the mean log density of a fifth of x (n, *shape) under Gaussians of the others."""
    if not labels.any():
        return 0.0
    is_out = np.random.default_rng(0).permutation(len(x)) < len(x) // 5
    fitted = samplers.fit_factor_gaussian(x[~is_out], labels[~is_out], num_directions=32)
    found = jax.lax.map(fitted.log_densities, jnp.asarray(x[is_out]), batch_size=16)
    return float(jnp.mean(jnp.max(found, axis=1)))


def fit_gaussians(train: data.ImageData, num_directions: int = 128) -> samplers.FactorGaussian:
    """Returns a Gaussian for each class that has images, from at most ``MOST_FITTED`` of them."""
    names, labels = np.unique(np.asarray(train.labels), return_inverse=True)
    classes = [np.flatnonzero(labels == label) for label in range(len(names))]
    most = max(MOST_FITTED // len(classes), 2)
    places = np.concatenate([some[:most] for some in classes])
    with phase(f"a Gaussian for each of {len(classes)} classes of {len(labels):,} images"):
        return samplers.fit_factor_gaussian(
            rescale_images(train)[places], labels[places], num_directions=num_directions
        )


def log_base(base: samplers.FactorGaussian, temperature: float, x: jax.Array) -> jax.Array:
    """Returns T log q of images x (..., *shape), which samplers that tilt q add to the network.

    q are the Gaussians of ``base``, mixed in equal parts.
    """
    found = jax.vmap(base.log_density)(x.reshape(-1, *base.mean.shape[1:]))
    return temperature * found.reshape(x.shape[: x.ndim - base.mean.ndim + 1])


def make_start(
    buffer: Config, train: data.ImageData, grouped: data.ImageData, *, by_label: bool = True
) -> samplers.StartFn:
    """Returns the start distribution that ``config.sampler.buffer`` names.

    Args:
      buffer: the section.
      train: training images or points.
      grouped: images whose labels are classes or clusters, each with a Gaussian, for "informative".
      by_label: whether an informative start is of the class asked for, or of a random one.

    Raises:
      ConfigError: for a mean that does not fit the positions.
    """
    shape, scale = train.images.shape[1:], buffer.start_scale
    if buffer.start == "informative":
        return _informative_start(grouped, by_label)
    if buffer.start == "data":
        return jax.tree_util.Partial(_draw_near, jnp.asarray(train.images), scale)
    if buffer.start == "uniform":
        return samplers.uniform_start(shape, -scale, scale)
    mean = buffer.get("start_mean", (0.0,))
    if len(mean) not in (1, shape[-1]) or (len(mean) > 1 and len(shape) > 1):
        raise ConfigError(
            "config.sampler.buffer.start_mean must have one entry, or for points one for each of "
            f"the {shape[-1]} coordinates; got {tuple(mean)}."
        )
    mean = mean[0] if len(mean) == 1 else jnp.asarray(mean, jnp.float32)
    return samplers.gaussian_start(shape, mean, scale)


def _informative_start(train: data.ImageData, by_label: bool) -> samplers.StartFn:
    """Returns starts with each class's mean and covariance, which has few directions if large."""
    counts, size = np.bincount(train.labels), math.prod(train.images.shape[1:])
    num_classes, most = len(counts), int(np.max(counts))
    with phase(f"start distribution: a Gaussian a class of {len(train.labels):,} images"):
        # Of few images the law holds these, and else factors in float32.
        if num_classes * (most if most < size else 4 * size) * size > MAX_START_BYTES:
            start_fn = samplers.factor_gaussian_start(fit_gaussians(train))
        else:
            start_fn = samplers.informative_start(train.images, train.labels, num_classes)
    return start_fn if by_label else jax.tree_util.Partial(_draw_any, start_fn, num_classes)


def _draw_any(start_fn: samplers.StartFn, num_classes: Any, key: Key, label: Any) -> Any:
    label_key, start_key = jax.random.split(key)
    return start_fn(start_key, jax.random.randint(label_key, (), 0, num_classes))


def _draw_near(points: jax.Array, scale: Any, key: Key, label: Any) -> jax.Array:
    """Returns a random one of ``points`` (N, d) under noise."""
    point_key, noise_key = jax.random.split(key)
    point = jax.random.choice(point_key, points)
    return point + scale * jax.random.normal(noise_key, point.shape)
