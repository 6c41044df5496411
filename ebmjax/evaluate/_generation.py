"""Scores of generated images beside those of their starts, of test images and of Gaussians."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ebmjax import data
from ebmjax._stored import AT_ONCE
from ebmjax.evaluate._distances import NAMES, Distances, difference
from ebmjax.training import tree_digest

UNPAIRED_SEED = 1
"""Seed of the splits of starts that belong to other chains than the samples."""


def finite_images(ends: Any) -> np.ndarray:
    """Returns the images of ``ends`` (N, H, W, C) in [-1, 1] that are finite, as uint8."""
    ends = np.asarray(ends)
    is_finite = np.isfinite(ends).all(axis=(1, 2, 3))
    return np.asarray(data.from_signed_unit(jnp.asarray(ends[is_finite])))


class Chains(NamedTuple):
    """N samples beside their chains' starts.

    Attributes:
      starts: (N, H, W, C) in [-1, 1], where the chains began; for a buffer, as many fresh draws
        of its start distribution.
      ends: (N, H, W, C) in [-1, 1], where they stand.
      labels: (N,) int32, the classes of the starts, in turn, so that there are as many of each;
        None where starts have no class. Errors are those of images of these fixed classes.
      are_the_same: whether each end and its start belong to the same chain.
      ways: (N, ...), ends minus starts of what the chains moved; None for the images themselves.
    """

    starts: Any
    ends: Any
    labels: Any = None
    are_the_same: bool = True
    ways: Any = None

    def drop_diverged(self) -> "Chains":
        """Returns the chains whose ends are finite, in NumPy."""
        is_finite = np.isfinite(self.ends).all(axis=(1, 2, 3))
        given = {k: x for k, x in self._asdict().items() if x is not None and k != "are_the_same"}
        return self._replace(**{k: np.asarray(x)[is_finite] for k, x in given.items()})

    def images(self) -> dict[str, np.ndarray]:
        """Returns "images" and "start_images", uint8, of the chains whose ends are finite."""
        found = self.drop_diverged()
        return {"images": finite_images(found.ends), "start_images": finite_images(found.starts)}

    def rms_displacement(self) -> float:
        """Returns the root mean square of their ways, over chains and coordinates; NaN of none."""
        ways = self.ways if self.ways is not None else np.subtract(self.ends, self.starts)
        return float(np.sqrt(np.mean(np.square(ways, dtype=np.float64)))) if ways.size else math.nan


def score_chains(
    chains: Chains, distances: Distances, *, at: int | None = None, num_compared: int | None = None
) -> dict[str, Any]:
    """Returns the numbers of a set of samples, see ``generation``; of the finite ones.

    Scores of the same starts are kept until others come.

    Args:
      chains: of N samples.
      distances: from the training images.
      at, num_compared: as in ``Distances.scores``.
    """
    shapes = np.shape(chains.starts), np.shape(chains.ends)
    if len(shapes[1]) != 4 or shapes[0] != shapes[1]:
        raise ValueError(
            "chains must have starts and ends of one shape (N, H, W, C), got "
            f"{shapes[0]} and {shapes[1]}."
        )
    found, are_pairs = chains.drop_diverged(), chains.are_the_same
    score = partial(distances.scores, labels=found.labels, at=at, num_compared=num_compared)
    name = (tree_digest(found.starts), at, num_compared, are_pairs)
    known, starts = distances.known_starts
    if name != known:
        starts = score(finite_images(found.starts), seed=0 if are_pairs else UNPAIRED_SEED)
        distances.known_starts = name, starts
    scored = score(finite_images(found.ends)), starts
    way = {"rms_displacement": found.rms_displacement()} if are_pairs else {}
    return {
        "num_diverged": len(chains.ends) - len(found.ends),
        **scored[0].numbers,
        **way,
        "starts": starts.numbers,
        "minus_starts": difference(*scored, "fid", is_paired=are_pairs),
        "kid_minus_starts": difference(*scored, "kid", is_paired=are_pairs),
    }


def take_balanced(split: data.ImageData, num: int) -> data.ImageData:
    """Returns at most ``num`` images, as many of each class, the classes in turn.

    The class with the fewest images decides how many. Images of one class are the first ones.
    """
    labels = np.asarray(split.labels)
    by_class = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    fewest = min(map(len, by_class))
    places = np.stack([found[:fewest] for found in by_class], axis=1).ravel()[:num]
    return data.ImageData(split.images[places], labels[places])


def draw_gaussians(train: data.ImageData, num: int) -> data.ImageData:
    """Returns draws of a Gaussian fitted to each class of the images, the classes in turn.

    They say what a score gives for the first two moments alone. They are clipped and rounded to
    uint8, and the same for every run.
    """
    classes = np.unique(train.labels)
    labels = classes[np.arange(num) % len(classes)].astype(np.int32)
    found = np.zeros((num, int(np.prod(train.images.shape[1:]))))
    rng = np.random.RandomState(0)  # whose stream NumPy never changes
    for label in np.unique(labels):
        places, drawn = np.flatnonzero(train.labels == label), labels == label
        blocks = [places[i : i + AT_ONCE] for i in range(0, len(places), AT_ONCE)]

        def flat(block: np.ndarray) -> np.ndarray:
            return train.images[block].reshape(len(block), -1).astype(np.float64)

        mean = sum(flat(block).sum(axis=0) for block in blocks) / len(places)
        for block in blocks:
            weights = rng.standard_normal((int(drawn.sum()), len(block)))
            found[drawn] += weights @ (flat(block) - mean) / math.sqrt(len(places))
        found[drawn] += mean
    images = np.clip(np.round(found), 0, 255).astype(np.uint8)
    return data.ImageData(images.reshape(num, *train.images.shape[1:]), labels)


def score_references(
    test: data.ImageData, distances: Distances, num: int, num_compared: int | None = None
) -> dict[str, dict[str, Any]]:
    """Returns the numbers of "test_images" and "gaussian", balanced, at most ``num`` of each.

    Their FID is stated for ``num`` images, as many as a set of samples has.
    """
    score = partial(distances.scores, at=num, num_compared=num_compared)
    gaussians = draw_gaussians(distances.train, num)
    found = {"test_images": score(*take_balanced(test, num)), "gaussian": score(*gaussians)}
    return {name: one.numbers for name, one in found.items()}


def along_training(chains: Chains, test: data.ImageData, distances: Distances) -> dict[str, float]:
    """Returns scores of samples and of what stands beside them, for a row of metrics.jsonl.

    Scores of what no update changes are those of the first call with the same ``distances``.

    Args:
      chains: N samples.
      test: uint8 test images and their classes, the same at every call.
      distances: from the training images.

    Returns:
      "fid", "kid" and so on with "sample_" and "start_" before them; "sample_rms_displacement" if
      start and end belong to the same chain; FID of "test_images_" and "gaussian_";
      "fid_minus_starts" with "_low" and "_high". NaN for fewer than two images.
    """
    num = len(chains.ends)
    found = score_chains(chains, distances, at=num)
    if num not in distances.references:
        distances.references[num] = score_references(test, distances, num)
    sets = {"sample": ((*NAMES, "rms_displacement"), found), "start": (NAMES, found["starts"])}
    sets |= {name: (NAMES[:3], one) for name, one in distances.references[num].items()}
    row = {
        f"{prefix}_{name}": numbers[name]
        for prefix, (names, numbers) in sets.items()
        for name in names
        if name in numbers  # "is" needs features that know classes, a displacement pairs
    }
    ends = {"": "difference", "_low": "low", "_high": "high"}
    paired = found["minus_starts"]
    return row | {f"fid_minus_starts{end}": paired[name] for end, name in ends.items()}


def generation(
    sets: Mapping[str, Chains], test: data.ImageData, distances: Distances
) -> dict[str, Any]:
    """Returns the scores of sets of samples, of their starts, of test images and of Gaussians.

    Compare a score with that of the chains' starts and of real images. All sets have as many images
    of each class. FID is stated for as many images as the largest set has; the inception score is
    of as many as there are balanced test images.

    Args:
      sets: name to samples.
      test: uint8 test images and their classes, as a perfect generator's.
      distances: from the training images.

    Returns:
      For every set the numbers of ``Distances.scores``, with "num_diverged", "rms_displacement" if
      start and end belong to the same chain, and the same numbers of "starts". "minus_starts" and
      "kid_minus_starts" are ends minus starts, with "low" and "high" of a 95 % interval: below 0
      the chains improved on their starts. Further "test_images", "gaussian", "extractor",
      "num_reference", "num_images" and "num_compared".
    """
    if not sets:
        raise ValueError("sets must name at least one set of samples, got none.")
    num = max(len(chains.ends) for chains in sets.values())
    num_compared = min(num, len(take_balanced(test, num).labels))
    judge = distances.extractor
    report: dict[str, Any] = {
        "extractor": {"name": judge.name, **judge.details},
        "num_reference": len(distances.train.labels),
        "num_images": num,
        "num_compared": num_compared,
    }
    for name, chains in sets.items():
        report[name] = score_chains(chains, distances, at=num, num_compared=num_compared)
    return report | score_references(test, distances, num, num_compared)
