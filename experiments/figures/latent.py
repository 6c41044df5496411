"""Draws the figures of the thermodynamic-integration thesis into a study's folder.

FOLDER/figures/ gets fig10_*.png, KID against the variance, and quadratic_fits.md. A row's name says
its estimator and what differs: "tempered p=0.1 N_t=30". A sweep has the rows that differ in p
alone, or in the batch size for vanilla learning.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Polynomial

from ebmjax.recipes.config.errors import flatten
from ebmjax.recipes.evaluators.plots import figure
from ebmjax.recipes.study.cells import Cell, find_runs
from ebmjax.recipes.study.table import markdown_table

# The thesis's definition is first; the last leaves out the prior's coordinates, exactly 0 in some
# estimators.
VARIANCES = {
    "coordinate_gradient_variance": "gradient variance over\ncoordinates (the thesis's)",
    "gradient_variance": "gradient variance over\nbatches and chains",
    "generator_coordinate_gradient_variance": "gradient variance over\nthe generator's coordinates",
}
KID = "generation.fresh.at_sizes.kid_rbf"
ESTIMATORS = ("frozen_prior", "tempered")
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
    runs: list[Cell]

    @property
    def swept(self) -> float:
        """Exponent p, or the batch size of vanilla learning; NaN if something else differs, too."""
        found = re.fullmatch(r"(?:p|batch)=([\d.]+)", self.changes)
        return float(found[1]) if found else float("nan")

    def values(self, name: str) -> np.ndarray:
        """Returns the number ``name`` of every seed; NaN for one without it."""
        return np.array([flatten(run.numbers()).get(name) for run in self.runs], float)


def gather(folder: Path) -> list[Row]:
    """Returns the rows of a study's folder that have a finished run."""
    runs = find_runs(folder).items()
    found = {name: [one for one in every if one.status == "done"] for name, every in runs}
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


def means(rows: Sequence[Row], variance: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns means and deviations (2, rows) of a variance and KID, over seeds with both."""
    mean, spread = [], []
    for row in rows:
        pair = np.stack([row.values(variance), row.values(KID)])
        pair = pair[:, np.isfinite(pair).all(axis=0)]
        mean.append(pair.mean(axis=1) if pair.size else (np.nan, np.nan))
        spread.append(pair.std(axis=1, ddof=1) if pair.shape[1] > 1 else (0.0, 0.0))
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


def draw(folder: Path) -> None:
    """Writes the figures that the folder has rows for, and the parabolas as a table."""
    rows, target = gather(folder), folder / "figures"
    target.mkdir(exist_ok=True)
    lines = []
    for estimator in ESTIMATORS:
        found = regimes(rows, estimator)
        for regime, mine in found.items():
            (x, y), _ = means(mine, next(iter(VARIANCES)))
            numbers = [f"{one:.4g}" for one in fit(x[np.isfinite(x)], y[np.isfinite(x)])]
            lines.append([estimator, regime, *numbers])
        if found:
            _draw_scatter(target / f"fig10_kid_rbf_{estimator}.png", found)
    text = [NOTE, "", *markdown_table(HEADS, lines), ""]
    (target / "quadratic_fits.md").write_text("\n".join(text))


def _draw_scatter(path: Path, found: dict[str, list[Row]]) -> None:
    """Draws KID against the variances: a colour and a parabola for each regime."""
    with figure(path, 1, len(VARIANCES), size=(5.5, 4.6), has_legend=True) as (panels,):
        for axes, (name, label) in zip(panels, VARIANCES.items(), strict=True):
            axes.set(xlabel=label, ylabel="KID_inf, RBF kernel")
            for regime, mine in found.items():
                points, (x_error, y_error) = means(mine, name)
                drawn = axes.errorbar(
                    *points, xerr=x_error, yerr=y_error, marker="o", ls="", capsize=2, label=regime
                )
                for row, place in zip(mine, points.T, strict=True):
                    axes.annotate(
                        row.changes, place, (4, 4), textcoords="offset points", fontsize=6
                    )
                x, y = points[:, np.isfinite(points[0])]
                if regime != "variants" and len(np.unique(x)) > 2:
                    curve = Polynomial.fit(x, y, 2).linspace(100)
                    axes.plot(*curve, color=drawn[0].get_color(), lw=1, ls="--")
