"""The full evaluation of a trained joint energy model, part by part."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from ebmjax import data, losses, metrics
from ebmjax.learning import ChainPlan, JointNetwork
from ebmjax.networks import NormPolicy
from ebmjax.recipes.core.build import Use
from ebmjax.recipes.core.fields import Config, ConfigError
from ebmjax.recipes.core.over_training import over_training
from ebmjax.recipes.core.workdir import read_rows
from ebmjax.recipes.images.distances import Distances, finite_images
from ebmjax.recipes.images.extractors import check_weights
from ebmjax.recipes.joint import evaluate_plots as plots
from ebmjax.recipes.joint import per_image
from ebmjax.recipes.joint.chains import Trained, densities_of, trained
from ebmjax.recipes.joint.generation import Generation
from ebmjax.recipes.joint.monitor import predict
from ebmjax.recipes.joint.ood import check_sets, detections, ood_sets
from ebmjax.recipes.joint.robustness import classify_fn, robustness
from ebmjax.training import TrainState, tree_digest
from ebmjax.types import Key, PyTree

NUM_BINS = 20


@dataclass(frozen=True)
class JointEvaluation:
    """``state -> report`` for evaluation.json; plots and arrays go to the run's folder.

    Attributes:
      workdir: gets evaluation.npz and ``plots/eval_*.png``.
      key: key of all random numbers.
      network: the classifier, the network of its chains, and what these are normalised by.
      density_scale: factor of the log density that chains follow.
      plan: how training drew its negatives; None for a classifier alone.
      train: the training images.
      test: the test images.
      distances: distances of generated images, with their extractor.
      config: sections data, sampler and eval are read.
    """

    workdir: Path
    key: Key
    network: JointNetwork
    density_scale: float
    plan: ChainPlan | None
    train: data.ImageData
    test: data.ImageData
    distances: Distances
    config: Config

    def check(self) -> None:
        """Raises ConfigError for fields of ``config.eval`` that this run cannot satisfy."""
        check_weights(self.config)
        if self.config.eval.num_attacked:
            self._classify(self.config.eval.refine_steps)
        if self.config.eval.num_ood:
            check_sets(self.config, self.test.images)

    def __call__(self, state: TrainState) -> dict[str, Any]:
        """Returns the report. A part whose size in ``config.eval`` is 0 is left out."""
        section, model = self.config.eval, trained(state)
        attack_key, chain_key, landscape_key = jax.random.split(self.key, 3)
        generation = self._generation(self.config) if section.num_generated and self.plan else None

        test_scores = self._score(model, _floats(self.test.images))
        arrays: dict[str, Any] = {"labels": self.test.labels, "logits": test_scores["logits"]}
        report: dict[str, Any] = {"classification": self._classification(test_scores["logits"])}
        report["images_sha256"] = tree_digest(self.test.images)
        report["per_image"] = per_image.classification(
            test_scores["logits"], self.test.labels, NUM_BINS
        )
        judged_by = "validation" if self.config.data.num_validation else "test"
        report["over_training"] = {"split": judged_by, **over_training(read_rows(self.workdir))}
        if section.num_ood:
            report["ood"], scores = self._ood(model, test_scores)
            arrays |= _flat(scores)
            report["per_image"] |= per_image.detection(scores.pop(per_image.TEST), scores)
        if section.num_attacked:
            report["robustness"], withstood = self._robustness(attack_key, model)
            report["per_image"] |= withstood
            plots.robustness(self.workdir, report["robustness"])
        if generation:
            report["generation"], samples = generation(chain_key, model, state)
            arrays |= {
                f"{s}_{name}": x for s, found in samples.items() for name, x in found.items()
            }
            plots.samples(self.workdir, samples)
        if section.landscape_points:
            report["landscape"], grid = self._landscape(landscape_key, model)
            arrays |= _flat({"landscape": grid})
            plots.landscape(self.workdir, **grid)
        np.savez_compressed(self.workdir / "evaluation.npz", **arrays)
        return report

    def _classify(self, refine_steps: int) -> Callable[..., jax.Array]:
        """Attacked images are refined each by itself, whatever normalises training's chains."""
        alone = self.network._replace(policy=NormPolicy(chains="running"))
        return classify_fn(
            self.network.classifier,
            self.plan,
            densities_of(alone, self.density_scale),
            refine_steps,
        )

    def _generation(self, config: Config) -> Generation:
        assert self.plan is not None
        return Generation(
            plan=self.plan,
            densities_of=densities_of(self.network, self.density_scale),
            distances=self.distances,
            test=self.test.images,
            score=self._score,
            config=config,
        )

    def use(self, state: TrainState) -> Use:
        """Returns the trained classifier: ``apply(params, images)`` gives logits.

        Images are float32 (N, H, W, C) in [-1, 1]. Scores are "class_probability" (N, classes) and
        those that tell other data from the training data. Samples are of any class, from fresh
        chains of the run's sampler.
        """
        model = trained(state)

        def apply(params: PyTree, images: jax.Array) -> jax.Array:
            return self.network.classifier.apply(params, model.statistics, images)[0]

        def sample(key: Key, num: int, num_steps: int | None = None) -> dict[str, np.ndarray]:
            if self.plan is None:
                raise ConfigError(
                    "config.loss.generative_weight=0 trains a classifier alone, which has no "
                    "chains to sample with."
                )
            config = self.config.copy_and_resolve_references()
            config.eval.update(num_generated=num, num_chain_steps=num_steps)
            ends = self._generation(config).chains(key, model)["fresh"].ends
            return {"images": finite_images(ends)}

        def score(images: np.ndarray) -> dict[str, np.ndarray]:
            scores = self._score(model, _floats(images))
            probabilities = np.asarray(jax.nn.softmax(scores.pop("logits")))
            return {"class_probability": probabilities, **scores}

        return Use(model.params, apply, sample, score)

    def _score(self, model: Trained, images: Any) -> dict[str, np.ndarray]:
        """Returns logits and the three scores of images (N, H, W, C) in [-1, 1], batch by batch."""
        return metrics.extract_in_batches(
            partial(self._score_batch, model), images, self.config.eval.batch_size
        )

    @cached_property
    def _score_batch(self) -> Callable[..., dict[str, jax.Array]]:
        def score(model: Trained, images: jax.Array) -> dict[str, jax.Array]:
            def logits_fn(images: jax.Array) -> jax.Array:
                return self.network.classifier.apply(model.params, model.statistics, images)[0]

            return {"logits": logits_fn(images), **metrics.ood_scores(logits_fn, images)}

        return jax.jit(score)

    def _classification(self, logits: np.ndarray) -> dict[str, Any]:
        """Returns accuracy, calibration and proper scores; NaN if logits are not finite."""
        values, bins = jax.device_get(_calibration(logits, self.test.labels))
        is_finite = np.isfinite(logits).all()
        found = {name: float(value) if is_finite else math.nan for name, value in values.items()}
        plots.reliability(self.workdir, bins, found)
        reliability = {name: array.tolist() for name, array in bins._asdict().items()}
        return {"num_images": len(logits), **found, "reliability": reliability}

    def _ood(
        self, model: Trained, test_scores: dict[str, np.ndarray]
    ) -> tuple[dict[str, Any], dict[str, dict[str, np.ndarray]]]:
        """Returns the separation of test images from others by three scores, and the scores."""
        num = self.config.eval.num_ood
        sets, skipped = ood_sets(self.config, self.test.images[:num])
        tested = {name: score[:num] for name, score in test_scores.items() if name != "logits"}
        others = {}
        for name, images in sets.items():
            others[name] = self._score(model, _floats(images))
            del others[name]["logits"]
        plots.ood(self.workdir, tested, others)
        num_images = len(next(iter(tested.values())))
        report = {**detections(tested, others), "num_images": num_images, "skipped": skipped}
        return report, {"test": tested, **others}

    def _robustness(
        self, key: Key, model: Trained
    ) -> tuple[dict[str, Any], dict[str, per_image.Parts]]:
        """Returns the classifier's robustness and, if images are refined, "refined" behind chains.

        Attacks on the plain classifier cost little, and a defence is judged against it.
        """
        section = self.config.eval
        images, labels = (array[: section.num_attacked] for array in self.test)
        attacked = partial(
            robustness, model=model, images=_floats(images), labels=jnp.asarray(labels)
        )
        plain = ConfigDict({**section.to_dict(), "refine_steps": 0, "num_eot": 1})
        report, withstood = attacked(key, self._classify(0), section=plain)
        if section.refine_steps:
            refined = self._classify(section.refine_steps)
            refined_key = jax.random.fold_in(key, 1)
            report["refined"], others = attacked(refined_key, refined, section=section)
            withstood |= {f"refined.{name}": found for name, found in others.items()}
        parts = {f"robustness.{name}": {per_image.TEST: x} for name, x in withstood.items()}
        return report, parts

    def _landscape(self, key: Key, model: Trained) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Returns the mean joint energy of some training images, around the parameters."""
        image_key, x_key, y_key = jax.random.split(key, 3)
        num_images = max(1, len(self.train.images) // 10)
        chosen = np.asarray(jax.random.permutation(image_key, len(self.train.images)))[:num_images]
        coordinates = jnp.linspace(-1.0, 1.0, self.config.eval.landscape_points)

        @jax.jit
        def grid(model: Trained, keys: tuple[Key, Key], images: jax.Array) -> jax.Array:
            def mean_energy(params: Any) -> jax.Array:
                logits = predict(
                    self.network.classifier,
                    params,
                    model.statistics,
                    images,
                    self.config.eval.batch_size,
                )
                return jnp.mean(losses.joint_energy(logits))

            x, y = (metrics.filter_normalised_direction(key, model.params) for key in keys)
            return metrics.energy_landscape(
                mean_energy, model.params, x, y, coordinates, coordinates
            )

        energies = np.asarray(grid(model, (x_key, y_key), _floats(self.train.images[chosen])))
        report = {
            "landscape_range": float(np.max(energies) - np.min(energies)),
            "num_points": len(coordinates),
            "num_images": num_images,
        }
        return report, {"energies": energies, "coordinates": np.asarray(coordinates)}


@jax.jit
def _calibration(logits: jax.Array, labels: jax.Array) -> tuple[dict[str, jax.Array], Any]:
    probabilities = jax.nn.softmax(logits)
    values = {
        "accuracy": metrics.accuracy(logits, labels),
        "ece": metrics.expected_calibration_error(probabilities, labels, num_bins=NUM_BINS),
        "nll": metrics.negative_log_likelihood(logits, labels),
        "brier": metrics.brier_score(probabilities, labels),
    }
    return values, metrics.reliability_bins(probabilities, labels, num_bins=NUM_BINS)


def _flat(groups: dict[str, dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Turns ``{"a": {"b": x}}`` into ``{"a_b": x}``."""
    return {f"{a}_{b}": x for a, group in groups.items() for b, x in group.items()}


def _floats(images: np.ndarray) -> jax.Array:
    return data.to_signed_unit(jnp.asarray(images))
