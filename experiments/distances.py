"""How far generated images are from the training images, by one extractor for a whole run."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np

from ebmjax import data, metrics
from experiments.config import Config
from experiments.jem_extractors import Extractor, extractor


def finite_images(ends: np.ndarray) -> np.ndarray:
    """As uint8, those of ``ends`` (N, H, W, C), from -1 to 1, that are finite everywhere."""
    is_finite = np.isfinite(ends).all(axis=(1, 2, 3))
    return np.asarray(data.from_signed_unit(jnp.asarray(ends[is_finite])))


@dataclass(frozen=True)
class Distances:
    """``images -> numbers``; nothing where no features can be had.

    Attributes:
      train: the reference.
      test: what the classifier whose features are taken is tested on.
      config: sections data and eval are read.
    """

    train: data.ImageData
    test: data.ImageData
    config: Config

    @cached_property
    def extractor(self) -> Extractor | None:
        """What judges the images; None for data without labels and without Inception's weights."""
        if not (self.config.eval.inception_weights or self.config.data.num_classes):
            return None
        return extractor(self.config, self.train, self.test)

    def along_training(self, ends: np.ndarray) -> dict[str, float]:
        """FID and inception score, as ``sample_fid`` and ``sample_is``, of the finite ``ends``.

        NaN where fewer than two are; nothing where no features can be had.
        """
        if self.extractor is None:
            return {}
        judged = self(finite_images(ends))
        return {
            f"sample_{name}": judged.get(f"{name}_{self.extractor.name}", math.nan)
            for name in ("fid", "is")
        }

    def __call__(self, images: np.ndarray) -> dict[str, Any]:
        """FID, KID and inception score of uint8 images, named after the extractor."""
        found: dict[str, Any] = {"num_images": len(images)}
        if self.extractor is None or len(images) < 2:
            return found
        features, probabilities = self._features(images)
        name = self.extractor.name
        return found | {
            f"fid_{name}": metrics.frechet_distance(
                *metrics.feature_moments(features), *metrics.feature_moments(self._reference)
            ),
            f"kid_{name}": metrics.kernel_distance(features, self._reference),
            f"is_{name}": metrics.inception_score(probabilities, num_splits=1).mean,
        }

    @cached_property
    def _reference(self) -> np.ndarray:
        return self._features(self.train.images)[0]

    def _features(self, images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        assert self.extractor is not None
        size = self.config.eval.batch_size
        return metrics.extract_in_batches(self.extractor.outputs_fn, images, size)
