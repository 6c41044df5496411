"""Log probabilities in nats of a trained density, normalised by log Z in an interval."""

import math
import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import evidence
from ebmjax._phases import say_part
from ebmjax._stored import take_rows
from ebmjax.data import ImageData, add_gaussian_noise, dequantise
from ebmjax.evaluate._baselines import Baseline, fit_baselines
from ebmjax.samplers import Autoregressive, hmc
from ebmjax.types import Key, LogDensityFn

BATCH, LEVEL = 128, 2.0 / 256.0
"""Images a call, and the width of a level, in units of pixels in [-1, 1]."""
POWERS_OF_A_REDRAW = 4
"""Powers of ``num_powers`` for which chains that tilt an autoregressive density have one."""
MOST_FITTED = 4000
"""Training images that the base and the baselines are fitted to, at most."""
SMALLEST_NOISE = 0.01
"""Least deviation of the base's Gaussians along any direction, in the same units."""
NOISY = "noisy_"


class Normalised(NamedTuple):
    """A model's density, normalised, and the baselines that it is compared with.

    Attributes:
      log_density_fn: one position to the log density, not normalised.
      found: log Z from both sides, of ``evidence.log_partition``.
      temperature: by which the model's log density was divided.
      baselines: of ``fit_baselines``, the best on held-out training data first; last the "base" of
        a tilted density.
      noise_scale: deviation of the noise that the model was trained with.
      noisy_baselines: those of noisy data; none without noise.
    """

    log_density_fn: LogDensityFn
    found: Any
    temperature: float
    baselines: Mapping[str, Baseline]
    noise_scale: float = 0.0
    noisy_baselines: Mapping[str, Baseline] = {}

    def score(self, images: Any, key: Key) -> dict[str, np.ndarray]:
        """Returns nats of points or uint8 images (N, ...), which are dequantised.

        "nats" are NaN where log Z did not close, and lie between "nats_low" and "nats_high". Images
        have bits per dimension, too. "<baseline>_nats" are those of the baselines. Names that begin
        with "noisy_" are of the same images under the noise of training.
        """
        key, noise_key = jax.random.split(key)
        x = to_positions(key, images)
        found = self._score(x, self.baselines)
        if images.dtype == np.uint8:
            size, shift = math.prod(x.shape[1:]), math.log(LEVEL)
            of = lambda name: -(found[name] / size + shift) / math.log(2)  # noqa: E731
            found |= {"bits": of("nats"), "bits_low": of("nats_high"), "bits_high": of("nats_low")}
        if self.noisy_baselines:
            x = add_gaussian_noise(noise_key, x, scale=self.noise_scale)
            noisy = self._score(x, self.noisy_baselines)
            found |= {f"{NOISY}{name}": values for name, values in noisy.items()}
        return found

    def _score(self, x: jax.Array, baselines: Mapping[str, Baseline]) -> dict[str, np.ndarray]:
        found = np.asarray(jax.lax.map(self.log_density_fn, x, batch_size=BATCH), np.float64)
        low, high = self.found.interval
        return {
            "nats": found - (self.found.value if self.found.is_closed else math.nan),
            "nats_low": found - high,
            "nats_high": found - low,
            **{f"{name}_nats": baseline(x) for name, baseline in baselines.items()},
        }

    def summarise(self, scores: dict[str, np.ndarray]) -> dict[str, Any]:
        """Returns means over images, their errors, the baselines, and facts about log Z.

        "best" is the best baseline on held-out training data. The "difference" of a baseline is the
        model's nats minus its own, in pairs; the ends add 1.96 errors over images to the interval
        of log Z. "noisy" has the same of noisy images. Warns if log Z did not close.
        """
        found = self.found
        lower, upper = found.lower.value, found.upper.value
        if not found.is_closed:
            wrong = " They are not: the sides cross, so chains missed a mode." * (upper < lower)
            warnings.warn(
                f"log Z did not close: at least {lower:.1f} from below, {upper:.1f} from above if "
                f"the chains are right.{wrong} Take more powers or believe neither.",
                stacklevel=2,
            )
        noisy = {name.removeprefix(NOISY): v for name, v in scores.items() if NOISY in name}
        bits = {name: float(np.mean(v)) for name, v in scores.items() if name.startswith("bits")}
        return {
            **_compare(scores, self.baselines),
            **bits,
            "num_images": len(scores["nats_low"]),
            "is_closed": float(found.is_closed),
            "log_z_lower": lower,
            "log_z_upper": upper,
            "temperature": self.temperature,
            **({"noisy": _compare(noisy, self.noisy_baselines)} if noisy else {}),
        }


