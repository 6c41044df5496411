"""The full evaluation of a trained joint energy model, part by part."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from ebmjax import data, evaluate, losses, metrics
from ebmjax._phases import say_part
from ebmjax.learning import ChainPlan, JointNetwork
from ebmjax.networks import NormPolicy
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.evaluators.distances import Distances
from ebmjax.recipes.evaluators.extractors import check_weights
from ebmjax.recipes.evaluators.over_training import over_training
from ebmjax.recipes.folder.workdir import read_rows
from ebmjax.recipes.models.build import Use
from ebmjax.recipes.models.joint import evaluate_plots as plots
from ebmjax.recipes.models.joint.chains import Trained, densities_of, trained
from ebmjax.recipes.models.joint.generation import Generation
from ebmjax.recipes.models.joint.monitor import predict
from ebmjax.recipes.models.joint.ood import check_sets, groups, ood_sets
from ebmjax.recipes.models.joint.robustness import Refine, check_derivative, refinement
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
      refining: whose sampler refines attacked images; None if they are classified as they are.
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
    refining: ChainPlan | None
    train: data.ImageData
    test: data.ImageData
    distances: Distances
    config: Config

    def check(self) -> None:
        """Raises ConfigError for fields of ``config.eval`` that this run cannot satisfy."""
        check_weights(self.config)
        if self.refining and "full" in self.config.eval.refine_gradients:
            shape = self.test.images.shape[1:]
            check_derivative(self._refinement(), self.network.classifier, shape)
        if self.config.eval.num_ood:
            check_sets(self.config, self.test.images)

    def __call__(self, state: TrainState) -> dict[str, Any]:
        """Returns the report. A part whose size in ``config.eval`` is 0 is left out."""
        section, model = self.config.eval, trained(state)
        attack_key, chain_key, landscape_key = jax.random.split(self.key, 3)
        generation = self._generation(self.config) if section.num_generated and self.plan else None

        say_part(f"classifying {len(self.test.images):,} images")
        sets: dict[str, np.ndarray] = {}
        if section.num_ood:
            sets, skipped = ood_sets(self.config, self.test.images[: section.num_ood])
        found = evaluate.classifier(
            Partial(self._logits, model),
            self.test,
            outside=sets,
            batch_size=section.batch_size,
            num_bins=NUM_BINS,
        )
        report = {"classification": found["classification"], "per_image": found["per_image"]}
        bins = metrics.ReliabilityBins(**report["classification"]["reliability"])
        plots.reliability(self.workdir, bins, report["classification"])
        arrays: dict[str, Any] = {"labels": self.test.labels, "logits": found["logits"]}
        report["images_sha256"] = tree_digest(self.test.images)
        judged_by = "validation" if self.config.data.holdout else "test"
        report["over_training"] = {"split": judged_by, **over_training(read_rows(self.workdir))}
        if sets:
            report["ood"] = {
                **found["ood"],
                "groups": groups(self.config, sets),
                "skipped": skipped,
            }
            scores = found["scores"]
            arrays |= _flat(scores)
            plots.ood(self.workdir, scores.pop("test"), scores)
        if section.num_attacked:
            say_part(f"attacking {min(section.num_attacked, len(self.test.images)):,} images")
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
            say_part(f"loss at {section.landscape_points**2:,} points around the parameters")
            report["landscape"], grid = self._landscape(landscape_key, model)
            arrays |= _flat({"landscape": grid})
            plots.landscape(self.workdir, **grid)
        np.savez_compressed(self.workdir / "evaluation.npz", **arrays)
        return report

    @cached_property
    def _logits(self) -> Callable[[Trained, jax.Array], jax.Array]:
        """Function ``(model, images) -> logits``, one for all calls, so that it compiles once."""
        classifier = self.network.classifier
        return lambda model, images: classifier.apply(model.params, model.statistics, images)[0]

    def _refinement(self) -> Refine:
        """Attacked images are refined each by itself, whatever normalises training's chains."""
        alone = self.network._replace(policy=NormPolicy(chains="running"))
        densities = densities_of(alone, self.density_scale)
        assert self.refining is not None
        return refinement(self.refining, densities, self.config.eval.refine_steps)

    def _generation(self, config: Config) -> Generation:
        assert self.plan is not None
        return Generation(
            plan=self.plan,
            densities_of=densities_of(self.network, self.density_scale),
            distances=self.distances,
            test=self.test,
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
            return {"images": evaluate.finite_images(ends)}

        def score(images: np.ndarray) -> dict[str, np.ndarray]:
            scores = self._score(model, images)
            probabilities = np.asarray(jax.nn.softmax(scores.pop("logits")))
            return {"class_probability": probabilities, **scores}

        return Use(model.params, apply, sample, score)

    def _score(self, model: Trained, images: Any) -> dict[str, np.ndarray]:
        """Returns logits and the three scores of images, see ``evaluate.scores``."""
        logits_fn = Partial(self._logits, model)
        return evaluate.scores(logits_fn, images, batch_size=self.config.eval.batch_size)

    def _robustness(
        self, key: Key, model: Trained
    ) -> tuple[dict[str, Any], dict[str, dict[str, np.ndarray]]]:
        """Returns the classifier's robustness and, if images are refined, "refined" behind chains.

        Attacks on the plain classifier cost little, and a defence is judged against it.
        """
        section = self.config.eval
        settings: dict[str, Any] = {
            "linf": section.attack_linf,
            "l2": section.attack_l2,
            "num_steps": section.attack_steps,
            "step_size": section.attack_step_size,
            "num_restarts": section.attack_restarts,
            "batch_size": section.batch_size,
        }
        test = data.ImageData(*(array[: section.num_attacked] for array in self.test))
        logits_fn = Partial(self._logits, model)
        report = evaluate.robustness(key, logits_fn, test, **settings)
        report["protocol"]["refine_steps"] = 0
        withstood = report.pop("per_image")
        if self.refining:
            say_part("attacking them again, refined by chains")
            refined = report["refined"] = evaluate.robustness(
                jax.random.fold_in(key, 1),
                logits_fn,
                test,
                **settings,
                transform=Partial(self._refinement(), model),
                gradients=section.refine_gradients,
                num_eot=section.num_eot,
            )
            refined["protocol"]["refine_steps"] = section.refine_steps
            others = refined.pop("per_image")
            withstood |= {f"refined.{name}": found for name, found in others.items()}
        return report, {f"robustness.{name}": {"test": x} for name, x in withstood.items()}

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


def _flat(groups: dict[str, dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Turns ``{"a": {"b": x}}`` into ``{"a_b": x}``."""
    return {f"{a}_{b}": x for a, group in groups.items() for b, x in group.items()}


def _floats(images: np.ndarray) -> jax.Array:
    return data.to_signed_unit(jnp.asarray(images))
