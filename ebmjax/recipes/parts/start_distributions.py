"""Distributions that chains start from."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

from ebmjax import data, samplers
from ebmjax._phases import phase
from ebmjax._stored import map_rows
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.types import Key

MOST_FITTED = 4000
"""Images that Gaussians are fitted to, at most: their products take seconds."""
SMALLEST_AMPLITUDE = 0.1
"""Added to amplitudes of a spectrum, in sums of pixels in [-1, 1], whose logarithm is taken."""
NUM_CLUSTERS, LEAST_IN_CLUSTER = (1, 2, 4, 8, 16, 32), 10
"""Clusters of a class, or of images without classes, and images of one, at least."""
NUM_DIRECTIONS, SHRINKAGES = (4, 16, 64), (0.03, 0.1, 0.3)
"""Directions of a Gaussian that are tried, and shares by which variances go to their mean."""
MOST_GAUSSIANS, NUM_ROUNDS, SMALLEST_VARIANCE = 64, 3, 1e-4
"""Gaussians of a mixture, at most; rounds in which images choose theirs anew; and a variance."""


class Base(NamedTuple):
    """A mixture of Gaussians that chains start from and that a network tilts.

    Attributes:
      gaussians: of all clusters, of normal variables that stand for pixels.
      classes: class of each Gaussian, (c,); 0 where images have none.
    """

    gaussians: samplers.FactorGaussian
    classes: jax.Array

    def draw(self, key: Key, label: Any) -> jax.Array:
        """Returns one draw of the class ``label``, or of any where it is below 0."""
        choice_key, start_key = jax.random.split(key)
        is_own = (self.classes == label) | (label < 0)
        logits = jnp.where(is_own, self.gaussians.log_weights, -jnp.inf)
        chosen = jax.random.categorical(choice_key, logits)
        return samplers.factor_gaussian_start(self.gaussians)(start_key, chosen)

    def draw_any(self, key: Key, label: Any) -> jax.Array:
        """Returns one draw of any class."""
        return self.draw(key, -1)


def rescale_images(train: data.ImageData) -> Any:
    """Returns the images on the host, (N, ...) in [-1, 1]; those on a disk stay there."""
    return map_rows(
        lambda some: (2.0 * some.astype(np.float32) - 255.0) / 255.0, train.images, np.float32
    )


def fit_base(train: data.ImageData, has_classes: bool) -> tuple[Base, str]:
    """Returns the mixture under which held-out images are likeliest, and a line about it.

    Pixels are mapped to normal variables by histograms. Every class, or the set of all images, is
    split in clusters. The numbers of clusters and of directions, and a shrinkage of variances, are
    chosen by a fifth of at most ``MOST_FITTED`` images.
    """
    labels = np.asarray(train.labels) if has_classes else np.zeros(len(train.images), np.int32)
    names = np.unique(labels)
    most = max(MOST_FITTED // len(names), 2)
    places = np.concatenate([np.flatnonzero(labels == name)[:most] for name in names])
    shares, labels = [np.mean(labels == name) for name in names], labels[places]
    rng = np.random.default_rng(0)
    images = np.asarray(train.images[places])
    x = ((images + rng.random(images.shape)) / 128.0 - 1.0).astype(np.float32)
    is_in = rng.permutation(len(x)) >= (len(x) // 5 if len(x) >= LEAST_IN_CLUSTER else 0)
    is_in[np.unique(labels, return_index=True)[1]] = True  # of every class one
    is_out = is_in if is_in.all() else ~is_in
    largest = min(MOST_FITTED, len(x)) / len(names)
    counts = [
        count
        for count in NUM_CLUSTERS
        if count * max(LEAST_IN_CLUSTER / largest, len(names) / MOST_GAUSSIANS) <= 1
    ]
    found: dict[Plan, float] = {}
    with phase(f"Gaussians of {len(names)} classes, of {len(x):,} images"):
        z, slopes = _gaussianise(samplers.fit_margins(x[is_in]), x)
        constant = np.mean(slopes[is_out]) - 0.5 * z[0].size * math.log(2 * math.pi)

        def judge(is_of_spectra: bool, num_clusters: int, num_directions: int) -> None:
            plan = Plan(is_of_spectra, num_clusters, num_directions)
            fitted, classes = _fit(z[is_in], labels[is_in], x[is_in], plan)
            for share in SHRINKAGES:
                scores = _score(z[is_out], _weigh(_shrink(fitted, share), classes, shares))
                score = np.mean(logsumexp(scores, axis=1)) + constant
                found[plan._replace(shrinkage=share)] = float(score)

        for count in counts or [1]:
            for is_of_spectra in (False, True)[: min(count, 2)]:
                judge(is_of_spectra, count, NUM_DIRECTIONS[1])
        best = max(found, key=found.__getitem__)
        for num_directions in (NUM_DIRECTIONS[0], *NUM_DIRECTIONS[2:]):
            judge(*best[:2], num_directions)
        best = max(found, key=found.__getitem__)
        margins = samplers.fit_margins(x)
        fitted, classes = _fit(_gaussianise(margins, x)[0], labels, x, best)
    simple = max(value for plan, value in found.items() if plan.num_clusters == 1)
    about = (
        f"base of the density: {len(classes)} Gaussians of {best.num_directions} directions, "
        f"{found[best]:.1f} nats of held-out images; one for each class has {simple:.1f}"
    )
    fitted = _weigh(_shrink(fitted, best.shrinkage), classes, shares)
    return Base(fitted._replace(margins=margins), jnp.asarray(classes)), about


class Plan(NamedTuple):
    """A mixture that is tried: clusters of a class, by spectra or by pixels, and Gaussians."""

    is_of_spectra: bool
    num_clusters: int
    num_directions: int
    shrinkage: float = 0.1


def _weigh(fitted: Any, classes: np.ndarray, shares: Any) -> samplers.FactorGaussian:
    """Returns the Gaussians with each class's share of all images, though fewer were taken."""
    weights = np.exp(np.asarray(fitted.log_weights))
    places = np.unique(classes, return_inverse=True)[1]
    weights *= (shares / np.bincount(places, weights))[places]
    return fitted._replace(log_weights=jnp.asarray(np.log(weights / weights.sum()), jnp.float32))


