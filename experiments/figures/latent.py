"""Draws the figures of the thermodynamic-integration thesis into a study's folder.

FOLDER/figures/ gets fig10_*.png, the scores against the variance, and quadratic_fits.md. A row's
name says its estimator and what differs: "tempered p=0.1 N_t=30". A sweep has the rows that differ
in p alone, or in the batch size for vanilla learning.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from numpy.polynomial import Polynomial

from ebmjax.recipes.evaluators.plots import figure
from ebmjax.recipes.study.reader import StudyRun, find_done, row_names
from ebmjax.recipes.study.table import descend, markdown_table

# The thesis's definition is first; the last leaves out the prior's coordinates, exactly 0 in some
# estimators.
VARIANCES = {
    "coordinate_gradient_variance": "gradient variance over\ncoordinates (the thesis's)",
    "gradient_variance": "gradient variance over\nbatches and chains",
    "generator_coordinate_gradient_variance": "gradient variance over\nthe generator's coordinates",
}
SCORES = {"kid_rbf": "KID_inf, RBF kernel", "fid": "FID_inf"}
ESTIMATORS = ("frozen_prior", "tempered")
INFINITY = "generation.fresh.at_sizes.{}.infinity"
NAME = re.compile(r"([a-z_]+?)_((?:N_t|warm_start|[a-zA-Z]+)=.*)")
HEADS = ("estimator", "regime", "points", "parabola's a", "left out: parabola", "line", "constant")
NOTE = (
    'KID_inf against the thesis\'s variance. "left out": each row in turn is foretold by the curve '
    "through the others; the mean squared error. Three points lie on a parabola, whatever they are."
)


class Row(NamedTuple):
    """One row of a study: its name, what differs, and its finished runs."""

    estimator: str
    changes: str
    runs: list[StudyRun]

    @property
    def swept(self) -> float:
        """Exponent p, or the batch size of vanilla learning; NaN if something else differs, too."""
        found = re.fullmatch(r"(?:p|batch)=([\d.]+)", self.changes)
        return float(found[1]) if found else float("nan")

    def values(self, name: str) -> np.ndarray:
        """Returns the number ``name`` of every seed; NaN for one without it."""
        return np.array([descend(run.evaluation(), name) for run in self.runs], float)


def gather(folder: Path) -> list[Row]:
    """Returns the rows of a study's folder that have a finished run."""
    found = {name: find_done(folder, name) for name in row_names(folder)}
    named = {name: NAME.fullmatch(name) or (None, name, "") for name, runs in found.items() if runs}
    return [Row(one[1], one[2], found[name]) for name, one in named.items()]


def sweep(rows: Sequence[Row], estimator: str) -> list[Row]:
    """Returns the rows of an estimator's sweep, in order."""
    mine = [row for row in rows if row.estimator == estimator and np.isfinite(row.swept)]
    return sorted(mine, key=lambda row: row.swept)


def regimes(rows: Sequence[Row], estimator: str) -> dict[str, list[Row]]:
    """Returns the thesis's three regimes, and the rows of an estimator outside of its sweep."""
    powers = sweep(rows, estimator)
    every = {
        "vanilla": sweep(rows, "vanilla"),
        "0 < p ≤ 1": [row for row in powers if row.swept <= 1],
        "p > 1": [row for row in powers if row.swept > 1],
        "variants": [one for one in rows if one.estimator == estimator and one not in powers],
    }
    return {name: mine for name, mine in every.items() if mine}


def means(rows: Sequence[Row], x_name: str, y_name: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns means and standard deviations (2, rows), over seeds where both are finite."""
    pairs = [np.stack([row.values(x_name), row.values(y_name)]) for row in rows]
    pairs = [np.where(np.isfinite(pair).all(0), pair, np.nan) for pair in pairs]
    sound = [pair[:, np.isfinite(pair[0])] for pair in pairs]
    mean = [one.mean(1) if one.size else (np.nan, np.nan) for one in sound]
    spread = [one.std(1, ddof=1) if one.shape[1] > 1 else (0.0, 0.0) for one in sound]
    return np.array(mean).T, np.array(spread).T


def fit(x: np.ndarray, y: np.ndarray) -> list[float]:
    """Returns the number of points, a parabola's first coefficient, and left-out errors.

    They are mean squared errors by degree 2, 1 and 0; NaN where the other points are too few.
    """
    errors = []
    for degree in (2, 1, 0):
        off = []
        for i in range(len(x)):
            rest, values = np.delete(x, i), np.delete(y, i)
            has_enough = len(np.unique(rest)) > degree
            curve = Polynomial.fit(rest, values, degree) if has_enough else None
            off.append(curve(x[i]) - y[i] if curve else np.nan)
        errors.append(float(np.mean(np.square(off))))
    first = Polynomial.fit(x, y, 2).convert().coef[-1] if len(np.unique(x)) > 2 else np.nan
    return [len(x), float(first), *errors]


def table(rows: Sequence[Row]) -> str:
    """Returns the parabolas of every regime, beside simpler curves, in Markdown."""
    lines = []
    for estimator in ESTIMATORS:
        for regime, mine in regimes(rows, estimator).items():
            (x, y), _ = means(mine, next(iter(VARIANCES)), INFINITY.format("kid_rbf"))
            numbers = [f"{one:.4g}" for one in fit(x[np.isfinite(x)], y[np.isfinite(x)])]
            lines.append([estimator, regime, *numbers])
    return "\n".join([NOTE, "", *markdown_table(HEADS, lines), ""])


def against(
    path: Path, found: Mapping[str, list[Row]], names: Mapping[str, str], score: str
) -> None:
    """Draws a score against other numbers, Figs. 5, 6, 10 and 12: a colour a regime, a parabola."""
    with figure(path, 1, len(names), size=(5.5, 4.6), has_legend=True) as (panels,):
        for axes, (name, label) in zip(panels, names.items(), strict=True):
            for regime, mine in found.items():
                points, spreads = means(mine, name, INFINITY.format(score))
                _scatter(axes, points, spreads, regime, [row.changes for row in mine])
            axes.set(xlabel=label, ylabel=SCORES[score])


def _scatter(
    axes: Axes, points: np.ndarray, spreads: np.ndarray, label: str, names: Sequence[str]
) -> None:
    style: Any = {"marker": "o", "ls": "", "capsize": 2, "label": label}
    drawn = axes.errorbar(*points, xerr=spreads[0], yerr=spreads[1], **style)
    for name, place in zip(names, points.T, strict=True):
        axes.annotate(name, place, (4, 4), textcoords="offset points", fontsize=6)
    x, y = points[:, np.isfinite(points[0])]
    if label != "variants" and len(np.unique(x)) > 2:
        curve = Polynomial.fit(x, y, 2)
        axes.plot(*curve.linspace(100), color=drawn[0].get_color(), lw=1, ls="--")


def draw(folder: Path) -> None:
    """Writes the figures that the folder has rows for, and the parabolas as a table."""
    rows, target = gather(folder), folder / "figures"
    target.mkdir(exist_ok=True)
    if not rows:
        return
    (target / "quadratic_fits.md").write_text(table(rows))
    for estimator in ESTIMATORS:
        found = regimes(rows, estimator)
        for score in SCORES if found else ():
            against(target / f"fig10_{score}_{estimator}.png", found, VARIANCES, score)
