"""Distances of generated images from the training images, beside what their chains began from."""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ebmjax import data, metrics
from ebmjax.evaluate._extractors import Extractor
from ebmjax.types import Key

NUM_NEIGHBOURS = 5
"""Neighbours for precision, recall, density and coverage, as in the paper of the last two."""
NO_SCORES = dict.fromkeys(metrics.ManifoldScores._fields, math.nan)
"""Scores of images too few to have neighbours."""
AT_SIZES = ("fid", "kid_rbf", "kid_polynomial")


def finite_images(ends: Any) -> np.ndarray:
    """Returns the images of ``ends`` (N, H, W, C) in [-1, 1] that are finite, as uint8."""
    ends = np.asarray(ends)
    is_finite = np.isfinite(ends).all(axis=(1, 2, 3))
    return np.asarray(data.from_signed_unit(jnp.asarray(ends[is_finite])))


def rms_displacement(starts: Any, ends: Any) -> float:
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

    starts: Any
    ends: Any
    labels: Any = None
    are_the_same: bool = True


class Reference(NamedTuple):
    """Reference that images are compared with.

    Attributes:
      features: (N, F), of all its images.
      moments: their mean and covariance.
    """

    features: np.ndarray
    moments: metrics.FeatureMoments


class Distances:
    """Function ``images -> numbers`` by one extractor; empty if there is none.

    Example:
      >>> train = np.arange(8, dtype=np.uint8).reshape(4, 2, 1, 1)
      >>> pixels = Extractor("pixels", lambda x: (x.reshape(len(x), -1), np.ones((len(x), 1))), {})
      >>> round(Distances(train, pixels)(train + np.uint8(3))["fid_pixels"], 6)  # 3^2 + 3^2
      18.0
    """

    train: np.ndarray
    batch_size: int

    def __init__(
        self, train: np.ndarray, extractor: Extractor | None, *, batch_size: int = 256
    ) -> None:
        """Keeps the reference images, whose features are computed once.

        Args:
          train: uint8 (N, H, W, C), the reference images.
          extractor: of features and class probabilities, such as ``own_classifier``.
          batch_size: images a call.
        """
        self.train, self._extractor, self.batch_size = train, extractor, batch_size

    @property
    def extractor(self) -> Extractor | None:
        """Extractor of features."""
        return self._extractor

    def of_chains(self, chains: Chains) -> dict[str, Any]:
        """Returns every number of the finite ends, and of their starts.

        Returns:
          ``__call__`` of the finite ends and, under "starts", of the starts in their places.
          "num_diverged" counts ends that are not finite. "rms_displacement" is that of the others,
          if start and end belong to the same chain.

        Raises:
          ValueError: if starts and ends differ in shape, or are no images.
        """
        starts, ends = np.asarray(chains.starts), np.asarray(chains.ends)
        if ends.ndim != 4 or starts.shape != ends.shape:
            raise ValueError(
                "chains must have starts and ends of one shape (N, H, W, C), got "
                f"{starts.shape} and {ends.shape}."
            )
        is_finite = np.isfinite(ends).all(axis=(1, 2, 3))
        starts, ends = starts[is_finite], ends[is_finite]
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

    def at_sizes(self, key: Key, images: np.ndarray, sizes: Sequence[int]) -> dict[str, Any]:
        """Returns "fid", "kid_rbf" and "kid_polynomial" of uint8 images, one for each size.

        A size takes as many images. Sizes above their number have NaN. "manifold" uses all. See
        ``metrics.extrapolate_to_infinity``.
        """
        known = [size for size in sizes if size <= len(images)]
        if not known:
            missing = {name: np.full(len(sizes), np.nan) for name in AT_SIZES}
            return {**missing, "manifold": NO_SCORES}
        features, _ = self.outputs(images)
        reference, moments = self.train_reference

        def fid(rows: np.ndarray) -> float:
            return metrics.frechet_distance(*metrics.feature_moments(rows), *moments)

        bandwidth = (reference.shape[1] / 2) ** 0.5  # the thermodynamic-integration thesis's
        kid = partial(metrics.kernel_distance, features_b=reference)
        functions = (fid, partial(kid, kernel="rbf", bandwidth=bandwidth), kid)
        found: dict[str, Any] = {}
        for name, function in zip(AT_SIZES, functions, strict=True):
            found[name] = np.full(len(sizes), np.nan)
            found[name][: len(known)] = metrics.metric_at_sizes(key, function, features, known)
        return {**found, "manifold": manifold_scores(features, reference)}

    def train_and(self, images: np.ndarray) -> Reference:
        """Returns a reference of the training images and these uint8 ones together."""
        more = self.outputs(images)[0]
        return _reference(np.concatenate([self.train_reference.features, more]))

    @cached_property
    def train_reference(self) -> Reference:
        """Reference of the training images."""
        return _reference(self.outputs(self.train)[0])

    def outputs(self, images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns features (N, F) and class probabilities of uint8 images; needs an extractor."""
        assert self.extractor is not None
        return metrics.extract_in_batches(self.extractor.outputs_fn, images, self.batch_size)


def _reference(features: np.ndarray) -> Reference:
    return Reference(features, metrics.feature_moments(features))


def generation(
    sets: Mapping[str, Chains], test: np.ndarray, distances: Distances
) -> dict[str, Any]:
    """Returns the distances of sets of samples, of their starts and of as many test images.

    A score says something of the chains only beside that of their starts, and of real images.

    Args:
      sets: name to samples.
      test: uint8 test images, judged as a perfect generator's.
      distances: from the training images.

    Returns:
      ``distances.of_chains`` of every set; "test_images"; "extractor" and "num_reference".

    Raises:
      ValueError: if there is no set, or starts and ends are no images of one shape.
    """
    if not sets:
        raise ValueError("sets must name at least one set of samples, got none.")
    found = {name: distances.of_chains(chains) for name, chains in sets.items()}
    # As many as generated ones, because such numbers depend on the count.
    num = max(len(chains.ends) for chains in sets.values())
    judge = distances.extractor
    return {
        "extractor": judge and judge.described(),
        "num_reference": len(distances.train),
        "test_images": distances(test[:num]),
        **found,
    }
