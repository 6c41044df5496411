"""Quality of the images that a trained model generates."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np

from ebmjax import evaluate, metrics
from ebmjax._phases import say_part
from ebmjax._ranges import FLAG, TWO_OR_MORE, optional
from ebmjax.data import ImageData
from ebmjax.evaluate import finite_images
from ebmjax.recipes.evaluators import Found
from ebmjax.recipes.evaluators.evidence import keys_of
from ebmjax.recipes.evaluators.plots import figure, tiles
from ebmjax.recipes.evaluators.samples import draw_buffer, is_latent
from ebmjax.types import Key

SHARES = {"fid": 0.9, "is": 0.1}
"""Shares of every predicted class, for the Frechet distance and the inception score."""
NUM_SIZES = 10
ROWS, COLUMNS = 10, 10
TITLES = {
    "short": "chains as in training, by log p(x)",
    "fresh": "fresh chains, by log p(x)",
    "buffer": "replay buffer, by log p(x)",
}
BY_CLASS = {"conditional": "chains of a class", "buffer": "replay buffer by class"}

SampleArrays = Mapping[str, np.ndarray]


def generation(
    key: Key,
    model: Any,
    data: ImageData,
    *,
    num_images: Annotated[int, TWO_OR_MORE] = 1000,
    selected_by_confidence: Annotated[bool, FLAG] = False,
    smallest_num: Annotated[int | None, optional(TWO_OR_MORE)] = None,
) -> Found:
    """Returns distances of generated images, of their starts and of the test images.

    The samples are arrays, with what sorts them.

    Args:
      num_images: images that are generated and scored
      selected_by_confidence: also judge the buffer's images that the model is sure of
      smallest_num: smallest number of images that metrics are extrapolated from; None: they are not
    """
    sets = draw_sets(key, model, num_images)
    say_part("distances of the samples from the training images")
    report = evaluate.generation(sets, data, model.distances)
    found: dict[str, SampleArrays] = {}
    for name, chains in sets.items():
        means, found[name] = score_samples(name, model, chains)
        report[name] |= means
    if "buffer" in sets and selected_by_confidence:
        buffer = sets["buffer"]
        report["buffer_selected"] = {
            **select_and_score(model, data, buffer.ends),
            "starts": select_and_score(model, data, buffer.starts),
        }
    if smallest_num is not None:
        spaced = np.linspace(smallest_num, num_images, NUM_SIZES)  # as in the thesis
        report["sizes"] = sizes = spaced.round().astype(int).tolist()
        for place, images, at in _list_places(report, sets, data, sizes):
            place["at_sizes"] = scores_at_sizes(keys_of(key).sizes, model.distances, images, at)
    arrays = {f"{name}_{k}": one for name, group in found.items() for k, one in group.items()}
    return Found({"generation": report}, arrays=arrays, pictures=_pictures(found))


def draw_sets(key: Key, model: Any, num: int) -> dict[str, Any]:
    """Returns long chains and the buffer; with labels also chains of a class.

    Without labels, also chains as long as training's. Of a latent EBM, chains of the prior alone.
    """
    if is_latent(model):
        say_part(f"chains of {num:,} samples")
        return {"fresh": model.fresh_chains(keys_of(key).generated, num)}
    short_key, long_key, _ = jax.random.split(key, 3)
    sets = {}
    if not model.has_labels:
        sets["short"] = model.fresh_chains(short_key, num, model.config.sampler.num_steps)
    else:
        long_key, key = jax.random.split(long_key)
    sets["fresh"] = model.fresh_chains(long_key, num, model.num_chain_steps)
    if model.has_labels and model.plan and not model.plan.is_interacting:
        class_key = jax.random.fold_in(long_key, 1)
        sets["conditional"] = model.fresh_chains(
            class_key, num, model.num_chain_steps, of_class=True
        )
    if (buffer := draw_buffer(key, model, num)) is not None:
        sets["buffer"] = buffer
    model.known_sets.update(sets)
    return sets


def score_samples(
    name: str, model: Any, chains: Any
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Returns mean scores of the samples of a set that did not diverge; and these and their starts.

    With labels, samples whose chains had no class get their most probable one. Of a latent
    EBM, only the way of the finite chains: of latents, not of pixels.
    """
    if is_latent(model):
        return {"rms_displacement": chains.about_finite()[1]}, {}
    starts, ends, labels, _ = chains
    is_finite = np.isfinite(ends).all(axis=(1, 2, 3))
    logits = model.logits_at(ends)[is_finite]
    samples = {
        "images": finite_images(ends),
        "start_images": finite_images(starts[is_finite]),
        "log_density": np.asarray(jax.nn.logsumexp(logits, axis=1)),
    }
    if not model.has_labels or len(logits) < 2:
        return {}, samples
    has_class = name == "conditional" or (name == "buffer" and model.is_conditional)
    classes = labels[is_finite] if has_class else logits.argmax(axis=1)
    probabilities = np.asarray(jax.nn.softmax(logits, axis=1))[np.arange(len(classes)), classes]
    samples |= {"labels": classes, "class_probability": probabilities}
    means = ("class_probability", "log_density")
    return {f"mean_{one}": float(np.mean(samples[one])) for one in means}, samples


