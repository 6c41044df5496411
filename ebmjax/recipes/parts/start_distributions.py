"""Distributions that chains start from."""

import math
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

from ebmjax import data, networks, samplers
from ebmjax._phases import phase
from ebmjax._stored import map_rows
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.types import Key

MOST_FITTED = 4000
"""Images that Gaussians are fitted to, at most: their products take seconds."""
LEAST_HELD, MOST_HELD = 10, 400
"""Images below which none are held out, and held out at most: a fifth between these."""
NUM_DIRECTIONS, SHRINKAGES, SMALLEST_VARIANCE = (4, 16, 64), (0.03, 0.1, 0.3), 1e-4
"""Directions of a Gaussian that are tried, shares by which variances go to their mean, and one."""
MOST_COMPONENTS, MOST_PIXELS = 64, 32**2
"""Classes and pixels up to which an autoregressive density is tried, whose draws take as long."""
BASE_FILE = "base.npz"
"""File of an autoregressive density in a run's folder."""
NUM_STEPS, PIXELS_SEEN, EPOCHS = (1000, 6000), 2_400_000, 40
"""Updates of its fit: by pixels of an image, between these, and in so many epochs at most."""


class Base(NamedTuple):
    """A density of images that chains start from and that a network tilts.

    Attributes:
      density: a mixture of Gaussians, of normal variables that stand for pixels; or autoregressive.
      classes: class of each component, (c,).
    """

    density: samplers.FactorGaussian | samplers.Autoregressive
    classes: jax.Array

    def draw(self, key: Key, label: Any) -> jax.Array:
        """Returns one draw of the class ``label``, or of any where it is below 0."""
        choice_key, start_key = jax.random.split(key)
        is_own = (self.classes == label) | (label < 0)
        logits = jnp.where(is_own, self.density.log_weights, -jnp.inf)
        return self.density.draw(start_key, jax.random.categorical(choice_key, logits))

    def draw_any(self, key: Key, label: Any) -> jax.Array:
        """Returns one draw of any class."""
        return self.draw(key, -1)


def rescale_images(train: data.ImageData) -> Any:
    """Returns the images on the host, (N, ...) in [-1, 1]; those on a disk stay there."""
    return map_rows(
        lambda some: (2.0 * some.astype(np.float32) - 255.0) / 255.0, train.images, np.float32
    )


def fit_base(train: data.ImageData) -> tuple[Base, str]:
    """Returns the density under which held-out images are likeliest, and a line about it.

    It is a Gaussian of every class behind histograms of pixels, whose number of directions and
    shrinkage are chosen, too; or it is autoregressive. A fifth of the images is held out, and at
    most ``MOST_FITTED`` are used.
    """
    names, labels = np.unique(train.labels, return_inverse=True)
    most = max(MOST_FITTED // len(names), 2)
    places = np.concatenate([np.flatnonzero(labels == own)[:most] for own in range(len(names))])
    shares, labels = np.bincount(labels) / len(labels), labels[places]
    rng = np.random.default_rng(0)
    images = np.asarray(train.images[places])
    x = ((images + rng.random(images.shape)) / 128.0 - 1.0).astype(np.float32)
    num_held = min(len(x) // 5, MOST_HELD) if len(x) >= LEAST_HELD else 0
    is_in = rng.permutation(len(x)) >= num_held
    is_in[np.unique(labels, return_index=True)[1]] = True  # of every class one
    is_out = is_in if is_in.all() else ~is_in
    pixels, found = images[0, ..., 0].size, {}
    with phase(f"base of {len(names)} classes, of {len(x):,} images"):
        z, slopes = _gaussianise(samplers.fit_margins(x[is_in]), x)
        for number in NUM_DIRECTIONS:
            fitted = _fit(z[is_in], labels[is_in], number)
            for share in SHRINKAGES:
                scores = _score(z[is_out], _weigh(_shrink(fitted, share), shares))
                score = np.mean(logsumexp(scores, axis=1) + slopes[is_out])
                found[number, share] = float(score)
        best, nats, margins = max(found, key=found.__getitem__), -math.inf, samplers.fit_margins(x)
        fitted = _shrink(_fit(_gaussianise(margins, x)[0], labels, best[0]), best[1])
        density: Any = fitted._replace(margins=margins)
        about = "a Gaussian a class"
        if pixels <= MOST_PIXELS and len(names) <= MOST_COMPONENTS:
            steps = int(np.clip(PIXELS_SEEN // pixels, *NUM_STEPS))
            steps = min(steps, EPOCHS * len(x) // samplers.FIT_BATCH)
            own, nats = samplers.fit_autoregressive(images, labels, ~is_in, num_steps=steps)
        if nats > found[best]:
            density, about = own, "autoregressive"
    about = (
        f"base of the density: {about}. Held-out images have {found[best]:.1f} nats by a Gaussian "
        f"a class, {nats:.1f} by pixel after pixel"
    )
    return Base(_weigh(density, shares), jnp.asarray(names, jnp.int32)), about


def write_base(base: Base | None, folder: Path) -> None:
    """Writes an autoregressive base to the folder of a run, once; others are soon fitted again."""
    if base is None or not isinstance(base.density, samplers.Autoregressive):
        return
    density, file = base.density, folder / BASE_FILE
    if not file.exists():
        named = {name: getattr(density, name) for name in ("edges", "log_weights")}
        temporary = file.with_name(f".{BASE_FILE}")
        tensors: dict[str, Any] = {"classes": base.classes, **named, **density.params}
        np.savez(temporary, **tensors)
        temporary.replace(file)


def read_base(folder: Path) -> tuple[Base, str] | None:
    """Returns what ``write_base`` wrote, and a line about it; None without a file.

    Raises ConfigError for a file that cannot be read.
    """
    file = folder / BASE_FILE
    if not file.is_file():
        return None
    try:
        params = {name: jnp.asarray(x) for name, x in networks.read_tensors(file).items()}
        classes, edges, log_weights = map(params.pop, ("classes", "edges", "log_weights"))
        base = Base(samplers.Autoregressive(params, edges, log_weights), classes)
        jax.eval_shape(base.draw_any, jax.random.key(0), 0)
    except (KeyError, ValueError, TypeError) as error:
        raise ConfigError(
            f"{file}, the base of the run's density, cannot be read: {error} Bring it back, or "
            "train in a new folder."
        ) from error
    return base, f"base of the density: autoregressive, from {file}"


def _weigh(fitted: Any, shares: np.ndarray) -> Any:
    """Returns the density with each class's share of all images, though fewer were taken."""
    return fitted._replace(log_weights=jnp.asarray(np.log(shares), jnp.float32))


def _gaussianise(margins: samplers.Margins, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    z, slopes = map(np.asarray, jax.jit(jax.vmap(margins.gaussianise))(x))
    return z, slopes.reshape(len(x), -1).sum(axis=1)


def _fit(z: np.ndarray, labels: np.ndarray, number: int) -> samplers.FactorGaussian:
    """Returns Gaussians of classes, of which z are (n, *shape)."""
    return samplers.fit_factor_gaussian(z, labels, num_directions=number, jitter=SMALLEST_VARIANCE)


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
        scores.append(log_weight - 0.5 * (squares + volume + flat.shape[1] * math.log(2 * math.pi)))
    return np.stack(scores, axis=1)


def log_base(base: Any, temperature: float, x: jax.Array) -> jax.Array:
    """Returns T log q of images x (..., *shape), which samplers that tilt q add to the network."""
    found = jax.vmap(base.log_density)(x.reshape(-1, *base.shape))
    return temperature * found.reshape(x.shape[: x.ndim - len(base.shape)])


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
