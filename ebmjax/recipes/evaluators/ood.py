"""Detection of images that a model should find unlikely, by three scores."""

import contextlib
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from ebmjax import data as sources
from ebmjax import evaluate
from ebmjax._phases import say_part
from ebmjax._ranges import NAME, TWO_OR_MORE
from ebmjax.data import ImageData
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.evaluators import Found
from ebmjax.recipes.evaluators.plots import figure
from ebmjax.types import Key

UNAVAILABLE = (sources.DataUnavailableError, FileNotFoundError)


def ood(
    key: Key,
    model: Any,
    data: ImageData,
    *,
    num_images: Annotated[int, TWO_OR_MORE] = 1000,
    tfds: Annotated[Sequence[str], NAME] = (),
) -> Found:
    """Returns "ood" of ``evaluate.classifier``, "typicality" included, and skipped sets.

    Scores are arrays. Typicality is minus the distance of log p(x) from its median over images held
    out, or over training images where there are none. "detector" is the score with the largest
    AUROC on the set that is worst for it, of these images and sets of ``evaluate.ood_sets``.

    Args:
      num_images: images of each out-of-distribution set
      tfds: tensorflow-datasets that are out of distribution
    """
    del key
    first = ImageData(*(array[:num_images] for array in data))
    sets, skipped = evaluate.ood_sets(first.images), {}
    for name in tfds:
        try:
            sets[name] = load_tfds(model.config, name, first.images)
        except UNAVAILABLE as error:
            skipped[name] = str(error)
    say_part(f"scoring {len(sets)} sets of {len(first.images):,} images")
    size = model.config.evals.batch_size
    found = evaluate.classifier(model.logits, first, outside=sets, batch_size=size)
    learnt = (model.held_out or model.train).images[:num_images]
    score = partial(evaluate.scores, model.logits, batch_size=size)
    known = {n: score(x) for n, x in {"": learnt, **evaluate.ood_sets(learnt, seed=1)}.items()}
    usual, scores = np.median(known[""]["log_density"]), found["scores"]
    for one in (*known.values(), *scores.values()):
        one.pop("logits", None)
        one["typicality"] = -np.abs(one["log_density"] - usual)
    report = evaluate.out_of_distribution(scores["test"], {n: scores[n] for n in sets})
    detector, worst = choose_detector(known.pop(""), known)
    report["detector"] = {"name": detector, "lowest_auroc": worst}
    above = [n for n, one in report["sets"].items() if one["log_density"]["auroc"] < 0.5]
    if above:
        warnings.warn(
            f"log p(x) ranks {', '.join(above)} above test images. Tell foreign images by "
            f"{detector}, whose AUROC is at least {worst:.2f} on known images.",
            stacklevel=2,
        )
    return Found(
        {"ood": {**report, "skipped": skipped}},
        arrays={f"{a}_{b}": x for a, group in scores.items() for b, x in group.items()},
        per_image={k: v for k, v in found["per_image"].items() if k.startswith("ood.")},
        pictures={"ood": partial(draw, scores)},
    )


def choose_detector(
    inside: Mapping[str, np.ndarray], outside: Mapping[str, Mapping[str, np.ndarray]]
) -> tuple[str, float]:
    """Returns the score whose lowest AUROC over the sets is the largest, and that AUROC."""
    sets = evaluate.out_of_distribution(inside, outside)["sets"].values()
    lowest = {score: min(one[score]["auroc"] for one in sets) for score in inside}
    best = max(lowest, key=lowest.__getitem__)
    return best, lowest[best]


def check(model: Any, data: ImageData, *, num_images: int, tfds: Sequence[str]) -> None:
    """Raises ConfigError for sets that no run could read, and for fewer than two images."""
    images = data.images[:num_images]
    if len(images) < 2:
        raise ConfigError(
            f"config.evals.ood needs at least 2 test images, got {len(images)}: raise "
            "config.data.max_test or holdout, or set --config.evals.ood.every=never."
        )
    for name in tfds:
        with contextlib.suppress(*UNAVAILABLE):
            load_tfds(model.config, name, images[:1])


def load_tfds(config: Config, name: str, test: np.ndarray) -> np.ndarray:
    """Returns at most as many images of a data set as are tested, in their shape.

    Raises:
      ConfigError: if there is no such data set, or its images are of another shape.
    """
    section, size = config.data, {"image_size": test.shape[1], "max_examples": len(test)}
    folder = section.get("path") if sources.is_tfds(section.name) else None
    try:
        sources.check_source(name, "test", path=folder, needs_copy=True)
        fit = section.get("fit", "crop")
        found = sources.load_images(name, "test", path=folder, fit=fit, **size)
        return np.concatenate([test[:0], found.data.images])  # refuses another shape
    except ValueError as error:
        raise ConfigError(f"config.evals.ood.tfds, {name}: {error}") from error


def draw(scores: Mapping[str, Mapping[str, np.ndarray]], path: Path) -> None:
    """Draws histograms of each score of all sets, the test images filled.

    Numbers that are not finite are left out. The tails beyond 1 % share the outer bins.
    """
    names = list(scores["test"])
    with figure(path, 1, len(names), has_legend=True) as (panels,):
        for axes, score in zip(panels, names, strict=True):
            shown = {name: one[score][np.isfinite(one[score])] for name, one in scores.items()}
            axes.set(xlabel=score.replace("_", " "), ylabel="density", yticks=[])
            together = np.concatenate([*shown.values()])
            low, high = np.percentile(together, (1, 99)) if len(together) else (0.0, 1.0)
            edges = np.linspace(low, high + 1e-6 * (1 + abs(high)), 41)
            for name, values in shown.items():
                style: Any = {"alpha": 0.35} if name == "test" else {"histtype": "step"}
                style |= {"density": True, "label": name.replace("_", " "), "lw": 1.2}
                axes.hist(np.clip(values, edges[0], edges[-1]), edges, **style)
