"""Measures and pictures a joint energy model while it trains."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data, losses, metrics
from ebmjax.learning import Negatives
from ebmjax.networks import Classifier
from ebmjax.recipes.core.fields import Config
from ebmjax.recipes.core.plots import image_grid
from ebmjax.recipes.core.workdir import save_snapshot
from ebmjax.recipes.images.buffers import draws_for_slots, spread_slots
from ebmjax.recipes.images.chain_profiles import Profile
from ebmjax.recipes.images.distances import Distances
from ebmjax.recipes.joint.chains import averaged_statistics
from ebmjax.training import TrainState
from ebmjax.types import Key, PyTree


@dataclass(frozen=True)
class JointMonitor:
    """Accuracy and calibration on the test images, and the quality of the replay buffer.

    Attributes:
      workdir: gets ``monitor/<step>.npz`` and ``plots/samples_<step>.png``.
      classifier: network that is monitored.
      test: the test images.
      distances: distances of samples from the training images.
      negatives: plan of negatives, whose law fills the buffer; None for a plain classifier.
      law_key: key of draws of that law, for comparison with samples.
      profile: profile of chains that continue from the buffer.
      config: sections data and eval are read.
    """

    workdir: Path
    classifier: Classifier
    test: data.ImageData
    distances: Distances
    negatives: Negatives | None
    law_key: Key
    profile: Profile
    config: Config

    def __call__(self, state: TrainState, step: int) -> dict[str, Any]:
        """Returns the row of ``step``; saves its arrays and pictures."""
        statistics = averaged_statistics(state)
        shown = spread_slots(state, self.config.eval.num_samples)  # None for a plain classifier
        samples = shown[0] if shown else None
        row, pictures = jax.device_get(self._report(state.params, statistics, samples))
        if shown:
            image_grid(self.workdir / "plots" / f"samples_{step:06d}.png", pictures["samples"])
            row |= self.distances.along_training(np.asarray(samples))
            row |= self._of_starts(shown[1], state.shards.buffer.positions.shape[1])
            pictures |= self.profile(state)
        save_snapshot(self.workdir, step, pictures)
        return {name: np.asarray(value).tolist() for name, value in row.items()}

    def _of_starts(self, slots: np.ndarray, size: int) -> dict[str, float]:
        """Returns ``start_fid`` and so on: scores of the buffer's law for the same slots."""
        if not self._starts:
            assert self.negatives is not None  # there is a buffer
            draws = draws_for_slots(
                self.law_key,
                self.negatives.law,
                slots,
                size=size,
                num_classes=self.negatives.num_classes,
            )
            self._starts.update(self.distances.along_training(draws, "start"))
        return self._starts

    @cached_property
    def _starts(self) -> dict[str, float]:
        """Scores of the first call; no update changes them."""
        return {}

    @cached_property
    def _report(self) -> Callable[..., Any]:
        def report(params: PyTree, statistics: PyTree, samples: Any) -> tuple[Any, Any]:
            x = data.to_signed_unit(jnp.asarray(self.test.images))
            logits = predict(self.classifier, params, statistics, x, self.config.eval.batch_size)
            labels = jnp.asarray(self.test.labels)
            probabilities = jax.nn.softmax(logits)
            row = {
                "test_accuracy": metrics.accuracy(logits, labels),
                "test_ece": metrics.expected_calibration_error(probabilities, labels),
                "test_nll": metrics.negative_log_likelihood(logits, labels),
                "test_brier": metrics.brier_score(probabilities, labels),
                "test_log_density": jnp.mean(losses.joint_log_density(logits)),
            }
            pictures = {"logits": logits, "labels": labels}
            if samples is not None:
                theirs = self.classifier.logits(params, statistics, samples)[0]
                row["buffer_log_density"] = jnp.mean(losses.joint_log_density(theirs))
                pictures["samples"] = data.from_signed_unit(samples)
            return row, pictures

        return jax.jit(report)


def predict(
    classifier: Classifier, params: PyTree, statistics: PyTree, images: jax.Array, batch_size: int
) -> jax.Array:
    """Returns logits (N, classes) of images (N, H, W, C), by running statistics, in batches."""
    return jax.lax.map(
        lambda image: classifier.logits(params, statistics, image)[0],
        images,
        batch_size=min(batch_size, len(images)),
    )
