"""The full evaluation of a finished latent EBM run, for evaluation.json."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import numpy as np

from ebmjax import data, latent, metrics
from ebmjax._phases import say_part
from ebmjax.evaluate import Extractor, finite_images, rms_displacement
from ebmjax.recipes.core import build as common
from ebmjax.recipes.core.fields import Config
from ebmjax.recipes.latent import cost
from ebmjax.recipes.latent import evidence as thermo_evidence
from ebmjax.recipes.latent.monitor import LatentMonitor, params_of_repeats
from ebmjax.training import TrainState, tree_digest
from ebmjax.types import Key

NUM_SIZES = 10


class Keys(NamedTuple):
    """Random keys of a repeat's full evaluation, each named after its use."""

    distances: jax.Array
    evidence: jax.Array
    cost: jax.Array
    test_images: jax.Array


class Judged(NamedTuple):
    """Scores of a repeat's samples and of their chains' starts.

    Attributes:
      ends: each metric at every size, and "manifold".
      starts: the same for the chains' starts.
      rms_displacement: displacement of the chains, in latents.
      num_diverged: samples that are not finite, left out of both.
    """

    ends: dict[str, Any]
    starts: dict[str, Any]
    rms_displacement: np.ndarray
    num_diverged: np.ndarray


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
        """Returns the report. Distances of images need features, so class labels or Inception."""
        diverged = np.asarray(state.consecutive_skipped) >= self.config.train.max_consecutive_skips
        say_part(f"measuring {len(self.test.images):,} test images")
        row, pictures = self.monitor.measure(state)
        row = {name.removeprefix("mean_"): value for name, value in row.items()}
        params = params_of_repeats(state)
        keys = [keys_of(common.root_keys(self.config, repeat)[2]) for repeat in range(len(params))]
        report = jax.tree.map(partial(_finite_or_null, diverged), row)
        if self.extractor is not None:
            pairs = zip(keys, params, strict=True)
            judged = [self._judged(key.distances, one) for key, one in pairs]
            lost = common.stack_arrays([one.num_diverged for one in judged])
            report["num_diverged_samples"] = lost.tolist()
            report |= self._told([one.ends for one in judged], diverged, self.sizes)
            # Scores of chains that never moved, and of real images.
            report["starts"] = self._told([one.starts for one in judged], diverged, self.sizes)
            ways = common.stack_arrays([one.rms_displacement for one in judged])
            report["rms_displacement"] = _finite_or_null(diverged, ways)
            report["test_images"] = self._of_test_images(keys[0].test_images)
        report["extractor"] = self.extractor and self.extractor.described()
        report["powers"] = self.monitor.powers.tolist()
        report["diverged_repeats"] = int(diverged.sum())
        report["images_sha256"] = tree_digest(self.test.images)
        by_image = {"test_reconstruction_error": pictures["squared_errors"]}
        report["cost"] = self._cost(keys[0].cost, params[0], int(state.step))
        if self.config.eval.evidence_methods:
            methods = ", ".join(self.config.eval.evidence_methods)
            num_images = min(self.config.eval.evidence_images, len(self.test.images))
            say_part(f"evidence of {num_images:,} images by {methods}")
            evidence = thermo_evidence.compare(
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
            steps = {"prior_steps": num_steps or chains["prior_steps"]}
            monitor = replace(self.monitor, chains={**chains, **steps})
            return {"images": finite_images(monitor.programs.sample(key, params, num).images)}

        @jax.jit
        def evidence(params: latent.LatentParams, images: jax.Array) -> dict[str, jax.Array]:
            return self.monitor.evidence_of_each(key, params, images)

        def score(images: np.ndarray) -> dict[str, np.ndarray]:
            found = evidence(params, jax.numpy.asarray(images))
            trapezium = found["test_trapezium_log_evidence"]
            return {"log_evidence": np.asarray(found.get("test_log_evidence", trapezium))}

        return common.Use(params, apply, sample, score)

    @property
    def extractor(self) -> Extractor | None:
        """Extractor that judges images; None if nothing is generated or there is no extractor."""
        return self.monitor.distances.extractor if self.config.eval.num_generated else None

    @cached_property
    def sizes(self) -> list[int]:
        """Ten sample sizes, evenly spaced as in the thesis."""
        section = self.config.eval
        spaced = np.linspace(section.smallest_generated, section.num_generated, NUM_SIZES)
        return spaced.round().astype(int).tolist()

    def _judged(self, key: jax.Array, params: latent.LatentParams) -> Judged:
        """Returns the scores of a repeat's finite samples and of their chains' starts."""
        sample_key, subset_key = jax.random.split(key)
        num_generated = self.config.eval.num_generated
        say_part(f"chains of {num_generated:,} samples")
        found = jax.device_get(self.monitor.programs.sample(sample_key, params, num_generated))
        is_finite = np.isfinite(found.images).all(axis=(1, 2, 3))
        ends, starts = (
            self.monitor.distances.at_sizes(
                subset_key, finite_images(images[is_finite]), self.sizes
            )
            for images in (found.images, found.start_images)
        )
        way = rms_displacement(found.start_latents[is_finite], found.latents[is_finite])
        return Judged(ends, starts, np.array(way), np.array(np.sum(~is_finite)))

    def _of_test_images(self, key: jax.Array) -> dict[str, Any]:
        """Returns scores of as many real images, or of all if fewer, at proportional sizes."""
        section = self.config.eval
        images = self.test.images[: section.num_generated]
        share = len(images) / section.num_generated
        sizes = [max(2, round(share * size)) for size in self.sizes]
        return self._told(
            [self.monitor.distances.at_sizes(key, images, sizes)], np.array(False), sizes
        )

    @staticmethod
    def _told(
        by_repeat: list[dict[str, Any]], diverged: np.ndarray, sizes: Sequence[int]
    ) -> dict[str, Any]:
        """Returns ``Distances.at_sizes`` by repeat, with each metric at infinitely many images."""
        every = common.stack_arrays(by_repeat)
        scores = every.pop("manifold")
        found = {"manifold": jax.tree.map(partial(_finite_or_null, diverged), scores)}
        for name, values in every.items():
            infinity = np.apply_along_axis(partial(_at_infinity, sizes), -1, values)
            found[name] = {
                "sizes": [*sizes],
                "values": _finite_or_null(diverged, values),
                "infinity": _finite_or_null(diverged, infinity),
            }
        return found

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
