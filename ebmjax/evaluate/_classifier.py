"""Accuracy, calibration and out-of-distribution detection of a classifier that is an energy."""

import math
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data, metrics
from ebmjax._checks import check_at_least, check_finite, check_labels
from ebmjax._groups import in_batches, num_devices
from ebmjax.data import ImageData
from ebmjax.evaluate._out_of_distribution import TEST, Parts, areas_by_image, out_of_distribution

LogitsFn = Callable[[jax.Array], jax.Array]
"""``logits_fn(images)``: float32 (N, H, W, C) in [-1, 1] to (N, classes)."""


def as_partial(function: Callable[..., Any]) -> jax.tree_util.Partial:
    """Returns ``function`` as a PyTree, so that programs take a Partial's arrays as arguments."""
    is_partial = isinstance(function, jax.tree_util.Partial)
    return function if is_partial else jax.tree_util.Partial(function)


def as_floats(images: Any) -> Any:
    """Returns uint8 images as float32 in [-1, 1], and others as they are."""
    if jnp.result_type(images) != jnp.uint8:
        return images
    return data.to_signed_unit(jnp.asarray(images))


def check_test(test: ImageData, logits_fn: LogitsFn) -> ImageData:
    """Returns ``test`` as arrays."""
    if test.labels is None:
        raise ValueError("test.labels must be a class for each image, got None.")
    test = data.check_image_data(test)
    logits = jax.eval_shape(logits_fn, as_floats(test.images[:1]))
    shape = getattr(logits, "shape", None)
    if shape is None or len(shape) != 2 or shape[0] != 1:
        raise ValueError(
            "logits_fn must map one image, (1, H, W, C), to logits (1, classes), got "
            f"{jax.tree.map(lambda leaf: leaf.shape, logits)}. Bind the parameters first, and "
            "leave out the state: lambda images: network.apply(params, state, images)[0]."
        )
    check_labels("test.labels", test.labels, (len(test.images),), shape[1])
    return test


def scores(logits_fn: LogitsFn, images: Any, *, batch_size: int = 256) -> dict[str, np.ndarray]:
    """Returns logits and the three scores of ``metrics.ood_scores``, batch by batch.

    Args:
      logits_fn: images to logits; an image's logits depend on that image alone.
      images: (N, H, W, C), uint8, or floating point as ``logits_fn`` takes them.
      batch_size: images a call.

    Returns:
      "logits" (N, classes); "log_density", "max_probability" and "negative_score_norm" (N,).

    Example:
      >>> found = scores(lambda x: x[:, 0, 0], np.zeros((3, 1, 1, 2), np.uint8))
      >>> found["logits"].shape, found["max_probability"].tolist()
      ((3, 2), [0.5, 0.5, 0.5])
    """
    return _in_batches(_score, logits_fn, batch_size)(images)


def _score(logits_fn: LogitsFn, images: jax.Array) -> dict[str, jax.Array]:
    return {"logits": logits_fn(images), **metrics.ood_scores(logits_fn, images)}


def _classify(logits_fn: LogitsFn, images: jax.Array) -> jax.Array:
    return logits_fn(images)


def _in_batches(
    of_batch: Callable[[LogitsFn, jax.Array], Any], logits_fn: LogitsFn, batch_size: int
) -> Callable[[Any], Any]:
    """Returns ``images -> of_batch(logits_fn, images)``, one program for all sets of images."""
    check_at_least("batch_size", batch_size, 1)
    # A function that is no Partial may read other numbers at the next call.
    is_constant = isinstance(logits_fn, jax.tree_util.Partial)
    make = _keep_program if is_constant else _make_program
    program = partial(make(of_batch, batch_size, num_devices()), as_partial(logits_fn))

    def run(images: Any) -> Any:
        images = as_floats(images)
        check_finite("images", images)
        _, size = in_batches(of_batch, len(images), batch_size)
        return metrics.extract_in_batches(program, images, size)

    return run


def _make_program(of_batch: Callable[..., Any], batch_size: int, num_devices: int) -> Any:
    del num_devices  # by which the kept ones differ

    def at_once(function: LogitsFn, images: jax.Array) -> Any:
        return in_batches(of_batch, len(images), batch_size)[0](function, images)

    return jax.jit(at_once)


_keep_program = lru_cache(maxsize=8)(_make_program)


