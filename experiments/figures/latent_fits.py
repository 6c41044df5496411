"""Table of the parabolas of figures 5, 10 and 12, beside simpler curves.

The thesis concludes a law from parabolas through three to four points. A parabola fits any three
points. It is evidence only if it predicts left-out points better than a line."""

from collections.abc import Sequence

import numpy as np
from numpy.polynomial import Polynomial

from ebmjax.recipes.study.errors import line_of

from .latent_data import Absent, Points, Row, at_infinity, points, quadratic, regimes
from .latent_sweeps import SCORES, VARIANCES

HEADS = (
    "estimator",
    "regime",
    "score",
    "variance v",
    "points",
    "residual degrees of freedom",
    "a",
    "b",
    "c",
    "R²",
    "left out: parabola",
    "left out: line",
    "left out: constant",
)
NOTE = (
    "score = a v^2 + b v + c, least squares through the rows' means over repeats. Through three "
    "points a parabola passes exactly, whatever they are: no residual is left to judge it by. "
    '"left out": each point in turn is foretold by the curve through the others; the mean squared '
    "error, in squared units of the score. Where the parabola's is not the smallest, the points "
    "show no parabola."
)


def fit(found: Points) -> dict[str, float | None] | None:
    """Returns the parabola through n points by the last of ``HEADS``; None if there is none.

    R² is the share of the scores' variance that it explains. A number is None without a residual.
    """
    curve = quadratic(found)
    if curve is None:
        return None
    c, b, a = np.pad(curve.convert().coef, (0, 3))[:3]
    freedom = len(found.x) - 3
    unexplained = np.sum((found.y - curve(found.x)) ** 2) / np.sum((found.y - found.y.mean()) ** 2)
    errors = (left_out_error(found, degree) for degree in (2, 1, 0))
    numbers = (len(found.x), freedom, a, b, c, 1 - unexplained if freedom else None, *errors)
    return dict(zip(HEADS[4:], numbers, strict=True))


def left_out_error(found: Points, degree: int) -> float | None:
    """Returns the mean squared error of points predicted by the polynomial through the others.

    It is None if the others do not determine a polynomial of this degree.
    """
    errors = []
    for left_out in range(len(found.x)):
        x, y = np.delete(found.x, left_out), np.delete(found.y, left_out)
        if len(np.unique(x)) <= degree:
            return None
        errors.append(Polynomial.fit(x, y, degree)(found.x[left_out]) - found.y[left_out])
    return float(np.mean(np.square(errors)))


def table(rows: Sequence[Row], estimators: Sequence[str]) -> str:
    """Returns the fits of every regime of the swept estimators, in Markdown."""
    lines = [line for estimator in estimators for line in fits(rows, estimator)]
    return "\n".join([NOTE, "", line_of(HEADS), "|---" * len(HEADS) + "|", *lines]) + "\n"


def fits(rows: Sequence[Row], estimator: str) -> list[str]:
    """Returns an estimator's lines: every score against every variance, a line a regime."""
    try:
        found = regimes(rows, estimator)
    except Absent:
        return []
    lines = []
    for score in SCORES:
        for variance in VARIANCES:
            for regime, mine in found.items():
                numbers = fit(points(mine, variance, at_infinity(score)))
                if numbers is not None:
                    shown = ("no residual" if n is None else f"{n:.4g}" for n in numbers.values())
                    lines.append(line_of([estimator, regime, score, variance, *shown]))
    return lines
