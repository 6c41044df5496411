"""Distances of generated images from the training images, by one extractor for a whole run."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ebmjax import data, metrics
from ebmjax.recipes.core.fields import Config
from ebmjax.recipes.images.extractors import Extractor, extractor

NUM_NEIGHBOURS = 5
"""Neighbours for precision, recall, density and coverage, as in the paper of the last two."""
NO_SCORES = dict.fromkeys(metrics.ManifoldScores._fields, math.nan)
"""Scores of images too few to have neighbours."""


def finite_images(ends: np.ndarray) -> np.ndarray:
    """Returns the images of ``ends`` (N, H, W, C) in [-1, 1] that are finite, as uint8."""
    is_finite = np.isfinite(ends).all(axis=(1, 2, 3))
    return np.asarray(data.from_signed_unit(jnp.asarray(ends[is_finite])))


def rms_displacement(starts: np.ndarray, ends: np.ndarray) -> float:
    """Returns the root mean square, over chains and coordinates, of the way from start to end.

    Args:
      starts: (N, ...), images in [-1, 1] or latents; the answer has their units.
      ends: (N, ...), where the chains ended.

    Returns:
      A number; NaN without chains.
    """
    way = np.asarray(ends, np.float64) - np.asarray(starts, np.float64)
    return float(np.sqrt(np.mean(np.square(way)))) if way.size else math.nan


def manifold_scores(features: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """Returns precision, recall, density and coverage against as many rows of the reference.

    The rows are the first of one random order, the same for every run. Too few images give
    ``NO_SCORES``.
    """
    num = min(len(features), len(reference))
    if num <= NUM_NEIGHBOURS:
        return dict(NO_SCORES)
    chosen = np.random.default_rng(0).permutation(len(reference))[:num]
    scores = metrics.manifold_scores(features, reference[chosen], num_neighbours=NUM_NEIGHBOURS)
    return scores._asdict()


class Chains(NamedTuple):
    """N samples beside their chains' starts.

    Attributes:
      starts: (N, H, W, C) in [-1, 1], where the chains began. A buffer does not keep that; then as
        many draws of the law that fills it.
      ends: (N, H, W, C) in [-1, 1], where they stand.
      labels: (N,) int32, their classes; None without classes.
      are_the_same: whether each end and its start belong to the same chain.
    """

    starts: np.ndarray
    ends: np.ndarray
    labels: Any
    are_the_same: bool = True


class Reference(NamedTuple):
    """Reference that images are compared with.

    Attributes:
      features: (N, F), of all its images.
      moments: their mean and covariance.
    """

    features: np.ndarray
    moments: metrics.FeatureMoments


@dataclass(frozen=True)
class Distances:
    """Function ``images -> numbers``; empty if there are no features.

    Attributes:
      train: the reference images, whose features are computed once.
      test: images to test the classifier that extracts features.
      config: sections data and eval are read.
    """

    train: data.ImageData
    test: data.ImageData
    config: Config

    @cached_property
    def extractor(self) -> Extractor | None:
        """Extractor of features; None for data without labels and without Inception's weights."""
        if not (self.config.eval.inception_weights or self.config.data.num_classes):
            return None
        return extractor(self.config, self.train, self.test)

    def of_chains(self, chains: Chains) -> dict[str, Any]:
        """Returns every number of the finite ends, and of their starts.

        Returns:
          ``__call__`` of the finite ends and, under "starts", of the starts in their places.
          "num_diverged" counts ends that are not finite. "rms_displacement" is that of the others,
          if start and end belong to the same chain.
        """
        is_finite = np.isfinite(chains.ends).all(axis=(1, 2, 3))
        starts, ends = chains.starts[is_finite], chains.ends[is_finite]
        found = {"num_diverged": int(np.sum(~is_finite)), **self(finite_images(ends))}
        if chains.are_the_same:
            found["rms_displacement"] = rms_displacement(starts, ends)
        return found | {"starts": self(finite_images(starts))}

    def of_starts(self, starts: np.ndarray) -> dict[str, float]:
        """``start_fid`` and so on, which no update changes: those of the first call."""
        if not self._starts:
            self._starts.update(self.along_training(starts, "start"))
        return self._starts

    @cached_property
    def _starts(self) -> dict[str, float]:
        return {}

    def along_training(self, ends: np.ndarray, prefix: str = "sample") -> dict[str, float]:
        """Returns ``<prefix>_fid``, ``<prefix>_kid`` and ``<prefix>_is`` of the finite ``ends``.

        They are NaN for fewer than two; empty if there are no features.
        """
        if self.extractor is None:
            return {}
        judged = self(finite_images(ends))
        return {
            f"{prefix}_{name}": judged.get(f"{name}_{self.extractor.name}", math.nan)
            for name in ("fid", "kid", "is")
        }

    def __call__(self, images: np.ndarray, reference: Reference | None = None) -> dict[str, Any]:
        """Returns every number of uint8 images, named after the extractor.

        They are FID, KID, inception score, precision, recall, density and coverage.

        Args:
          images: (N, H, W, C); for fewer than two only their number is returned.
          reference: None for the training images.
        """
        found: dict[str, Any] = {"num_images": len(images)}
        if self.extractor is None or len(images) < 2:
            return found
        reference = reference or self.train_reference
        features, probabilities = self.outputs(images)
        name = self.extractor.name
        found |= {
            f"fid_{name}": metrics.frechet_distance(
                *metrics.feature_moments(features), *reference.moments
            ),
            f"kid_{name}": metrics.kernel_distance(features, reference.features),
            f"is_{name}": metrics.inception_score(probabilities, num_splits=1).mean,
        }
        scores = manifold_scores(features, reference.features)
        return found | {f"{score}_{name}": value for score, value in scores.items()}

    def train_and(self, images: np.ndarray) -> Reference:
        """Returns a reference of the training images and these uint8 ones together."""
        more = self.outputs(images)[0]
        return _reference(np.concatenate([self.train_reference.features, more]))

    @cached_property
    def train_reference(self) -> Reference:
        """Reference of the training images."""
        return _reference(self.outputs(self.train.images)[0])

    def outputs(self, images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns features (N, F) and class probabilities of uint8 images; needs an extractor."""
        assert self.extractor is not None
        size = self.config.eval.batch_size
        return metrics.extract_in_batches(self.extractor.outputs_fn, images, size)


def _reference(features: np.ndarray) -> Reference:
    return Reference(features, metrics.feature_moments(features))
