"""Quality of the images that a trained joint energy model generates."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ebmjax import data
from ebmjax._phases import say_part
from ebmjax.evaluate import Chains, finite_images
from ebmjax.learning import ANY_CLASS, ChainPlan
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.evaluators.buffers import buffered
from ebmjax.recipes.evaluators.chains import DensitiesOf, make_fresh_chains
from ebmjax.recipes.evaluators.distances import Distances
from ebmjax.recipes.models.joint.chains import Trained
from ebmjax.recipes.models.joint.parts import sampler
from ebmjax.recipes.models.joint.selection import SHARES, most_confident
from ebmjax.recipes.parts.samplers import implied_temperature
from ebmjax.training import TrainState
from ebmjax.types import Key

DEFAULT_LENGTH = 10
"""Length of a fresh chain, in lengths of a training step's; chains in the buffer are long, too."""


@dataclass(frozen=True, kw_only=True)
class Generation:
    """``(key, model, state) -> (report, samples)``.

    Attributes:
      plan: plan of training's negatives.
      densities_of: what chains follow.
      distances: distances from the training images, in an extractor's features.
      test: the test images, judged like generated ones, as a perfect generator's score.
      score: ``(model, images) -> scores``, with "logits" and "log_density".
      config: sections data, sampler and eval are read.
    """

    plan: ChainPlan
    densities_of: DensitiesOf
    distances: Distances
    test: data.ImageData
    score: Callable[..., dict[str, np.ndarray]]
    config: Config

    def __call__(
        self, key: Key, model: Trained, state: TrainState
    ) -> tuple[dict[str, Any], dict[str, dict[str, np.ndarray]]]:
        """Returns the report, and every set's images (uint8) with their sort keys."""
        chain_key, law_key = jax.random.split(key)
        generated = self.chains(chain_key, model)
        buffer = buffered(law_key, self.plan, state, self.config.eval.num_generated)
        if buffer is not None:
            generated["buffer"] = buffer
        report: dict[str, Any] = {
            "sampler": self.config.sampler.name,
            "implied_temperature": implied_temperature(sampler(self.config)),
            "num_chain_steps": self.num_chain_steps,
            **self.distances.generation(generated, self.test),
        }
        with_class = {"conditional", *(["buffer"] * self.config.loss.is_conditional)}
        samples = {}
        for name, chains in generated.items():
            means, samples[name] = self._scored(model, chains, has_class=name in with_class)
            report[name] |= means
        if buffer is not None and self.config.eval.selected_by_confidence:
            report["buffer_selected"] = {
                **self._selected(model, buffer.ends),
                "starts": self._selected(model, buffer.starts),
            }
        return report, samples

    @property
    def num_chain_steps(self) -> int:
        """Number of steps of each fresh chain."""
        section = self.config.eval
        return section.num_chain_steps or DEFAULT_LENGTH * self.config.sampler.num_steps

    def chains(self, key: Key, model: Trained) -> dict[str, Chains]:
        """Returns ``num_generated`` chains of any class and of the classes (not for particles).

        Both start in the classes in turn.
        """
        run = make_fresh_chains(self.plan, self.densities_of, self.num_chain_steps)
        any_class, of_class = self._labels()
        num_chains = any_class.size + of_class.size
        say_part(f"{num_chains:,} chains of {self.num_chain_steps:,} steps")
        starts, ends = run(key, model, np.concatenate([any_class, of_class]))
        # Drops the last group's surplus: distances of different counts do not compare.
        num, first = self.config.eval.num_generated, any_class.size
        turns = np.arange(num, dtype=np.int32) % self.plan.num_classes
        generated = {"fresh": Chains(starts[:num], ends[:num], turns)}
        if of_class.size:
            conditional = slice(first, first + num)
            generated["conditional"] = Chains(
                starts[conditional], ends[conditional], of_class.ravel()[:num]
            )
        return generated

    def _labels(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns labels (groups, size) of chains of any class, and of the classes in turn.

        Interacting particles come in groups of the size used in training.
        """
        num, batch_size = self.config.eval.num_generated, self.config.eval.batch_size
        is_interacting = self.plan.is_interacting
        size = self.config.sampler.num_samples if is_interacting else min(batch_size, num)
        shape = (-(-num // size), size)
        any_class = np.full(shape, ANY_CLASS, np.int32)
        if is_interacting:
            return any_class, any_class[:0]
        turns = np.arange(any_class.size, dtype=np.int32) % self.config.data.num_classes
        return any_class, turns.reshape(shape)

    def _scored(
        self, model: Trained, chains: Chains, has_class: bool
    ) -> tuple[dict[str, float], dict[str, np.ndarray]]:
        """Returns mean scores of the samples that did not diverge; and these and their starts.

        Samples whose chains had no class get their most probable one.
        """
        starts, ends, labels, _ = chains
        is_finite = np.isfinite(ends).all(axis=(1, 2, 3))
        ends = ends[is_finite]
        if len(ends) < 2:
            return {}, {"images": np.zeros((0, *ends.shape[1:]), np.uint8)}
        scores = self.score(model, ends)
        probabilities = np.asarray(jax.nn.softmax(scores["logits"]))
        classes = labels[is_finite] if has_class else probabilities.argmax(axis=1)
        samples = {
            "images": finite_images(ends),
            "start_images": finite_images(starts[is_finite]),
            "log_density": scores["log_density"],
            "labels": classes,
            "class_probability": probabilities[np.arange(len(classes)), classes],
        }
        means = {
            "mean_class_probability": float(np.mean(samples["class_probability"])),
            "mean_log_density": float(np.mean(scores["log_density"])),
        }
        return means, samples

    def _selected(self, model: Trained, ends: np.ndarray) -> dict[str, Any]:
        """Returns numbers of the images with the highest confidence, as in SADA-JEM's code.

        Frechet distance and inception score use different images, and the reference includes the
        test images.
        """
        ends = ends[np.isfinite(ends).all(axis=(1, 2, 3))]
        num_reference = len(self.distances.train.labels) + len(self.test.labels)
        report: dict[str, Any] = {"shares": SHARES, "num_reference": num_reference}
        if len(ends) < 2:
            return report
        images = finite_images(ends)
        logits = self.score(model, ends)["logits"]
        chosen = {name: images[most_confident(logits, share)] for name, share in SHARES.items()}
        reference = self.distances.train_and(self.test.images)
        for name, selected in chosen.items():
            scores = self.distances.scores(selected, reference=reference).numbers
            report[f"num_images_{name}"] = len(selected)
            report |= {k: v for k, v in scores.items() if k in (name, f"{name}_error")}
        return report
