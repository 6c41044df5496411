"""Plots of the full evaluation of a joint energy model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ebmjax.metrics import ReliabilityBins
from ebmjax.recipes.evaluators.plots import figure, histograms, legend, tiles
from ebmjax.recipes.models.joint.robustness import NORMS

Samples = dict[str, np.ndarray]

ROWS, COLUMNS = 10, 10
TITLES = {
    "fresh": "fresh chains, by log p(x)",
    "buffer": "replay buffer, by log p(x)",
}
BY_CLASS = {
    "conditional": "chains of a class",
    "buffer": "replay buffer by class",
}


def reliability(workdir: Path, bins: ReliabilityBins, found: dict[str, float]) -> None:
    """Draws ``eval_reliability.png``: accuracy against confidence, and the bins' counts."""
    path, ratios = workdir / "plots" / "eval_reliability.png", (3, 1)
    with figure(path, 2, size=(5, 3), sharex=True, height_ratios=ratios) as ((upper,), (lower,)):
        reliability_diagram(upper, lower, bins)
        accuracy, ece = f"accuracy {found['accuracy']:.1%}", f"ECE {found['ece']:.2%}"
        upper.set(ylabel="accuracy", title=f"{accuracy}, {ece} ({len(bins.count)} bins)")
        lower.set(ylabel="images")
        legend(upper.figure)


def reliability_diagram(upper: Axes, lower: Axes, bins: ReliabilityBins) -> None:
    """Draws accuracy and mean confidence of every bin, and its number of images below."""
    edges, accuracy, count = (np.asarray(x) for x in (bins.edges, bins.accuracy, bins.count))
    centres, width, is_filled = (edges[1:] + edges[:-1]) / 2, np.diff(edges), count > 0
    upper.plot([0, 1], [0, 1], color="0.6", ls="--", label="perfectly calibrated")
    upper.bar(centres, accuracy, width, color="C0", alpha=0.25, edgecolor="C0", label="accuracy")
    confidence = np.asarray(bins.confidence)
    upper.plot(confidence[is_filled], accuracy[is_filled], "o", color="C1", label="mean of the bin")
    upper.set(ylim=(0, 1.02))
    lower.bar(centres, count, width, color="C0")
    lower.set(xlabel="confidence", xlim=(0, 1), yscale="symlog")


def ood(workdir: Path, tested: Samples, others: dict[str, Samples]) -> None:
    """Draws ``eval_ood.png``: histograms of the three scores, for the tested and other sets."""
    with figure(workdir / "plots" / "eval_ood.png", 1, len(tested)) as (axes,):
        for axis, name in zip(axes, tested, strict=True):
            sets = {"in distribution": tested[name]}
            histograms(axis, sets | {key: theirs[name] for key, theirs in others.items()})
            axis.set(xlabel=name.replace("_", " "))
        legend(axes[0].figure)


def robustness(workdir: Path, report: dict[str, Any]) -> None:
    """Draws ``eval_robustness.png``: accuracy against the attack's radius in both norms."""
    norms = [norm for norm in NORMS if norm in report]
    if not norms:
        return
    protocol = report["protocol"]
    with figure(workdir / "plots" / "eval_robustness.png", 1, len(norms)) as (axes,):
        for axis, norm in zip(axes, norms, strict=True):
            axis.plot(*robustness_curve(report[norm]), "o-", label="as it is")
            if "refined" in report:
                axis.plot(*robustness_curve(report["refined"][norm]), "o--", label="refined")
            robustness_axis(axis, norm)
        if "refined" in report:
            legend(axes[0].figure)
        axes[0].figure.suptitle(
            f"PGD, {protocol['num_steps']} steps, {protocol['num_restarts']} restart(s), "
            f"{protocol['num_images']} images"
        )


def robustness_curve(by_level: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray]:
    """Returns radii in levels of 255 and accuracies, for one norm of a report."""
    return np.array([float(level) for level in by_level]), np.array(list(by_level.values()))


def robustness_axis(axis: Axes, norm: str) -> None:
    """Sets names and scale for ``robustness_curve``."""
    axis.set(xlabel=f"{norm} radius / 255", ylabel="robust accuracy", ylim=(-0.02, 1.02))


def samples(workdir: Path, sets: dict[str, Samples]) -> None:
    """Draws ``eval_samples.png``, and the sets of ``BY_CLASS`` with a row a class.

    Starts are shown beside fresh chains.
    """
    panels = {}
    for name, title in TITLES.items():
        found = sets.get(name)
        if found is not None and len(found["images"]):
            chosen = _extremes(found["log_density"], ROWS * COLUMNS)
            caption = _caption(len(chosen), len(found["images"]))
            panels[title + caption] = found["images"][chosen]
            if name == "fresh":
                panels["where these chains started\nin the same order"] = found["start_images"][
                    chosen
                ]
    if panels:
        path = workdir / "plots" / "eval_samples.png"
        with figure(path, 1, len(panels), size=(5, 5.7)) as (axes,):
            for axis, (title, images) in zip(axes, panels.items(), strict=True):
                tiles(axis, images, COLUMNS, title)
    for name, title in BY_CLASS.items():
        if len(sets.get(name, {}).get("images", ())):
            _by_class(workdir / "plots" / f"eval_{name}.png", sets[name], title)


def _by_class(path: Path, found: Samples, of_class: str) -> None:
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
                chosen = members[_extremes(found[field][members], columns)]
                row[: len(chosen)] = found["images"][chosen]
            title = f"{of_class}, by {by}{caption}"
            tiles(axis, sheet.reshape(-1, *shape), columns, title, [*map(str, classes)])
            axis.set_ylabel("class")


def _caption(num: int, total: int, of: str = "of") -> str:
    """Returns the caption of ``_extremes``."""
    if total <= num:
        return "\nhighest first"
    return f"\nthe {num // 2} highest, then the {num - num // 2} lowest {of} {total}"


def _extremes(values: np.ndarray, num: int) -> np.ndarray:
    """Returns indices by falling value: all, or the ``num // 2`` highest and the lowest ones."""
    order = np.argsort(-values, stable=True)
    if len(order) <= num:
        return order
    return np.concatenate([order[: num // 2], order[len(order) - (num - num // 2) :]])


def landscape(workdir: Path, coordinates: np.ndarray, energies: np.ndarray) -> None:
    """Draws ``eval_landscape.png``: contours of the mean energy around the trained parameters."""
    path = workdir / "plots" / "eval_landscape.png"
    with figure(path, size=(5, 4.2)) as ((axis,),):
        contours(axis, coordinates, energies)


def contours(
    axis: Axes, coordinates: np.ndarray, energies: np.ndarray, levels: int | np.ndarray = 24
) -> None:
    """Draws a landscape, with the colour scale of the increasing ``levels`` if given.

    Energies that are not finite are left out.
    """
    shown = np.ma.masked_invalid(energies)
    if shown.count() and np.ptp(shown.compressed()) > 0:
        filled = axis.contourf(coordinates, coordinates, shown, levels=levels, cmap="viridis")
        axis.figure.colorbar(filled, ax=axis, label="mean energy, nats")
    axis.plot(0, 0, "+", color="white", ms=10)
    axis.set(xlabel="first direction", ylabel="second direction", aspect="equal")
