"""Detection of images that a model should find unlikely, by three scores."""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax import data, evaluate, metrics
from ebmjax._phases import say_part
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.evaluators.evaluator import Evaluator, Found
from ebmjax.recipes.evaluators.plots import figure, histograms, legend
from ebmjax.types import Key

TEST = "test"
"""Name of the tested set among those that are scored."""
SCORES = ("log_density", "max_probability", "negative_score_norm")
UNAVAILABLE = (data.DataUnavailableError, FileNotFoundError)


@dataclass(frozen=True)
class OutOfDistribution(Evaluator):
    """Areas under the ROC curve of three scores, and thresholds by images held out.

    It uses ``model.logits`` and ``model.held_out``.

    Attributes:
      tfds_folder: of prepared tensorflow-datasets; None: their own folder.
      fit: ``config.data.fit``, for images that are no squares.
      data_name: ``config.data.name``.
    """

    num_images: int = 1000
    tfds: tuple[str, ...] = ()
    tfds_folder: str | None = None
    fit: str = "crop"
    data_name: str = ""
    batch_size: int = 128
    false_alarm_rate: float = 0.05

    def __call__(self, model: Any, test: data.ImageData, key: Key) -> Found:
        """Returns "ood" of ``evaluate.classifier``, groups and skipped sets; scores as arrays."""
        first = data.ImageData(*(array[: self.num_images] for array in test))
        sets, skipped = self.make_sets(first.images)
        say_part(f"scoring {len(sets)} sets of {len(first.images):,} images")
        found = evaluate.classifier(model.logits, first, outside=sets, batch_size=self.batch_size)
        report = {**found["ood"], "groups": self.group_sets(sets), "skipped": skipped}
        if model.held_out is not None:
            report["threshold"] = self._find_thresholds(model, test, found["scores"])
        arrays = {f"{a}_{b}": x for a, group in found["scores"].items() for b, x in group.items()}
        per_image = {k: v for k, v in found["per_image"].items() if k.startswith("ood.")}
        return Found({"ood": report}, arrays=arrays, per_image=per_image)

    def _find_thresholds(self, model: Any, test: data.ImageData, scores: Any) -> dict[str, Any]:
        """Returns a threshold for each score, and the share of every set that is below it."""
        held_out, rate = model.held_out, self.false_alarm_rate
        found = evaluate.scores(model.logits, held_out.images, batch_size=self.batch_size)
        # A share of the images that chose the threshold would say nothing.
        sets = [k for k in scores if k != TEST or test.images is not held_out.images]
        report: dict[str, Any] = {"num_images": len(held_out.images), "rate": rate}
        for name in SCORES:
            try:
                threshold = metrics.novelty_threshold(found[name], rate)
            except ValueError as error:
                report["skipped"] = str(error)
                continue
            below = {k: float(np.mean(scores[k][name] < threshold.threshold)) for k in sets}
            report[name] = {**threshold._asdict(), "below": below}
        return report

    def make_sets(self, test: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, str]]:
        """Returns uint8 images (num, H, W, C) by name, as many as are tested, and skipped sets.

        Raises:
          ConfigError: if ``config.eval.ood.tfds`` names something unknown.
        """
        num, sets = len(test), evaluate.ood_sets(test)
        skipped = {}
        for name in self.tfds:
            try:
                found = self._tfds_images(name, test)
            except UNAVAILABLE as error:
                skipped[name] = str(error)
                continue
            if len(found) == num:
                sets[name] = found
            else:
                skipped[name] = (
                    f"{name} has {len(found)} test images where {num} are tested. Take "
                    f"--config.eval.ood.num_images={len(found)} to compare with as many."
                )
        return sets, skipped

    def group_sets(self, sets: Iterable[str]) -> dict[str, list[str]]:
        """Returns the names of sets "near" the run's images and "far" from them, which are easier.

        As in OpenOOD v1.5, CIFAR-10 and CIFAR-100 are near each other.
        """
        found: dict[str, list[str]] = {"near": [], "far": []}
        for name in sets:
            is_near = name == "interp" or {name, self.data_name} == {"cifar10", "cifar100"}
            found["near" if is_near else "far"].append(name)
        return found

    def check(self, model: Any, test: data.ImageData) -> None:
        """Raises as ``make_sets``, after reading one image of each set."""
        images = test.images[: self.num_images]
        if len(images) < 2:
            raise ConfigError(
                "config.eval.ood compares test images with mixtures of two of them, and there is "
                f"{len(images)}: give the run at least 2 (config.data.max_test, holdout), or set "
                "--config.eval.ood.every=never."
            )
        for name in self.tfds:
            with contextlib.suppress(*UNAVAILABLE):
                self._tfds_images(name, images[:1])

    def _tfds_images(self, name: str, test: np.ndarray) -> np.ndarray:
        try:
            data.check_prepared(name, self.tfds_folder)
            images = data.load_images(
                name,
                "test",
                path=self.tfds_folder,
                image_size=test.shape[1],
                fit=self.fit,
                max_examples=len(test),
            ).data.images
        except ValueError as error:
            raise ConfigError(f"config.eval.ood.tfds: {error}") from error
        if images.shape[1:] != test.shape[1:]:
            raise ConfigError(
                f"config.eval.ood.tfds must name images like those of config.data.name="
                f"{self.data_name!r}, {test.shape[1:]}; {name} has {images.shape[1:]}."
            )
        return images

    def draw(self, folder: Path, found: Found) -> None:
        """Draws ``eval_ood.png``: histograms of the scores of all sets, and dashed thresholds."""
        report, arrays = found.report["ood"], found.arrays
        groups, thresholds = report["groups"], report.get("threshold", {})
        sets = [*groups["near"], *groups["far"]]
        with figure(folder / "plots" / "eval_ood.png", 1, len(SCORES)) as (axes,):
            for axis, name in zip(axes, SCORES, strict=True):
                shown = {"in distribution": arrays[f"{TEST}_{name}"]}
                histograms(axis, shown | {one: arrays[f"{one}_{name}"] for one in sets})
                if name in thresholds:
                    axis.axvline(thresholds[name]["threshold"], color="0.3", ls="--")
                axis.set(xlabel=name.replace("_", " "))
            legend(axes[0].figure)
