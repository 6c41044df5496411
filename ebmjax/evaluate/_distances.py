"""Distances of images from the training images, with errors, in the features of one extractor."""

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np

from ebmjax import data, metrics
from ebmjax._groups import in_batches
from ebmjax.evaluate._extractors import Extractor

NAMES = ("fid", "fid_num_images", "fid_error", "fid_infinity", "kid", "kid_error", "is")
"""Scores; the first three also of what stands beside samples along training."""
FEW_SPLITS, MANY_FEATURES = 10, 512
"""Splits in halves for more features than this, where each takes seconds."""


class Reference(NamedTuple):
    """Features (N, F) that images are compared with, their moments, and KID's mean kernel."""

    features: np.ndarray
    moments: metrics.FeatureMoments
    kernel: float


class Scores(NamedTuple):
    """Scores of a set of images by name, and what its errors come from.

    ``halves`` are the splits of the images, (splits, 2, N); None without scores. ``fid`` and
    ``kid`` are those of each half, (splits, 2).
    """

    numbers: dict[str, Any]
    halves: Any = None
    fid: Any = None
    kid: Any = None


class Distances:
    """Scores of images by one extractor."""

    def __init__(
        self,
        train: data.ImageData,
        extractor: Extractor | Callable[[], Extractor],
        *,
        batch_size: int = 256,
    ) -> None:
        """Keeps the reference images, whose features are computed once.

        Args:
          train: the reference images and their classes; labels are all 0 without classes.
          extractor: of features, such as ``random_features()`` or ``own_classifier(...)``; or a
            function that makes it at its first use.
          batch_size: images a call.
        """
        self.train, self._extractor, self.batch_size = train, extractor, batch_size
        self._programs: dict[int, Any] = {}
        # Scores of what no update of a model changes.
        self.known_starts: tuple[Any, Any] = None, None
        self.references: dict[int, Any] = {}

    @cached_property
    def extractor(self) -> Extractor:
        """Extractor of features."""
        return self._extractor() if callable(self._extractor) else self._extractor

    def scores(
        self,
        images: np.ndarray,
        labels: Any = None,
        *,
        at: int | None = None,
        num_compared: int | None = None,
        reference: Reference | None = None,
        seed: int = 0,
    ) -> Scores:
        """Returns the scores of uint8 images.

        "fid" and "kid" have standard errors over images, "fid_error" and "kid_error".
        "fid_infinity" is FID at infinitely many images. Features that know classes have an
        inception score, "is". NaN stands for what the images are too few for.

        Args:
          images: (N, H, W, C); fewer than two have no other number than theirs.
          labels: (N,), classes, of which the images have fixed numbers; None without classes.
          at: number of images that FID is stated for, which its bias depends on. If it is not N,
            the value is taken from the line in 1/N through all images and their halves. Without a
            line (see ``fid_line``) it is of N. "fid_num_images" is the number.
          num_compared: first images that the inception score is of; None for all.
          reference: None for the training images.
          seed: of the splits in halves; two sets of paired images take one seed.
        """
        found: dict[str, Any] = {"num_images": len(images)}
        if len(images) < 2:
            has_classes = self.outputs(self.train.images[:1])[1] is not None
            names = NAMES if has_classes else NAMES[:-1]
            return Scores(found | dict.fromkeys(names, math.nan))
        reference = reference or self.train_reference
        features, probabilities = self.outputs(images)
        labels = np.zeros(len(images), int) if labels is None else np.asarray(labels)
        fewer = {"num_splits": FEW_SPLITS} if features.shape[1] > MANY_FEATURES else {}
        halves = metrics.split_in_halves(jax.random.key(seed), labels, **fewer)
        fid = metrics.frechet_distance(*metrics.feature_moments(features), *reference.moments)
        fids = metrics.frechet_distances(features, reference.moments, halves)
        parts = np.concatenate([np.ones((1, len(images)), bool), halves.reshape(-1, len(images))])
        kids = metrics.kernel_distances(
            features, reference.features, parts, within=reference.kernel
        )
        kid, kids = float(kids[0]), kids[1:].reshape(-1, 2)
        line = fid_line(fid, fids, halves, features.shape[1])
        at = len(images) if at is None or line is None else at
        found |= {
            "fid": fid if line is None or at == len(images) else line[0] + line[1] / at,
            "fid_num_images": at,
            "fid_error": metrics.half_sample_error(fids, halves),
            "fid_infinity": math.nan if line is None else line[0],
            "kid": kid,
            "kid_error": metrics.half_sample_error(kids, halves),
        }
        if probabilities is not None:
            found["is"] = metrics.inception_score(probabilities[:num_compared])
        return Scores(found, halves, fids, kids)

    def train_and(self, images: np.ndarray) -> Reference:
        """Returns a reference of the training images and these uint8 ones together."""
        more = self.outputs(images)[0]
        return _reference(np.concatenate([self.train_reference.features, more]))

    @cached_property
    def train_reference(self) -> Reference:
        """Reference of the training images."""
        return _reference(self.outputs(self.train.images)[0])

    def outputs(self, images: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Returns features (N, F) and class probabilities of uint8 images."""
        outputs_fn, size = self.extractor.outputs_fn, self.batch_size
        if not self.extractor.is_host:
            outputs_fn, size = in_batches(outputs_fn, len(images), size)
        if size > self.batch_size:
            outputs_fn = self._programs.setdefault(size, jax.jit(outputs_fn))
        return metrics.extract_in_batches(outputs_fn, images, size)


def _reference(features: np.ndarray) -> Reference:
    return Reference(features, metrics.feature_moments(features), metrics.mean_kernel(features))


def fid_line(
    fid: float, fids: np.ndarray, halves: np.ndarray, num_features: int
) -> tuple[float, float] | None:
    """Returns intercept and slope of FID in 1 / (number of images), by a sample and its halves.

    Returns None for fewer images than twice the features: covariances of halves then lack full
    rank, and FID is no such line. ``fid`` is of all images, ``fids`` (splits, 2) of the halves.
    """
    half = int(halves[0, 0].sum())
    if half < max(num_features, 2):
        return None
    num = halves.shape[2]
    slope = (float(np.mean(fids)) - fid) / (1 / half - 1 / num)
    return fid - slope / num, slope


def difference(
    scores: Scores, reference: Scores, name: str, *, is_paired: bool
) -> dict[str, float]:
    """Returns "difference", "low" and "high": scores minus reference with its 95 % interval.

    Args:
      scores: of a set of images.
      reference: of another.
      name: "fid" or "kid".
      is_paired: whether image i of one set belongs to image i of the other, and the splits in
        halves are the same. What both images share then cancels.
    """
    from scipy import stats

    values = [getattr(one, name) for one in (scores, reference)]
    if any(value is None for value in values):
        return dict.fromkeys(("difference", "low", "high"), math.nan)
    if is_paired:
        error = metrics.half_sample_error(values[0] - values[1], scores.halves)
    else:
        error = math.hypot(*(one.numbers[f"{name}_error"] for one in (scores, reference)))
    found = scores.numbers[name] - reference.numbers[name]
    reach = float(stats.t.ppf(0.975, len(scores.halves))) * error
    return {"difference": found, "low": found - reach, "high": found + reach}
