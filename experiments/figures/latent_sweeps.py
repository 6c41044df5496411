"""Figures of thermodynamic integration that compare two numbers of every row."""

from collections.abc import Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ebmjax.recipes.evaluators.plots import COLOURS, LINES, figure

from .latent_data import (
    BATCH_SIZE,
    Absent,
    Points,
    Row,
    at_infinity,
    points,
    quadratic,
    regimes,
    series,
    variants,
)

# The thesis's definition is first; the last leaves out the prior's coordinates, exactly 0 in some
# estimators.
VARIANCES = {
    "coordinate_gradient_variance": "gradient variance over\ncoordinates (the thesis's)",
    "gradient_variance": "gradient variance over\nbatches and chains",
    "generator_coordinate_gradient_variance": "gradient variance over\nthe generator's coordinates",
}
SCORES = {
    "kid_rbf": r"$\mathrm{KID}_\infty$, RBF kernel",
    "kid_polynomial": r"$\mathrm{KID}_\infty$, cubic kernel",
    "fid": r"$\mathrm{FID}_\infty$",
}
ESTIMATORS = {
    "frozen_prior": "frozen_prior (the prior never learns, as published)",
    "tempered": "tempered (the prior learns by the contrast)",
}


def boxes(rows: Sequence[Row], estimator: str, path: Path) -> None:
    """Draws Figs. 3 and 4 (16 and 17): the variances of a sweep, a box a row over repeats."""
    swept = series(rows, estimator)
    with figure(path, 1, len(VARIANCES), size=(4.5, 3.8), title=title(swept)) as (panels,):
        for axes, (name, label) in zip(panels, VARIANCES.items(), strict=True):
            names, values = box_values(swept, name)
            axes.boxplot(values, tick_labels=names, medianprops={"color": "C0"}, showfliers=False)
            for place, found in enumerate(values, start=1):
                axes.plot(np.full(len(found), place), found, "o", color="C0", alpha=0.5)
            axes.set(xlabel="batch size" if estimator == "vanilla" else "exponent p", ylabel=label)


def title(rows: Sequence[Row], *, features: bool = False) -> str:
    """Returns the estimator, if single, the number of repeats, and the features.

    Raises:
      Absent: if there are no rows; for ``features``, if the evaluations have no images.
    """
    if not rows:
        raise Absent("no run has finished")
    names = {row.estimator for row in rows}
    parts = [*(ESTIMATORS.get(name, name) for name in names if len(names) == 1)]
    parts += [f"{max(len(row.values('coordinate_gradient_variance')) for row in rows)} repeats"]
    if features:
        if "generation" not in rows[0].evaluations[0]:
            raise Absent("nothing was generated (config.eval.generation.num_images)")
        parts += [f"features: {rows[0].evaluations[0]['generation']['extractor']['name']}"]
    return "; ".join(parts)


def box_values(swept: Sequence[Row], name: str) -> tuple[list[str], list[np.ndarray]]:
    """Returns each box's label, with the swept value and lost repeats, and its finite values."""
    names, boxed = [], []
    for row in swept:
        values = row.values(name)
        boxed.append(values[np.isfinite(values)])
        value = row.config[BATCH_SIZE] if row.estimator == "vanilla" else row.exponent
        lost = len(values) - len(boxed[-1])
        names.append(f"{value:g}" + (f"\n({lost} lost)" if lost else ""))
    return names, boxed


def against_variance(
    rows: Sequence[Row], estimator: str, path: Path, score: str, *, is_collated: bool = False
) -> None:
    """Draws a score against the variances: a panel a regime, Figs. 5 and 12 (18, 13).

    With ``is_collated`` all regimes share a panel, Fig. 10 (19).
    """
    found = regimes(rows, estimator)
    heading = title(series(rows, estimator), features=True)
    num = len(VARIANCES)
    shape, size = ((1, num), (5.5, 4.6)) if is_collated else ((num, len(found)), (3.7, 3.2))
    with figure(path, *shape, size=size, title=heading, has_legend=is_collated) as grid:
        for i, (variance, label) in enumerate(VARIANCES.items()):
            for j, ((regime, mine), colour) in enumerate(zip(found.items(), COLOURS, strict=False)):
                axes = grid[0, i] if is_collated else grid[i, j]
                mean = points(mine, variance, at_infinity(score))
                _scatter(axes, mean, colour, label=regime * is_collated)
                axes.set(xlabel=label, ylabel=SCORES[score], title="" if is_collated else regime)


