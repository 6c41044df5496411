"""Errors of numbers: of means over test images, of differences of models, and by half samples.

A mean's error is the spread of its terms. A Frechet distance is no mean, but its error also shows
in how far the two halves of a sample disagree. Resampling with replacement would repeat images,
which lowers the rank of a covariance and makes the error up to twice too large. Host code.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.typing import ArrayLike

from ebmjax._checks import check_at_least, check_finite
from ebmjax.types import Key

NUM_SPLITS = 50
"""Random splits of a sample; an error from them is known to about 10 %."""


class PairedDifference(NamedTuple):
    """A difference of two models' numbers on the same images, and the ends of its interval.

    The models are not distinguished if the interval includes 0.
    """

    difference: float
    low: float
    high: float


def split_in_halves(key: Key, labels: ArrayLike, *, num_splits: int = NUM_SPLITS) -> np.ndarray:
    """Returns random halves of a sample, with as many images of each label in both.

    Of an odd number of images of a label, a split leaves one out.

    Args:
      key: chooses the halves; pass one key for two samples whose images are pairs.
      labels: (n,), the class of each image; zeros where there are no classes.
      num_splits: at least 1.

    Returns:
      (num_splits, 2, n) bool: whether an image is in the first half, and in the second.
    """
    check_at_least("num_splits", num_splits, 1)
    labels = np.asarray(labels)
    orders = jax.vmap(lambda k: jax.random.permutation(k, len(labels)))
    halves = np.zeros((num_splits, 2, len(labels)), bool)
    for split, order in enumerate(np.asarray(orders(jax.random.split(key, num_splits)))):
        for label in np.unique(labels):
            places = order[labels[order] == label]
            half = len(places) // 2
            halves[split, 0, places[:half]] = halves[split, 1, places[half : 2 * half]] = True
    return halves


def half_sample_error(values: ArrayLike, halves: np.ndarray) -> float:
    r"""Returns the standard error of a number of a whole sample, from its values on halves.

    .. math::
        \sqrt{\frac{1}{4 S} \sum_{s=1}^{S} (v_{s,1} - v_{s,2})^2}

    times the root of the share of images that a split uses. It is exact in expectation for a mean,
    and a little too large for a distance near its floor.

    Args:
      values: (S, 2), the number on both halves of each split. For a difference of two numbers of
        the same images, pass the differences: what both share cancels.
      halves: (S, 2, n), from ``split_in_halves``.

    Returns:
      The error; NaN if halves have fewer than two images.

    Source: half samples of strata: McCarthy 1969, "Pseudo-replication: half samples".
    """
    values = np.asarray(values, np.float64)
    sizes = halves.sum(axis=2)
    if sizes.min() < 2:
        return float("nan")
    share = sizes[0].sum() / halves.shape[2]
    return float(np.sqrt(np.mean((values[:, 0] - values[:, 1]) ** 2) / 4 * share))


def sampling_error(values: Any) -> float:
    r"""Returns the standard error of a mean over test images, because the test set is finite.

    .. math::
        \sqrt{\tfrac{1}{N (N - 1)} \sum_i (\bar v_i - \bar v)^2}

    with :math:`\bar v_i` the mean over seeds for image i. It estimates how much the number would
    differ on another test set of this size. The spread over seeds does not contain it, because all
    seeds share the images. For N right or wrong answers of one model it is the binomial error.

    Args:
      values: (images,), or (seeds, images), one number for each image. A sum of means over several
        sets of images takes a tuple of such arrays: see ``auroc_parts``.

    Returns:
      The standard error, in the unit of the values.

    Source: the binomial case, Dietterich 1998, "Approximate statistical tests for comparing
    supervised classification learning algorithms".
    """
    return float(np.sqrt(sum(_of_images(part) for part in _parts("values", values))))


def paired_difference(values: Any, reference: Any) -> PairedDifference:
    r"""Returns the difference of two models' means on the same images, with a 95 % interval.

    The interval covers images and seeds. The difference of seed s on image i is modelled as a mean
    plus effects of the seed, of the image and of the pair. The variance of the overall mean is then

    .. math::
        V = V_\mathrm{images} + \max(0, V_\mathrm{seeds} - V_\mathrm{pairs}),

    each from the mean square of its margin. The interval is Student's with Satterthwaite's degrees
    of freedom. With one seed it is the paired t interval over images, which holds for these two
    trained models, not for two ways of training.

    For booleans (right or wrong answers), two answers are added, shared by the seeds: one that only
    the first model gets right, one that only the second does. With them, a 95 % interval excludes 0
    about when McNemar's exact test rejects.

    Args:
      values: (images,), or (seeds, images), one number for each image; or a tuple of such arrays,
        as for ``sampling_error``.
      reference: the same for the model to compare with, on the same images in the same order.

    Source: crossed random effects: Cornfield & Tukey 1956, Obuchowski & Rockette 1995. Degrees of
    freedom: Satterthwaite 1946. The two answers: Bonett & Price 2012, Fagerland, Lydersen & Laake
    2014.
    """
    from scipy import stats

    ours, theirs = _parts("values", values), _parts("reference", reference)
    if [part.shape for part in ours] != [part.shape for part in theirs]:
        raise ValueError(
            "values and reference must have one shape, of the same seeds and images, got "
            f"{[part.shape for part in ours]} and {[part.shape for part in theirs]}."
        )
    differences = [_difference(a, b) for a, b in zip(ours, theirs, strict=True)]
    centre = sum(float(np.mean(part)) for part in differences)
    variance, degrees = _variance(differences)
    reach = float(stats.t.ppf(0.975, degrees)) * variance**0.5 if variance else 0.0
    raw = sum(float(np.mean(a) - np.mean(b)) for a, b in zip(ours, theirs, strict=True))
    return PairedDifference(raw, centre - reach, centre + reach)


def _parts(name: str, values: Any) -> list[np.ndarray]:
    """Returns each set of images as (seeds, images), checked."""
    parts = [np.asarray(part) for part in (values if isinstance(values, tuple) else (values,))]
    for part in parts:
        if part.ndim not in (1, 2) or part.shape[-1] < 2 or not part.size:
            raise ValueError(
                f"{name} must have shape (images,) or (seeds, images) with two images or more, got "
                f"{part.shape}."
            )
        check_finite(name, part.astype(float))
    return [np.atleast_2d(part) for part in parts]


def _difference(values: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Returns (seeds, images); booleans get two more, of one answer for all seeds together."""
    found = values.astype(float) - reference.astype(float)
    if values.dtype != bool or reference.dtype != bool:
        return found
    added = np.broadcast_to([1.0 / len(found), -1.0 / len(found)], (len(found), 2))
    return np.concatenate([found, added], axis=1)


