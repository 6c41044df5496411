"""The full evaluation of a finished latent EBM run, for evaluation.json."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import numpy as np

from ebmjax import data, latent, metrics
from ebmjax._phases import say_part
from ebmjax.evaluate import Chains, finite_images, rms_displacement
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.evaluators.table import NEVER
from ebmjax.recipes.models import build as common
from ebmjax.recipes.models.latent import cost
from ebmjax.recipes.models.latent import evidence as latent_evidence
from ebmjax.recipes.models.latent.monitor import LatentMonitor
from ebmjax.recipes.models.latent.parts import params_of_repeats
from ebmjax.training import TrainState, tree_digest
from ebmjax.types import Key

NUM_SIZES = 10
OF_SAMPLES = ("sample_", "start_", "gaussian_", "test_images_", "fid_")
"""Beginnings of the names of scores along training."""


class Keys(NamedTuple):
    """Random keys of a repeat's full evaluation, each named after its use."""

    distances: jax.Array
    evidence: jax.Array
    cost: jax.Array


def keys_of(eval_key: jax.Array) -> Keys:
    """Returns keys that differ from the four into which the monitor splits ``eval_key``."""
    return Keys(*jax.random.split(jax.random.fold_in(eval_key, 4), len(Keys._fields)))


@dataclass(frozen=True)
class LatentEvaluation:
    """``state -> report``: every number that a study compares.

    For several repeats, a number is a list over them, with null for a diverged repeat.

    Attributes:
      monitor: the run's monitor.
      test: the test images.
      config: the run's configuration.
      pilot: time of the pilot run; None without one.
    """

    monitor: LatentMonitor
    test: data.ImageData
    config: Config
    pilot: common.Seconds | None = None

    def __call__(self, state: TrainState) -> dict[str, Any]:
        """Returns the report."""
        diverged = np.asarray(state.consecutive_skipped) >= self.config.train.max_consecutive_skips
        say_part(f"measuring {len(self.test.images):,} test images")
        row, pictures = self.monitor.measure(state)
        row = {
            name.removeprefix("mean_"): value
            for name, value in row.items()
            if not name.startswith(OF_SAMPLES)  # scored anew, with as many as the evaluation's
        }
        params = params_of_repeats(state)
        keys = [keys_of(common.root_keys(self.config, repeat)[2]) for repeat in range(len(params))]
        report = jax.tree.map(partial(_finite_or_null, diverged), row)
        if self.config.eval.generation.every != NEVER:
            report["generation"] = self._generation(keys, params, diverged)
        report["powers"] = self.monitor.powers.tolist()
        report["diverged_repeats"] = int(diverged.sum())
        report["images_sha256"] = tree_digest(self.test.images)
        by_image: dict[str, Any] = {}
        if "squared_errors" in pictures:
            by_image["test_reconstruction_error"] = pictures["squared_errors"]
        report["cost"] = self._cost(keys[0].cost, params[0], int(state.step))
        section = self.config.eval.evidence
        if section.every != NEVER and section.methods:
            methods = ", ".join(self.config.eval.evidence.methods)
            num_images = min(self.config.eval.evidence.num_images, len(self.test.images))
            say_part(f"evidence of {num_images:,} images by {methods}")
            evidence = latent_evidence.compare(
                [key.evidence for key in keys],
                params,
                self.monitor.model,
                self.test.images,
                self.config,
            )
            by_image |= {
                f"evidence.{k}.mean": found["log_evidence"] for k, found in evidence.items()
            }
            report["evidence"] = jax.tree.map(partial(_finite_or_null, diverged), evidence)
        report["per_image"] = {
            name: {"test": np.asarray(_finite_or_null(diverged, values))}
            for name, values in by_image.items()
        }
        return report

    def use(self, state: TrainState) -> common.Use:
        """Returns the first repeat's model: ``apply(params, latents)`` gives images.

        Latents are (N, d), images float32 (N, H, W, C) in [-1, 1]. The score is "log_evidence" in
        nats, estimated as the run monitors it. Samples come from fresh chains of the prior.
        """
        params, key = params_of_repeats(state)[0], common.root_keys(self.config)[2]

        def apply(params: latent.LatentParams, latents: jax.Array) -> jax.Array:
            return jax.vmap(partial(self.monitor.model.generator_fn, params.generator))(latents)

        def sample(key: Key, num: int, num_steps: int | None = None) -> dict[str, np.ndarray]:
            chains = self.monitor.chains
            chains = chains._replace(prior_steps=num_steps or chains.prior_steps)
            monitor = replace(self.monitor, chains=chains)
            return {"images": finite_images(monitor.programs.sample(key, params, num).images)}

        @jax.jit
        def evidence(params: latent.LatentParams, images: jax.Array) -> dict[str, jax.Array]:
            return self.monitor.evidence_of_each(key, params, images)

        def score(images: np.ndarray) -> dict[str, np.ndarray]:
            found = evidence(params, jax.numpy.asarray(images))
            trapezium = found["test_trapezium_log_evidence"]
            return {"log_evidence": np.asarray(found.get("test_log_evidence", trapezium))}

        return common.Use(params, apply, sample, score)

    @cached_property
    def sizes(self) -> list[int]:
        """Ten sample sizes, evenly spaced as in the thesis."""
        section = self.config.eval.generation
        spaced = np.linspace(section.smallest_num, section.num_images, NUM_SIZES)
        return spaced.round().astype(int).tolist()

    def _generation(
        self, keys: Sequence[Keys], params: Sequence[latent.LatentParams], diverged: np.ndarray
    ) -> dict[str, Any]:
        """Returns ``evaluate.generation`` of "fresh" prior chains, and scores at ten sizes."""
        num, distances = self.config.eval.generation.num_images, self.monitor.distances
        say_part(f"chains of {num:,} samples")
        split_keys = [jax.random.split(key.distances) for key in keys]
        sampled = [
            jax.device_get(self.monitor.programs.sample(key, one, num))
            for (key, _), one in zip(split_keys, params, strict=True)
        ]
        sets = {str(i): Chains(one.start_images, one.images) for i, one in enumerate(sampled)}
        report = distances.generation(sets, self.test)
        fresh = [report.pop(name) for name in sets]
        for found, one, (_, key) in zip(fresh, sampled, split_keys, strict=True):
            is_finite = np.isfinite(one.images).all(axis=(1, 2, 3))
            pair = one.start_latents[is_finite], one.latents[is_finite]
            found["rms_displacement"] = rms_displacement(*pair)  # of latents, not of pixels
            found["at_sizes"] = self._at_sizes(key, one.images[is_finite])
            found["starts"]["at_sizes"] = self._at_sizes(key, one.start_images[is_finite])
        test = data.to_signed_unit(jax.numpy.asarray(self.test.images[:num]))
        share = len(test) / num
        of_test = self._at_sizes(split_keys[0][1], test, share)
        report["test_images"]["at_sizes"] = jax.tree.map(np.ndarray.tolist, of_test)
        of_repeats = jax.tree.map(partial(_finite_or_null, diverged), common.stack_arrays(fresh))
        return {"sizes": self.sizes, "fresh": of_repeats, **report}

    def _at_sizes(self, key: jax.Array, images: Any, share: float = 1.0) -> dict[str, Any]:
        """Returns scores of images in [-1, 1] at a share of ``sizes``, and extrapolated."""
        sizes = [max(2, round(share * size)) for size in self.sizes]
        by_size = self.monitor.distances.at_sizes(key, finite_images(images), sizes)
        return {
            name: {"values": values, "infinity": np.array(_at_infinity(sizes, values))}
            for name, values in by_size.items()
        }

    def _cost(self, key: jax.Array, params: latent.LatentParams, num_steps: int) -> dict[str, Any]:
        say_part("timing a step")
        batch = self.monitor.batch(np.arange(self.config.train.batch_size))
        gradient_fn = self.monitor.programs.gradient
        pilot_seconds = self.pilot.run if self.pilot else 0.0
        return cost.cost(
            gradient_fn, key, params, (), batch, num_steps=num_steps, pilot_seconds=pilot_seconds
        )


def _at_infinity(sizes: Sequence[int], values: np.ndarray) -> float:
    is_known = np.isfinite(values)
    known = np.array(sizes)[is_known]
    if len(set(known)) < 2:  # no line
        return np.nan
    return metrics.extrapolate_to_infinity(known, values[is_known])


def _finite_or_null(diverged: np.ndarray, values: np.ndarray) -> Any:
    """Returns values as lists, with NaN (null in JSON) for diverged repeats."""
    values = np.asarray(values, float)
    lost = diverged.reshape(diverged.shape + (1,) * (values.ndim - diverged.ndim))
    return np.where(lost, np.nan, values).tolist()