def overlaid(rows: Sequence[Row], estimator: str, path: Path, score: str) -> None:
    """Draws Fig. 6: rows that change more than p, over the sweep of p; circles their base."""
    changed = variants(rows, estimator)
    heading = title(series(rows, estimator), features=True)
    _, low, high, *_ = regimes(rows, estimator).items()
    panels = [
        (regime, mine, [row for row in changed if (row.exponent <= 1) == (regime == low[0])])
        for regime, mine in (low, high)
    ]
    panels = [panel for panel in panels if panel[2]]
    colours = {row.label: style["color"] for row, style in zip(changed, cycle(LINES), strict=False)}
    options: Any = {"size": (5.5, 3.75), "title": heading, "has_legend": True}
    with figure(path, len(VARIANCES), len(panels), **options) as grid:
        for line, (variance, label) in zip(grid, VARIANCES.items(), strict=True):
            for axes, (regime, mine, other) in zip(line, panels, strict=True):
                at = partial(points, x_name=variance, y_name=at_infinity(score))
                _scatter(axes, at(mine), COLOURS[1 if regime == low[0] else 2])
                bases = [row for row in mine if row.exponent in {one.exponent for one in other}]
                axes.plot(*at(bases)[1:3], "o", ms=16, mfc="none", mec="0.4")
                for row in other:
                    style = {"color": colours[row.label], "marker": "s", "label": row.label}
                    _errorbars(axes, at([row]), **style)
                axes.set(xlabel=label, ylabel=SCORES[score], title=regime)


def against_time(rows: Sequence[Row], path: Path) -> None:
    """Draws KID_inf and nats against training time, by row; the thesis has no such figure."""
    numbers = {
        at_infinity("kid_rbf"): SCORES["kid_rbf"],
        "evidence.ais.mean": "log evidence of test images by AIS, nats",
    }
    axis: dict[str, Any] = {"xlabel": "seconds of training, one repeat", "xscale": "log"}
    options: Any = {"title": title(rows, features=True), "has_legend": True}
    with figure(path, 1, 2, size=(7.5, 7), **options) as (panels,):
        for axes, (name, label) in zip(panels, numbers.items(), strict=True):
            for place, estimator in enumerate(sorted({row.estimator for row in rows})):
                mine = [row for row in rows if row.estimator == estimator]
                found = points(mine, "cost.train_seconds", name)
                _errorbars(axes, found, color=f"C{place}", label=estimator)
                _names(axes, found)
            axes.set(**axis, ylabel=label, xmargin=0.2)


def _scatter(axes: Axes, mean: Points, colour: str, label: str = "") -> None:
    """Draws means, spreads and the parabola through them."""
    _errorbars(axes, mean, color=colour, label=label)
    _names(axes, mean)
    curve = quadratic(mean)
    if curve is not None:
        axes.plot(*curve.linspace(100), color=colour, lw=1, ls="--")


def _names(axes: Axes, mean: Points) -> None:
    for row, x, y in zip(mean.rows, mean.x, mean.y, strict=True):
        axes.annotate(row.label, (x, y), (4, 4), textcoords="offset points", fontsize=6)


def _errorbars(axes: Axes, mean: Points, **style: Any) -> None:
    style = {"marker": "o", "ls": "", "capsize": 2, **style}
    axes.errorbar(mean.x, mean.y, xerr=mean.x_spread, yerr=mean.y_spread, **style)
