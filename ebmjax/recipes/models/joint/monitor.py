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
from ebmjax.learning import ANY_CLASS, ChainPlan
from ebmjax.networks import Network
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.evaluators.buffers import buffered
from ebmjax.recipes.evaluators.chain_profiles import KEY_NUMBER
from ebmjax.recipes.evaluators.chains import DensitiesOf, make_profile
from ebmjax.recipes.evaluators.distances import Distances
from ebmjax.recipes.evaluators.pictures import samples_beside_starts, shown
from ebmjax.recipes.folder.workdir import save_snapshot
from ebmjax.recipes.models.joint.chains import averaged_statistics, trained
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
      key: key of all evaluations.
      plan: plan of negatives; None for a plain classifier.
      densities_of: what chains follow.
      config: sections data and eval are read.
    """

    workdir: Path
    classifier: Network
    test: data.ImageData
    distances: Distances
    key: Key
    plan: ChainPlan | None
    densities_of: DensitiesOf
    config: Config

    def __call__(self, state: TrainState, step: int) -> dict[str, Any]:
        """Returns the row of ``step``; saves its arrays and pictures."""
        statistics = averaged_statistics(state)
        num = self.config.eval.num_samples
        chains = buffered(self.key, self.plan, state, num) if num else None
        samples = None if chains is None else jnp.asarray(chains.ends)
        row, pictures = jax.device_get(self._report(state.params, statistics, samples))
        if chains is not None:
            row |= self.distances.along_training(chains)
            pictures |= {"samples": shown(chains.ends)}
            samples_beside_starts(
                self.workdir, step, pictures["samples"], shown(chains.starts), row
            )
        pictures |= self._profiled(state)
        save_snapshot(self.workdir, step, pictures)
        return {name: np.asarray(value).tolist() for name, value in row.items()}

    def _profiled(self, state: TrainState) -> dict[str, np.ndarray]:
        """Returns the profile of ``eval.num_profiled`` chains from slots of the buffer.

        Particles come in the number of training's. Chains have a class if training's have one.
        """
        num = self.config.eval.num_profiled
        if not num or self.plan is None:
            return {}
        if self.plan.is_interacting:
            num = self.config.sampler.num_samples
        chains = buffered(self.key, self.plan, state, num)
        if chains is None:
            return {}
        labels = chains.labels
        if not self.config.loss.is_conditional:
            labels = np.full(len(labels), ANY_CLASS, np.int32)
        return self._profile(trained(state), chains.ends, labels)

    @cached_property
    def _profile(self) -> Callable[..., dict[str, np.ndarray]]:
        assert self.plan is not None  # there is a buffer
        key = jax.random.fold_in(self.key, KEY_NUMBER)
        return make_profile(key, self.plan, self.densities_of)

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
                size = self.config.eval.batch_size
                theirs = predict(self.classifier, params, statistics, samples, size)
                row["buffer_log_density"] = jnp.mean(losses.joint_log_density(theirs))
            return row, pictures

        return jax.jit(report)


def predict(
    classifier: Network, params: PyTree, statistics: PyTree, images: jax.Array, batch_size: int
) -> jax.Array:
    """Returns logits (N, classes) of images (N, H, W, C), by running statistics, in batches."""
    return jax.lax.map(
        lambda image: classifier.apply(params, statistics, image)[0],
        images,
        batch_size=min(batch_size, len(images)),
    )
