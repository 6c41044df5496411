"""Quality of the images that a trained model generates."""

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
from scipy.special import softmax

from ebmjax import evaluate, metrics
from ebmjax._phases import say_part
from ebmjax._ranges import FLAG, TWO_OR_MORE
from ebmjax.data import ImageData
from ebmjax.evaluate import finite_images
from ebmjax.recipes.evaluators import Found
from ebmjax.recipes.evaluators.evidence import keys_of
from ebmjax.recipes.evaluators.samples import NUM_SHOWN, draw_buffer, draw_sheet, is_latent
from ebmjax.types import Key

SHARES = {"fid": 0.9, "is": 0.1}
"""Shares of every predicted class, for the Frechet distance and the inception score."""


def generation(
    key: Key,
    model: Any,
    data: ImageData,
    *,
    num_images: Annotated[int, TWO_OR_MORE] = 1000,
    selected_by_confidence: Annotated[bool, FLAG] = False,
) -> Found:
    """Returns distances of generated images, of their starts and of the test images.

    Models without labels also have mean energies of samples, and their gap to the test images. The
    samples are arrays, with what sorts them.

    Args:
      num_images: images that are generated and scored
      selected_by_confidence: also judge the buffer's images that the model is sure of
    """
    sets = draw_sets(key, model, num_images)
    say_part("distances of the samples from the training images")
    report = evaluate.generation(sets, data, model.distances)
    if is_latent(model):
        fresh, key = report["fresh"], keys_of(key)["generated"]
        scores = partial(at_sizes, key, model.distances)
        fresh["at_sizes"] = scores(finite_images(sets["fresh"].ends))
        fresh["starts"]["at_sizes"] = scores(finite_images(sets["fresh"].starts))
        report["test_images"]["at_sizes"] = scores(data.images[:num_images])
        return Found({"generation": report})
    found: dict[str, dict[str, np.ndarray]] = {}
    mean_energy = lambda *of: float(np.mean(model.energies(*of), dtype=np.float64))  # noqa: E731
    of_test = math.nan if model.has_labels else mean_energy(data.images, data.labels)
    for name, chains in sets.items():
        means, found[name] = score_samples(name, model, chains)
        report[name] |= means
        if not model.has_labels:  # infinite where a chain left: no gap then looks small
            ours = mean_energy(chains.ends, chains.labels)
            report[name] |= {"mean_energy": ours, "energy_gap": ours - of_test}
    arrays = {f"{name}_{k}": one for name, group in found.items() for k, one in group.items()}
    if selected_by_confidence and len(found.get("buffer", {}).get("images", ())):
        starts, ends = (select_and_score(model, data, one) for one in sets["buffer"][:2])
        report["buffer_selected"] = ends | {"starts": starts}
    by_class = [name for name in ("conditional", "buffer") if "labels" in found.get(name, ())]
    pictures = {name: partial(draw_classes, found[name]) for name in by_class}
    panels = {f"samples, {name}": one["images"][:NUM_SHOWN] for name, one in found.items()}
    panels["starts of the fresh ones"] = found["fresh"]["start_images"][:NUM_SHOWN]
    pictures["samples"] = partial(draw_sheet, panels=panels)
    return Found({"generation": report}, arrays=arrays, pictures=pictures)


def at_sizes(key: Key, distances: evaluate.Distances, images: np.ndarray) -> dict[str, float]:
    """Returns "fid" and "kid_rbf" of infinitely many images, as the thermodynamic thesis has them.

    Lines in 1 / N go through ten sizes N, of which the smallest is 1 / 4.5 of all. NaN where that
    is below 2.
    """
    sizes = np.linspace(len(images) / 4.5, len(images), 10).round().astype(int)
    if sizes[0] < 2:
        return {"fid": math.nan, "kid_rbf": math.nan}
    features, _ = distances.outputs(images)
    reference, moments, _ = distances.train_reference
    bandwidth = (reference.shape[1] / 2) ** 0.5
    fid, kid = [], []
    for one, size in zip(jax.random.split(key, len(sizes)), sizes, strict=True):
        some = features[np.asarray(jax.random.permutation(one, len(images)))[:size]]
        fid.append(metrics.frechet_distance(*metrics.feature_moments(some), *moments))
        kid.append(metrics.kernel_distance(some, reference, kernel="rbf", bandwidth=bandwidth))
    found = {"fid": fid, "kid_rbf": kid}
    return {k: float(metrics.extrapolate_to_infinity(sizes, v)) for k, v in found.items()}


