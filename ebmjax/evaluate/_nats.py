"""Log probabilities in nats of a trained density, normalised by log Z in an interval."""

import math
import warnings
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import evidence
from ebmjax._phases import say_part
from ebmjax._stored import take_rows
from ebmjax.data import ImageData, dequantise
from ebmjax.samplers import hmc
from ebmjax.types import Key, LogDensityFn

BATCH, LEVEL = 128, 2.0 / 256.0
"""Images a call, and the width of a level, in units of pixels in [-1, 1]."""
MOST_FITTED = 4000
"""Training images that the base is fitted to, at most."""
SMALLEST_NOISE = 0.01
"""Least deviation of the Gaussians of images along any direction, in the same units."""


class Normalised(NamedTuple):
    """A model's density, normalised.

    Attributes:
      log_density_fn: one position in the box to the log density, not normalised.
      found: log Z from both sides, of ``evidence.log_partition``.
      base: Gaussians fitted to the training data.
      temperature: by which the model's log density was divided.
    """

    log_density_fn: LogDensityFn
    found: Any
    base: evidence.Base
    temperature: float

    def score(self, images: Any, key: Key) -> dict[str, np.ndarray]:
        """Returns nats of points or uint8 images (N, ...), which are dequantised.

        "nats" are NaN where log Z did not close, and lie between "nats_low" and "nats_high". Images
        have bits per dimension, too. "gaussian_nats" are those of the base.
        """
        x = to_positions(key, images)
        log_density, gaussian = (
            np.asarray(jax.lax.map(fn, x, batch_size=BATCH), np.float64)
            for fn in (self.log_density_fn, self.base.log_density_fn)
        )
        low, high = self.found.interval
        found = {
            "nats": log_density - (self.found.value if self.found.is_closed else math.nan),
            "nats_low": log_density - high,
            "nats_high": log_density - low,
            "gaussian_nats": gaussian,
        }
        if images.dtype == np.uint8:
            size, shift = math.prod(x.shape[1:]), math.log(LEVEL)
            of = lambda nats: -(nats / size + shift) / math.log(2)  # noqa: E731
            found |= {name.replace("nats", "bits"): of(nats) for name, nats in found.items()}
            found |= {"bits_low": found["bits_high"], "bits_high": found["bits_low"]}
        return found

    def summarise(self, scores: dict[str, np.ndarray]) -> dict[str, Any]:
        """Returns means over images, the error of that mean, and facts about log Z.

        Warns if log Z did not close.
        """
        num, found = len(scores["nats_low"]), self.found
        lower, upper = found.lower.value, found.upper.value
        if not found.is_closed:
            wrong = " They are not: the sides cross, so chains missed a mode." * (upper < lower)
            warnings.warn(
                f"log Z did not close: at least {lower:.1f} from below, {upper:.1f} from above if "
                f"the chains are right.{wrong} Take more powers or believe neither.",
                stacklevel=2,
            )
        return {
            **{name: float(np.mean(values)) for name, values in scores.items()},
            "error": float(np.std(scores["nats_low"]) / math.sqrt(num)),
            "num_images": num,
            "is_closed": float(found.is_closed),
            "log_z_lower": lower,
            "log_z_upper": upper,
            "temperature": self.temperature,
        }


def normalise(
    key: Key,
    log_density_fn: LogDensityFn,
    train: ImageData,
    *,
    low: float,
    high: float,
    noise_scale: float = 0.0,
    num_chains: int = 64,
    num_powers: int = 400,
    temperature: float | Literal["fitted"] = 1.0,
) -> Normalised:
    """Returns a density of images or points, normalised by chains from Gaussians of the data.

    Args:
      key: consumed.
      log_density_fn: one image (H, W, C) in [-1, 1], or one point, to its log density.
      train: training images, uint8, whose classes have a Gaussian each; or points, floating point.
      low: lower end of the box in which the density lives.
      high: its upper end.
      noise_scale: noise of the training, in units of pixels in [-1, 1]; the Gaussians' least.
      num_chains: chains of each side of log Z.
      num_powers: powers from the Gaussians to the density.
      temperature: divisor of the log density; "fitted" takes the one that fits the data best.
    """
    fit_key, heat_key, key = jax.random.split(key, 3)
    images = take_rows(train.images, slice(MOST_FITTED))
    x = np.asarray(to_positions(fit_key, images))
    labels = jitter = None
    if images.dtype == np.uint8:
        jitter = max(noise_scale, SMALLEST_NOISE) ** 2
        labels = np.unique(train.labels[:MOST_FITTED], return_inverse=True)[1]
        labels = labels if labels.any() else None
    base = evidence.gaussian_base(x, labels, jitter=jitter)
    scale = np.sqrt(np.var(x, axis=0) + SMALLEST_NOISE**2)
    # Beyond the box by the moments of the data.
    extend = partial(evidence.unfold, low=low, high=high, mean=np.mean(x, axis=0), scale=scale)
    if temperature == "fitted":
        say_part("fitting a temperature to the training data")
        assert base.coordinates is not None
        temperature = evidence.fit_temperature(
            heat_key, log_density_fn, x, base.coordinates, extend=extend
        )
    tempered = lambda position: log_density_fn(position) / temperature  # noqa: E731
    say_part(f"log Z: {num_chains} chains through {num_powers:,} powers, both ways")
    found = evidence.log_partition(
        key,
        extend(tempered),
        base,
        num_chains=num_chains,
        num_powers=num_powers,
        sampler=hmc,  # at as many gradients the sides of MALA lie twice as far apart
        num_steps=1,
        num_long=200,  # trajectories that move the pilot's end, where the reverse chains begin
        refit=True,
    )
    return Normalised(tempered, found, base, temperature)


def to_positions(key: Key, images: Any) -> jax.Array:
    """Returns points as they are, and uint8 images dequantised, in [-1, 1]."""
    images = jnp.asarray(images)
    return dequantise(key, images) if images.dtype == jnp.uint8 else images