def _of_images(values: np.ndarray) -> float:
    """Returns the variance of the mean over images of the values' means over seeds."""
    return float(np.var(values.mean(axis=0), ddof=1)) / values.shape[1]


def _of_pairs(values: np.ndarray) -> float:
    """Returns the variance of the mean of the part that neither seed nor image explains."""
    seeds, images = values.shape
    by_seed, by_image = values.mean(axis=1, keepdims=True), values.mean(axis=0, keepdims=True)
    rest = values - by_seed - by_image + values.mean()
    return float(np.sum(np.square(rest))) / ((seeds - 1) * (images - 1) * seeds * images)


def _variance(differences: Sequence[np.ndarray]) -> tuple[float, float]:
    """Returns the variance of the sum of means, and its degrees of freedom."""
    seeds = len(differences[0])
    images = [_of_images(part) for part in differences]
    variance = sum(images)
    spread = sum(v**2 / (part.shape[1] - 1) for v, part in zip(images, differences, strict=True))
    if seeds > 1:
        totals = sum(part.mean(axis=1) for part in differences)
        of_seeds = float(np.var(totals, ddof=1)) / seeds
        pairs = [_of_pairs(part) for part in differences]
        if of_seeds > sum(pairs):
            variance += of_seeds - sum(pairs)
            spread += of_seeds**2 / (seeds - 1)
            for v, part in zip(pairs, differences, strict=True):
                spread += v**2 / ((seeds - 1) * (part.shape[1] - 1))
    return variance, variance**2 / spread if spread else np.inf