def _gaussianise(margins: samplers.Margins, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    z, slopes = map(np.asarray, jax.jit(jax.vmap(margins.gaussianise))(x))
    return z, slopes.reshape(len(x), -1).sum(axis=1)


def _fit(
    z: np.ndarray, labels: np.ndarray, x: np.ndarray, plan: Plan
) -> tuple[samplers.FactorGaussian, np.ndarray]:
    """Returns Gaussians of clusters of z (n, *shape), and the class of each.

    The clusters of a class start as equal parts, by normal variables or by the log amplitudes of
    the images' spectrum, which do not change when a texture is shifted.
    """
    clusters, features = np.zeros(len(z), np.int64), z
    if plan.is_of_spectra:
        features = np.log(np.abs(np.fft.rfft2(x, axes=(1, 2))) + SMALLEST_AMPLITUDE)
    for label in np.unique(labels):
        own = labels == label
        halved = _halve(features[own], min(plan.num_clusters, own.sum() // LEAST_IN_CLUSTER))
        clusters[own] = clusters.max() + 1 + halved
    for left in range(NUM_ROUNDS if plan.num_clusters > 1 else 0, -1, -1):
        clusters = np.unique(clusters, return_inverse=True)[1]
        classes = labels[np.unique(clusters, return_index=True)[1]]
        fitted = samplers.fit_factor_gaussian(
            z, clusters, num_directions=plan.num_directions, jitter=SMALLEST_VARIANCE
        )
        if left:
            scores = _score(z, _shrink(fitted, plan.shrinkage))
            clusters = np.where(classes == labels[:, None], scores, -np.inf).argmax(axis=1)
    return fitted, classes


def _shrink(fitted: samplers.FactorGaussian, share: float) -> samplers.FactorGaussian:
    """Returns the Gaussians with variances moved by a ``share`` to their mean over directions."""
    variances, rest = np.asarray(fitted.variances), np.asarray(fitted.rest)
    is_own, size = variances > 0, fitted.mean[0].size
    total = variances.sum(axis=1) + (size - is_own.sum(axis=1)) * rest
    mean = share * total / size
    variances = np.where(is_own, (1 - share) * variances + mean[:, None], 0)
    rest = jnp.asarray((1 - share) * rest + mean)
    return fitted._replace(variances=jnp.asarray(variances), rest=rest)


def _score(z: np.ndarray, q: samplers.FactorGaussian) -> np.ndarray:
    """Returns weighted log densities (n, c) of z (n, *shape)."""
    flat, scores = z.reshape(len(z), -1), []
    for mean, variances, rest, log_weight in zip(
        *map(np.asarray, (q.mean, q.variances, q.rest, q.log_weights)), strict=True
    ):
        is_own = variances > 0
        centred, own = flat - mean.ravel(), variances[is_own]
        along = np.square(centred @ np.asarray(q.directions)[:, is_own])
        squares = along @ (1 / own - 1 / rest) + np.sum(centred**2, axis=1) / rest
        volume = np.sum(np.log(own)) + (flat.shape[1] - len(own)) * np.log(rest)
        scores.append(log_weight - 0.5 * (squares + volume))
    return np.stack(scores, axis=1)


def _halve(features: np.ndarray, num: int) -> np.ndarray:
    """Returns labels (n,) of features (n, *shape), halved at medians of a principal component."""
    labels = np.zeros(len(features), np.int64)
    for _ in range(int(math.log2(max(num, 1)))):
        for places in [np.flatnonzero(labels == label) for label in range(labels.max() + 1)]:
            own = features[places]
            first = samplers.fit_factor_gaussian(own, num_directions=1).directions
            order = np.argsort(own.reshape(len(own), -1) @ np.asarray(first)[:, 0])
            labels[places] *= 2
            labels[places[order[len(order) // 2 :]]] += 1
    return labels


def log_base(base: samplers.FactorGaussian, temperature: float, x: jax.Array) -> jax.Array:
    """Returns T log q of images x (..., *shape), which samplers that tilt q add to the network."""
    found = jax.vmap(base.log_density)(x.reshape(-1, *base.mean.shape[1:]))
    return temperature * found.reshape(x.shape[: x.ndim - base.mean.ndim + 1])


def make_start(
    buffer: Config, train: data.ImageData, base: Base | None, *, is_conditional: bool = False
) -> samplers.StartFn:
    """Returns the start distribution that ``config.sampler.buffer`` names.

    Args:
      buffer: the section.
      train: training images or points.
      base: from which an informative start draws; None for JEM++'s Gaussians of the classes.
      is_conditional: whether the base's draws are of the class asked for, or of any.

    Raises:
      ConfigError: for a mean that does not fit the positions.
    """
    shape, scale = train.images.shape[1:], buffer.start_scale
    if buffer.start == "informative":
        if base is not None:
            return jax.tree_util.Partial(Base.draw if is_conditional else Base.draw_any, base)
        with phase(f"start distribution: a Gaussian a class of {len(train.labels):,} images"):
            num_classes = int(np.max(train.labels)) + 1
            return samplers.informative_start(train.images, train.labels, num_classes)
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


def _draw_near(points: jax.Array, scale: Any, key: Key, label: Any) -> jax.Array:
    """Returns a random one of ``points`` (N, d) under noise."""
    point_key, noise_key = jax.random.split(key)
    point = jax.random.choice(point_key, points)
    return point + scale * jax.random.normal(noise_key, point.shape)
