"""Detection of images that a model should find unlikely, by three scores."""

import contextlib
from collections.abc import Iterable, Sequence
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
from ebmjax.recipes.evaluators.plots import figure, histograms, legend
from ebmjax.types import Key

TEST = "test"
"""Name of the tested set among those that are scored."""
SCORES = ("log_density", "max_probability", "negative_score_norm")
UNAVAILABLE = (sources.DataUnavailableError, FileNotFoundError)


def ood(
    key: Key,
    model: Any,
    data: ImageData,
    *,
    num_images: Annotated[int, TWO_OR_MORE] = 1000,
    tfds: Annotated[Sequence[str], NAME] = (),
) -> Found:
    """Returns "ood" of ``evaluate.classifier``, groups and skipped sets; scores are arrays.

    Args:
      num_images: images of each out-of-distribution set
      tfds: tensorflow-datasets that are out of distribution
    """
    del key
    first = ImageData(*(array[:num_images] for array in data))
    sets, skipped = make_sets(model.config, first.images, tfds)
    say_part(f"scoring {len(sets)} sets of {len(first.images):,} images")
    size = model.config.evals.batch_size
    found = evaluate.classifier(model.logits, first, outside=sets, batch_size=size)
    groups = group_sets(sets, model.config.data.name)
    report = {**found["ood"], "groups": groups, "skipped": skipped}
    arrays = {f"{a}_{b}": x for a, group in found["scores"].items() for b, x in group.items()}
    return Found(
        {"ood": report},
        arrays=arrays,
        per_image={k: v for k, v in found["per_image"].items() if k.startswith("ood.")},
        pictures={"ood": partial(draw, report, arrays)},
    )


def check(model: Any, data: ImageData, *, num_images: int, tfds: Sequence[str], **_: Any) -> None:
    """Raises as ``make_sets``, after reading one image of each set; and for too few images."""
    images = data.images[:num_images]
    if len(images) < 2:
        raise ConfigError(
            "config.evals.ood compares test images with mixtures of two of them, and there is "
            f"{len(images)}: give the run at least 2 (config.data.max_test, holdout), or set "
            "--config.evals.ood.every=never."
        )
    for name in tfds:
        with contextlib.suppress(*UNAVAILABLE):
            _load_tfds(model.config, name, images[:1])


def make_sets(
    config: Config, test: np.ndarray, tfds: Sequence[str]
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Returns uint8 images (num, H, W, C) by name, as many as are tested, and skipped sets.

    Raises:
      ConfigError: if ``config.evals.ood.tfds`` names something unknown.
    """
    sets, skipped = evaluate.ood_sets(test), {}
    for name in tfds:
        try:
            found = _load_tfds(config, name, test)
        except UNAVAILABLE as error:
            skipped[name] = str(error)
            continue
        if len(found) == len(test):
            sets[name] = found
        else:
            skipped[name] = (
                f"{name} has {len(found)} test images where {len(test)} are tested. Take "
                f"--config.evals.ood.num_images={len(found)} to compare with as many."
            )
    return sets, skipped


def group_sets(sets: Iterable[str], data_name: str) -> dict[str, list[str]]:
    """Returns the names of sets "near" the run's images and "far" from them, which are easier.

    As in OpenOOD v1.5, CIFAR-10 and CIFAR-100 are near each other.
    """
    found: dict[str, list[str]] = {"near": [], "far": []}
    for name in sets:
        is_near = name == "interp" or {name, data_name} == {"cifar10", "cifar100"}
        found["near" if is_near else "far"].append(name)
    return found


def _load_tfds(config: Config, name: str, test: np.ndarray) -> np.ndarray:
    section = config.data
    folder = section.path or None if sources.is_tfds(section.name) else None
    try:
        sources.check_source(name, "test", path=folder, needs_copy=True)
        images = sources.load_images(
            name,
            "test",
            path=folder,
            image_size=test.shape[1],
            fit=section.fit,
            max_examples=len(test),
        ).data.images
    except ValueError as error:
        raise ConfigError(f"config.evals.ood.tfds: {error}") from error
    if images.shape[1:] != test.shape[1:]:
        raise ConfigError(
            f"config.evals.ood.tfds must name images like those of config.data.name="
            f"{section.name!r}, {test.shape[1:]}; {name} has {images.shape[1:]}."
        )
    return images


def draw(report: dict[str, Any], arrays: dict[str, np.ndarray], path: Path) -> None:
    """Draws histograms of the scores of all sets."""
    groups = report["groups"]
    sets = [*groups["near"], *groups["far"]]
    with figure(path, 1, len(SCORES)) as (axes,):
        for axis, name in zip(axes, SCORES, strict=True):
            shown = {"in distribution": arrays[f"{TEST}_{name}"]}
            histograms(axis, shown | {one: arrays[f"{one}_{name}"] for one in sets})
            axis.set(xlabel=name.replace("_", " "))
        legend(axes[0].figure)
