"""Quality of the images that a trained model generates."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax import data, metrics
from ebmjax.evaluate import finite_images
from ebmjax.recipes.evaluators.evaluator import Evaluator, Found
from ebmjax.recipes.evaluators.image_model import floats
from ebmjax.recipes.evaluators.latent.keys import keys_of
from ebmjax.recipes.evaluators.plots import figure, tiles
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
BY_CLASS = {
    "conditional": "chains of a class",
    "buffer": "replay buffer by class",
}

SampleArrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Generation(Evaluator):
    """Distances of generated images, of their starts and of the test images.

    It uses ``model.draw_sets``, ``model.distances``, ``model.score_samples`` and
    ``model.describe_chains``.
    """

    num_images: int = 1000
    selected_by_confidence: bool = False
    smallest_num: int | None = None

    def __call__(self, model: Any, test: data.ImageData, key: Key) -> Found:
        """Returns "generation"; the samples are arrays, with what sorts them."""
        sets = model.draw_sets(key, self.num_images)
        report = model.describe_chains() | model.distances.generation(sets, test)
        shared = tuple(f"generation.{name}" for name in (*(report.keys() - sets.keys()), "sizes"))
        arrays: dict[str, Any] = {}
        for name, chains in sets.items():
            means, samples = model.score_samples(name, chains)
            report[name] |= means
            arrays |= {f"{name}_{key}": array for key, array in samples.items()}
        if "buffer" in sets and self.selected_by_confidence:
            buffer = sets["buffer"]
            report["buffer_selected"] = {
                **select_and_score(model, test, buffer.ends),
                "starts": select_and_score(model, test, buffer.starts),
            }
        if self.smallest_num is not None:
            report["sizes"] = self.sizes
            for place, images, sizes in self._list_places(report, sets, test):
                place["at_sizes"] = scores_at_sizes(model, key, images, sizes)
        return Found({"generation": report}, arrays=arrays, shared=shared)

    @property
    def sizes(self) -> list[int]:
        """Ten numbers of images, evenly spaced as in the thesis."""
        spaced = np.linspace(self.smallest_num or 0, self.num_images, NUM_SIZES)
        return spaced.round().astype(int).tolist()

    def _list_places(self, report: Any, sets: Any, test: data.ImageData) -> Iterator[Any]:
        """Yields places of a report, images in [-1, 1] and their sizes.

        Fewer test images have sizes in the same proportion.
        """
        for name, chains in sets.items():
            is_finite = np.isfinite(chains.ends).all(axis=(1, 2, 3))
            yield report[name], chains.ends[is_finite], self.sizes
            yield report[name]["starts"], chains.starts[is_finite], self.sizes
        images = test.images[: self.num_images]
        sizes = [max(2, round(len(images) / self.num_images * size)) for size in self.sizes]
        yield report["test_images"], floats(images), sizes

    def draw(self, folder: Path, found: Found) -> None:
        """Draws ``eval_samples.png`` by falling log p(x), and ``BY_CLASS`` with a row a class."""
        sets = {name: _of_set(found.arrays, name) for name in (*TITLES, *BY_CLASS)}
        panels = {}
        for name, title in TITLES.items():
            images = sets[name].get("images", ())
            if not len(images):
                continue
            chosen = extremes(sets[name]["log_density"], ROWS * COLUMNS)
            panels[title + _caption(len(chosen), len(images))] = images[chosen]
            if name == "fresh":
                starts = sets[name]["start_images"]
                panels["where these chains started\nin the same order"] = starts[chosen]
        if panels:
            path = folder / "plots" / "eval_samples.png"
            with figure(path, 1, len(panels), size=(5, 5.7)) as (axes,):
                for axis, (title, images) in zip(axes, panels.items(), strict=True):
                    tiles(axis, images, COLUMNS, title)
        for name, title in BY_CLASS.items():
            if len(sets[name].get("labels", ())):
                _by_class(folder / "plots" / f"eval_{name}.png", sets[name], title)


def scores_at_sizes(model: Any, key: Key, images: Any, sizes: Sequence[int]) -> dict[str, Any]:
    """Returns "values" of every score at these sizes, and at "infinity"; NaN for unknown ones."""
    scores = model.distances.at_sizes(keys_of(key).sizes, finite_images(images), sizes)
    found = {}
    for name, values in scores.items():
        known = np.isfinite(values)
        at = np.array(sizes)[known]
        has_line = len(set(at)) > 1
        infinity = metrics.extrapolate_to_infinity(at, values[known]) if has_line else np.nan
        found[name] = {"values": values.tolist(), "infinity": float(infinity)}
    return found


def select_and_score(model: Any, test: data.ImageData, ends: np.ndarray) -> dict[str, Any]:
    """Returns numbers of the images with the highest confidence, as in SADA-JEM's code.

    Frechet distance and inception score use different images, and the reference includes the test
    images.
    """
    ends = ends[np.isfinite(ends).all(axis=(1, 2, 3))]
    num_reference = len(model.distances.train.labels) + len(test.labels)
    report: dict[str, Any] = {"shares": SHARES, "num_reference": num_reference}
    if len(ends) < 2:
        return report
    images, logits = finite_images(ends), model.scores(ends)["logits"]
    reference = model.distances.train_and(test.images)
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


def _of_set(arrays: SampleArrays, name: str) -> dict[str, np.ndarray]:
    start = f"{name}_"
    return {key.removeprefix(start): arrays[key] for key in arrays if key.startswith(start)}


def _by_class(path: Path, found: SampleArrays, of_class: str) -> None:
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