def _compare(scores: Mapping[str, np.ndarray], baselines: Iterable[str]) -> dict[str, Any]:
    """Returns the means of a model's nats, those of the baselines, and the paired difference."""
    ends = "nats_low", "nats", "nats_high"
    error = lambda values: float(np.std(values) / math.sqrt(len(values)))  # noqa: E731
    found = {}
    for name in baselines:
        own = scores[f"{name}_nats"]
        low, mean, high = (float(np.mean(scores[end] - own)) for end in ends)
        around = error(scores["nats_low"] - own)
        found[name] = {"nats": float(np.mean(own)), "nats_error": error(own)}
        found[name] |= {"difference": mean, "error": around}
        found[name] |= {"low": low - 1.96 * around, "high": high + 1.96 * around}
    best = next(iter(found))
    return {
        **{name: float(np.mean(scores[name])) for name in ends},
        "error": error(scores["nats_low"]),
        "baselines": found,
        "best": {"name": best, **found[best]},
    }


def normalise(
    key: Key,
    log_density_fn: LogDensityFn,
    train: ImageData,
    *,
    low: float,
    high: float,
    tilted: tuple[Autoregressive, LogDensityFn] | None = None,
    noise_scale: float = 0.0,
    num_chains: int = 64,
    num_powers: int = 400,
    temperature: Any = 1.0,
    flow_minutes: float = 0.0,
) -> Normalised:
    """Returns a density of images or points, normalised by chains from a base, beside baselines.

    Args:
      key: consumed.
      log_density_fn: one image (H, W, C) in [-1, 1], or one point, to its log density.
      train: training images, uint8; or points, floating point.
      low: lower end of the box in which the density lives, if it has no base.
      high: its upper end.
      tilted: q and f of a density q(x) exp(f(x)) on the whole space, which takes the place of
        ``log_density_fn``, and has its own temperature in f. None: Gaussians of the classes are the
        base.
      noise_scale: noise of the training, in units of pixels in [-1, 1].
      num_chains: chains of each side of log Z.
      num_powers: powers from the base to the density.
      temperature: divisor of the log density; "fitted" takes the one that fits the data best.
      flow_minutes: see ``fit_baselines``.
    """
    fit_key, heat_key, noise_key, *base_keys, key = jax.random.split(key, 6)
    images, labels = take_rows(train.images, slice(MOST_FITTED)), train.labels[:MOST_FITTED]
    x, is_image = to_positions(fit_key, images), images.dtype == np.uint8
    noisy = {}
    fit = partial(fit_baselines, labels=labels if is_image else None, flow_minutes=flow_minutes)
    baselines = fit(base_keys[0], x, box=(-1.0, 1.0) if is_image else None)
    if noise_scale:
        noisy = fit(base_keys[1], add_gaussian_noise(noise_key, x, scale=noise_scale))
    if tilted is not None:
        q, tilt = tilted
        own = jax.jit(lambda x: jax.lax.map(q.log_density, x, batch_size=BATCH))
        baselines["base"] = lambda x: np.asarray(own(x), np.float64)
        n = max(num_powers // POWERS_OF_A_REDRAW, 2)
        say_part(f"log Z: {num_chains} chains through {n:,} powers, both ways")
        found = evidence.tilted_log_partition(key, tilt, q, num_chains=num_chains, num_powers=n)
        whole = lambda x: q.log_density(x) + tilt(x)  # noqa: E731
        return Normalised(whole, found, temperature, baselines, noise_scale, noisy)
    x = np.asarray(x)
    jitter = max(noise_scale, SMALLEST_NOISE) ** 2 if is_image else None
    classes = np.unique(labels, return_inverse=True)[1] if is_image else np.zeros(len(x), int)
    base = evidence.gaussian_base(x, classes if classes.any() else None, jitter=jitter)
    scale, mean = np.sqrt(np.var(x, axis=0) + SMALLEST_NOISE**2), np.mean(x, axis=0)
    # Beyond the box by the moments of the data.
    extend = partial(evidence.unfold, low=low, high=high, mean=mean, scale=scale)
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
    return Normalised(tempered, found, temperature, baselines, noise_scale, noisy)


def to_positions(key: Key, images: Any) -> jax.Array:
    """Returns points as they are, and uint8 images dequantised, in [-1, 1]."""
    images = jnp.asarray(images)
    return dequantise(key, images) if images.dtype == jnp.uint8 else images
