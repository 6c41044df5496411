"""Plots of the full evaluation of a joint energy model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from ebmjax.metrics import ReliabilityBins
from ebmjax.recipes.core.plots import INK, finish, legend, montage
from ebmjax.recipes.joint.robustness import NORMS

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
    figure, (upper, lower) = plt.subplots(
        2, 1, figsize=(5, 6), sharex=True, height_ratios=(3, 1), squeeze=True
    )
    reliability_diagram(upper, lower, bins)
    upper.set(
        ylabel="accuracy",
        title=f"accuracy {found['accuracy']:.1%}, ECE {found['ece']:.2%} ({len(bins.count)} bins)",
    )
    legend(upper)
    lower.set(ylabel="images")
    finish(figure, workdir / "plots" / "eval_reliability.png")


def reliability_diagram(upper: Axes, lower: Axes, bins: ReliabilityBins) -> None:
    """Draws accuracy and mean confidence of every bin, and its number of images below."""
    edges, accuracy, count = (np.asarray(x) for x in (bins.edges, bins.accuracy, bins.count))
    centres, width, is_filled = (edges[1:] + edges[:-1]) / 2, np.diff(edges), count > 0
    upper.plot([0, 1], [0, 1], color="0.6", lw=1, ls="--", label="perfectly calibrated")
    upper.bar(centres, accuracy, width, color=INK, alpha=0.25, edgecolor=INK, label="accuracy")
    confidence = np.asarray(bins.confidence)
    upper.plot(
        confidence[is_filled], accuracy[is_filled], "o", ms=4, color="C1", label="mean of the bin"
    )
    upper.set(ylim=(0, 1.02))
    lower.bar(centres, count, width, color=INK)
    lower.set(xlabel="confidence", xlim=(0, 1), yscale="symlog")


def ood(workdir: Path, tested: Samples, others: dict[str, Samples]) -> None:
    """Draws ``eval_ood.png``: histograms of the three scores, for the tested and other sets."""
    figure, axes = plt.subplots(1, len(tested), figsize=(4.5 * len(tested), 3.6))
    for axis, name in zip(axes, tested, strict=True):
        sets = {"in distribution": tested[name]}
        sets |= {key: theirs[name] for key, theirs in others.items()}
        _histograms(axis, {key: values[np.isfinite(values)] for key, values in sets.items()})
        axis.set(xlabel=name.replace("_", " "), yticks=[], ylabel="density")
    legend(axes[0])
    finish(figure, workdir / "plots" / "eval_ood.png")


def _histograms(axis: Axes, sets: Samples) -> None:
    """Draws each set on the same bins, the first filled. Tails beyond 1 % share the outer bins."""
    together = np.concatenate(list(sets.values()))
    if not together.size:
        return
    low, high = np.percentile(together, (1, 99))
    edges = np.linspace(low, high + 1e-6 * (1 + abs(high)), 41)
    for i, (name, values) in enumerate(sets.items()):
        style: Any = {"histtype": "step", "color": f"C{i}"}
        if not i:
            style = {"histtype": "stepfilled", "color": INK, "alpha": 0.35}
        inside = np.clip(values, edges[0], edges[-1])
        axis.hist(inside, edges, density=True, label=name.replace("_", " "), lw=1.2, **style)


def robustness(workdir: Path, report: dict[str, Any]) -> None:
    """Draws ``eval_robustness.png``: accuracy against the attack's radius in both norms."""
    norms = [norm for norm in NORMS if norm in report]
    if not norms:
        return
    figure, axes = plt.subplots(1, len(norms), figsize=(4.2 * len(norms), 3.4), squeeze=False)
    protocol = report["protocol"]
    for axis, norm in zip(axes.flat, norms, strict=True):
        axis.plot(*robustness_curve(report[norm]), "o-", color=INK, ms=4, label="as it is")
        if "refined" in report:
            refined = robustness_curve(report["refined"][norm])
            axis.plot(*refined, "o--", color="C1", ms=4, label="refined")
            legend(axis)
        robustness_axis(axis, norm)
    figure.suptitle(
        f"PGD, {protocol['num_steps']} steps, {protocol['num_restarts']} restart(s), "
        f"{protocol['num_images']} images",
        fontsize=9,
    )
    finish(figure, workdir / "plots" / "eval_robustness.png")


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
        figure, axes = plt.subplots(1, len(panels), figsize=(5 * len(panels), 5.7), squeeze=False)
        for axis, (title, images) in zip(axes.flat, panels.items(), strict=True):
            _grid(axis, images, COLUMNS, title)
        finish(figure, workdir / "plots" / "eval_samples.png")
    for name, title in BY_CLASS.items():
        if len(sets.get(name, {}).get("images", ())):
            _by_class(workdir / "plots" / f"eval_{name}.png", sets[name], title)


def _by_class(path: Path, found: Samples, of_class: str) -> None:
    """Draws a row a class, sorted by log p(x) on the left and by p(y|x) on the right."""
    classes, counts = np.unique(found["labels"], return_counts=True)
    columns = min(2 * COLUMNS, int(counts.max()))
    caption = _caption(columns, int(counts.max()), "of" if np.ptp(counts) == 0 else "of up to")
    height = 1.0 + 0.42 * len(classes)
    width = max(0.8 * columns + 2, 7.0)  # of two titles
    figure, axes = plt.subplots(1, 2, figsize=(width, height), squeeze=True)
    for axis, field, title in zip(
        axes,
        ("log_density", "class_probability"),
        (f"{of_class}, by log p(x)", f"{of_class}, by p(y|x)"),
        strict=True,
    ):
        shape = found["images"].shape[1:]
        sheet = np.full((len(classes), columns, *shape), 255, np.uint8)  # white where there is none
        for row, label in zip(sheet, classes, strict=True):
            (members,) = np.nonzero(found["labels"] == label)
            chosen = members[_extremes(found[field][members], columns)]
            row[: len(chosen)] = found["images"][chosen]
        _grid(axis, sheet.reshape(-1, *shape), columns, title + caption)
        side = shape[0] + 1
        axis.set_yticks(side * (np.arange(len(classes)) + 0.5), [str(label) for label in classes])
    finish(figure, path)


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


def _grid(axis: Axes, images: np.ndarray, columns: int, title: str) -> None:
    axis.imshow(montage(images, columns), interpolation="nearest")
    axis.set_title(title, fontsize=9)
    axis.set(xticks=[], yticks=[])


def landscape(workdir: Path, coordinates: np.ndarray, energies: np.ndarray) -> None:
    """Draws ``eval_landscape.png``: contours of the mean energy around the trained parameters."""
    figure, axis = plt.subplots(figsize=(5, 4.2))
    contours(axis, coordinates, energies)
    finish(figure, workdir / "plots" / "eval_landscape.png")


def contours(
    axis: Axes, coordinates: np.ndarray, energies: np.ndarray, levels: int | np.ndarray = 24
) -> None:
    """Draws a landscape, with the colour scale of the increasing ``levels`` if given.

    Energies that are not finite are left out.
    """
    shown = np.ma.masked_invalid(energies)
    if shown.count() and np.ptp(shown.compressed()) > 0:
        filled = axis.contourf(coordinates, coordinates, shown, levels=levels, cmap="viridis")
        plt.colorbar(filled, ax=axis, label="mean energy, nats")
    axis.plot(0, 0, "+", color="white", ms=10)
    axis.set(xlabel="first direction", ylabel="second direction", aspect="equal")