def classifier(
    logits_fn: LogitsFn,
    test: ImageData,
    *,
    outside: Mapping[str, np.ndarray] | None = None,
    batch_size: int = 256,
    num_bins: int = 20,
) -> dict[str, Any]:
    """Returns accuracy, calibration and out-of-distribution detection of a classifier.

    Args:
      logits_fn: see ``scores``.
      test: labelled images.
      outside: names to sets of uint8 images that are no such images, as ``ood_sets`` has them.
        Each is compared with the first test images, as many as the largest set has.
      batch_size: images a call.
      num_bins: bins of the calibration error.

    Returns:
      "classification": "num_images", "accuracy", "nll" in nats, "brier", "ece" and the lists of
      "reliability", see ``metrics.reliability_bins``; NaN if logits are not finite. "logits" of all
      test images. "per_image": number to set of images to the values behind it, for
      ``metrics.sampling_error`` and ``metrics.paired_difference``. With ``outside``, "scores" of
      every set, that of the test images called "test"; and "ood": "num_images" and "sets", which
      has for each set and score "auroc" with the test images as positive class. There is no mean
      over sets: it would mix easy and hard ones.
    """
    test = check_test(test, logits_fn)
    found: dict[str, Any] = {}
    score = _in_batches(_score, logits_fn, batch_size)
    if outside:
        found = score(test.images)
        logits = found.pop("logits")
    else:
        logits = _in_batches(_classify, logits_fn, batch_size)(test.images)
    report: dict[str, Any] = {
        "classification": classification(logits, test.labels, num_bins=num_bins),
        "per_image": _score_classes(logits, test.labels, num_bins),
        "logits": logits,
    }
    if not outside:
        return report
    num = max(len(images) for images in outside.values())
    others = {n: score(x) for n, x in outside.items()}
    for each in others.values():
        del each["logits"]
    tested = {name: score[:num] for name, score in found.items()}
    report["ood"] = out_of_distribution(tested, others)
    report["per_image"] |= areas_by_image(tested, others)
    report["scores"] = {TEST: tested, **others}
    return report


def classification(logits: Any, labels: Any, *, num_bins: int = 20) -> dict[str, Any]:
    """Returns "classification" of ``classifier``, of logits (N, classes) and labels (N,)."""
    logits = np.asarray(logits)
    check_labels("labels", labels, logits.shape[:1], logits.shape[1])
    values, bins = jax.device_get(_calibration(logits, np.asarray(labels), num_bins))
    is_finite = np.isfinite(logits.max(axis=1)).all()  # a class may have no chance, -inf
    numbers = {name: float(value) if is_finite else math.nan for name, value in values.items()}
    reliability = {name: array.tolist() for name, array in bins._asdict().items()}
    return {"num_images": len(logits), **numbers, "reliability": reliability}


@partial(jax.jit, static_argnums=2)
def _calibration(logits: jax.Array, labels: jax.Array, num_bins: int) -> Any:
    pair = jax.nn.softmax(logits), labels
    values = {
        "accuracy": metrics.accuracy(logits, labels),
        "nll": metrics.negative_log_likelihood(logits, labels),
        "brier": metrics.brier_score(*pair),
        "ece": metrics.expected_calibration_error(*pair, num_bins=num_bins),
    }
    return values, metrics.reliability_bins(*pair, num_bins=num_bins)


def _score_classes(logits: np.ndarray, labels: np.ndarray, num_bins: int) -> dict[str, Parts]:
    """Returns accuracy, calibration error, log likelihood and Brier score, image by image."""
    if not np.isfinite(logits).all():
        return {}
    found = _one_by_one(jnp.asarray(logits), jnp.asarray(labels), num_bins)
    return {f"classification.{name}": {TEST: np.asarray(array)} for name, array in found.items()}


@partial(jax.jit, static_argnums=2)
def _one_by_one(logits: jax.Array, labels: jax.Array, num_bins: int) -> dict[str, jax.Array]:
    probabilities = jax.nn.softmax(logits)
    one_each = logits[:, None], labels[:, None]  # for means over one image
    return {
        "accuracy": jax.vmap(metrics.accuracy)(*one_each) > 0.5,
        "ece": metrics.calibration_gaps(probabilities, labels, num_bins=num_bins),
        "nll": jax.vmap(metrics.negative_log_likelihood)(*one_each),
        "brier": jax.vmap(metrics.brier_score)(probabilities[:, None], labels[:, None]),
    }