def draw_sets(key: Key, model: Any, num: int) -> dict[str, Any]:
    """Returns long chains and the buffer; with labels also chains of a class.

    Without labels, also chains as long as training's. Of a latent EBM, chains of the prior alone.
    """
    if is_latent(model):
        say_part(f"chains of {num:,} samples")
        return {"fresh": model.fresh_chains(keys_of(key)["generated"], num)}
    short_key, long_key, _ = jax.random.split(key, 3)
    sets, steps = {}, model.num_chain_steps
    if model.has_labels:
        long_key, key = jax.random.split(long_key)
    else:
        sets["short"] = model.fresh_chains(short_key, num, model.config.sampler.num_steps)
    sets["fresh"] = model.fresh_chains(long_key, num, steps)
    if model.has_labels and not model.plan.is_interacting:
        class_key = jax.random.fold_in(long_key, 1)
        sets["conditional"] = model.fresh_chains(
            class_key, num, steps, labels=range(model.config.data.num_classes)
        )
    if (buffer := draw_buffer(key, model, num)) is not None:
        sets["buffer"] = buffer
    return sets


def score_samples(
    name: str, model: Any, chains: Any
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Returns mean scores of the samples of a set that did not diverge; and these and their starts.

    With labels, samples whose chains had no class get their most probable one.
    """
    logits = model.logits_at(chains.ends)[np.isfinite(chains.ends).all(axis=(1, 2, 3))]
    log_density = np.asarray(jax.nn.logsumexp(logits, axis=1))
    samples = {**chains.images(), "log_density": log_density}
    if not model.has_labels or len(logits) < 2:
        return {}, samples
    has_class = name == "conditional" or (name == "buffer" and model.config.model.is_conditional)
    classes = chains.drop_diverged().labels if has_class else logits.argmax(axis=1)
    probabilities = np.asarray(jax.nn.softmax(logits, axis=1))[np.arange(len(classes)), classes]
    samples |= {"labels": classes, "class_probability": probabilities}
    means = ("class_probability", "log_density")
    return {f"mean_{one}": float(np.mean(samples[one])) for one in means}, samples


def select_and_score(model: Any, data: ImageData, ends: np.ndarray) -> dict[str, Any]:
    """Returns numbers of the images with the highest confidence, as in SADA-JEM's code.

    Frechet distance and inception score use different images, and the reference includes the test
    images.
    """
    ends = ends[np.isfinite(ends).all(axis=(1, 2, 3))]
    images, logits = finite_images(ends), model.logits_at(ends)
    reference = model.distances.train_and(data.images)
    report: dict[str, Any] = {"num_reference": len(reference.features)}
    for name, share in SHARES.items():
        selected = images[most_confident(logits, share)]
        scores = model.distances.scores(selected, reference=reference).numbers
        report[f"num_images_{name}"] = len(selected)
        report |= {k: v for k, v in scores.items() if k in (name, f"{name}_error")}
    return report


def most_confident(logits: np.ndarray, share: float) -> np.ndarray:
    """Returns increasing indices of the ``share`` with the largest p(y|x), for each predicted y.

    The share, in (0, 1], is rounded up, so that every predicted class stays.
    """
    confidence, predicted = softmax(logits, axis=1).max(axis=1), logits.argmax(axis=1)
    kept = []
    for label in np.unique(predicted):
        (of_class,) = np.nonzero(predicted == label)
        order = np.argsort(-confidence[of_class], stable=True)
        # Avoids a product's rounding: 0.1 x 30 is a little more than 3.
        kept.append(of_class[order[: math.ceil(round(share * len(of_class), 9))]])
    return np.sort(np.concatenate(kept))


def draw_classes(found: Mapping[str, np.ndarray], path: Path) -> None:
    """Draws a row a class: its ten images of highest log p(x), then the ten of lowest."""
    classes, counts = np.unique(found["labels"], return_counts=True)
    columns = min(20, int(counts.max()))
    sheet = np.full((len(classes), columns, *found["images"].shape[1:]), 255, np.uint8)
    for row, label in zip(sheet, classes, strict=True):
        (members,) = np.nonzero(found["labels"] == label)
        order = members[np.argsort(-found["log_density"][members], stable=True)]
        if len(order) > columns:
            order = np.r_[order[: columns // 2], order[columns // 2 - columns :]]
        row[: len(order)] = found["images"][order]
    panels = {"by log p(x): highest, then lowest": sheet.reshape(-1, *sheet.shape[2:])}
    draw_sheet(path, panels, columns=columns, rows=[f"class {label}" for label in classes])