def _list_places(
    report: Any, sets: Any, data: ImageData, sizes: list[int]
) -> Iterator[tuple[dict[str, Any], np.ndarray, list[int]]]:
    """Yields places of a report, their images and numbers of them.

    Fewer test images have sizes in the same proportion.
    """
    for name, chains in sets.items():
        is_finite = np.isfinite(chains.ends).all(axis=(1, 2, 3))
        yield report[name], finite_images(chains.ends[is_finite]), sizes
        yield report[name]["starts"], finite_images(chains.starts[is_finite]), sizes
    images = data.images[: sizes[-1]]
    fewer = [max(2, round(len(images) / sizes[-1] * size)) for size in sizes]
    yield report["test_images"], images, fewer


def scores_at_sizes(
    key: Key, distances: evaluate.Distances, images: np.ndarray, sizes: Sequence[int]
) -> dict[str, Any]:
    """Returns "values" of FID and KID at these sizes, and at "infinity"; NaN for unknown ones.

    A size takes as many images, drawn anew. KID has the cubic kernel, and the thesis's.
    """
    known = [size for size in sizes if size <= len(images)]
    rows: list[np.ndarray] = []
    if known:
        features, _ = distances.outputs(images)
        orders = [jax.random.permutation(k, len(images)) for k in jax.random.split(key, len(known))]
        rows = [features[np.asarray(x)[:num]] for x, num in zip(orders, known, strict=True)]
    reference, moments, _ = distances.train_reference
    kid = partial(metrics.kernel_distance, features_b=reference)
    scores: dict[str, Callable[[np.ndarray], float]] = {
        "fid": lambda x: metrics.frechet_distance(*metrics.feature_moments(x), *moments),
        "kid_rbf": partial(kid, kernel="rbf", bandwidth=(reference.shape[1] / 2) ** 0.5),
        "kid_polynomial": kid,
    }
    found = {}
    for name, score in scores.items():
        values = [float(score(row)) for row in rows]
        has_line = len(set(known)) > 1
        infinity = metrics.extrapolate_to_infinity(known, values) if has_line else np.nan
        unknown = [np.nan] * (len(sizes) - len(known))
        found[name] = {"values": values + unknown, "infinity": float(infinity)}
    return found


def select_and_score(model: Any, data: ImageData, ends: np.ndarray) -> dict[str, Any]:
    """Returns numbers of the images with the highest confidence, as in SADA-JEM's code.

    Frechet distance and inception score use different images, and the reference includes the test
    images.
    """
    ends = ends[np.isfinite(ends).all(axis=(1, 2, 3))]
    num_reference = len(model.distances.train.labels) + len(data.labels)
    report: dict[str, Any] = {"shares": SHARES, "num_reference": num_reference}
    if len(ends) < 2:
        return report
    images, logits = finite_images(ends), model.scores(ends)["logits"]
    reference = model.distances.train_and(data.images)
    for name, share in SHARES.items():
        selected = images[most_confident(logits, share)]
        scores = model.distances.scores(selected, reference=reference).numbers
        report[f"num_images_{name}"] = len(selected)
        report |= {k: v for k, v in scores.items() if k in (name, f"{name}_error")}
    return report


def most_confident(logits: np.ndarray, share: float) -> np.ndarray:
    """Returns indices of the ``share`` with the largest p(y|x), for each predicted class.

    The share is rounded up, so that every predicted class stays.

    Args:
      logits: (N, classes), from the model that generated the images.
      share: in (0, 1].

    Returns:
      (n,), increasing.
    """
    shifted = logits - logits.max(axis=1, keepdims=True)
    confidence = 1 / np.exp(shifted).sum(axis=1)  # the softmax of the largest
    predicted = logits.argmax(axis=1)
    kept = []
    for label in np.unique(predicted):
        of_class = np.flatnonzero(predicted == label)
        order = np.argsort(-confidence[of_class], kind="stable")
        # Avoids a product's rounding: 0.1 x 30 is a little more than 3.
        kept.append(of_class[order[: math.ceil(round(share * len(of_class), 9))]])
    return np.sort(np.concatenate(kept))


def _pictures(found: Mapping[str, SampleArrays]) -> dict[str, Callable[[Path], None]]:
    """Returns what draws samples by falling log p(x), and ``BY_CLASS`` with a row a class."""
    by_class = {
        name: partial(draw_classes, found[name], title)
        for name, title in BY_CLASS.items()
        if name in found and len(found[name].get("labels", ()))
    }
    has_any = any(len(found.get(name, {}).get("images", ())) for name in TITLES)
    return {"samples": partial(draw, found), **by_class} if has_any else by_class


def draw(found: Mapping[str, SampleArrays], path: Path) -> None:
    """Draws the samples of each set with the highest and the lowest log p(x)."""
    panels = {}
    for name, title in TITLES.items():
        one = found.get(name, {})
        if not len(images := one.get("images", ())):
            continue
        chosen = extremes(one["log_density"], ROWS * COLUMNS)
        panels[title + _caption(len(chosen), len(images))] = images[chosen]
        if name == "fresh":
            panels["where these chains started\nin the same order"] = one["start_images"][chosen]
    with figure(path, 1, len(panels), size=(5, 5.7)) as (axes,):
        for axis, (title, images) in zip(axes, panels.items(), strict=True):
            tiles(axis, images, COLUMNS, title)


def draw_classes(found: SampleArrays, of_class: str, path: Path) -> None:
    """Draws a row a class, sorted by log p(x) on the left and by p(y|x) on the right."""
    classes, counts = np.unique(found["labels"], return_counts=True)
    columns = min(2 * COLUMNS, int(counts.max()))
    caption = _caption(columns, int(counts.max()), "of" if np.ptp(counts) == 0 else "of up to")
    shape = found["images"].shape[1:]
    size = (max(0.4 * columns + 1, 2.6), 1.0 + 0.42 * len(classes))
    with figure(path, 1, 2, size=size) as (axes,):
        for axis, field, by in zip(
            axes, ("log_density", "class_probability"), ("log p(x)", "p(y|x)"), strict=True
        ):
            sheet = np.full((len(classes), columns, *shape), 255, np.uint8)  # white where none is
            for row, label in zip(sheet, classes, strict=True):
                (members,) = np.nonzero(found["labels"] == label)
                chosen = members[extremes(found[field][members], columns)]
                row[: len(chosen)] = found["images"][chosen]
            title = f"{of_class}, by {by}{caption}"
            tiles(axis, sheet.reshape(-1, *shape), columns, title, [*map(str, classes)])
            axis.set_ylabel("class")


def _caption(num: int, total: int, of: str = "of") -> str:
    """Returns the caption of ``extremes``."""
    if total <= num:
        return "\nhighest first"
    return f"\nthe {num // 2} highest, then the {num - num // 2} lowest {of} {total}"


def extremes(values: np.ndarray, num: int) -> np.ndarray:
    """Returns indices by falling value: all, or the ``num // 2`` highest and the lowest ones."""
    order = np.argsort(-values, stable=True)
    if len(order) <= num:
        return order
    return np.concatenate([order[: num // 2], order[len(order) - (num - num // 2) :]])
