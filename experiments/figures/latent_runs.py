"""Figures of thermodynamic integration that show runs: schedules, losses, samples, cost."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax.recipes.evaluators.plots import by_step, figure, shades, shape
from ebmjax.recipes.study.figures import draw_tiles

from .latent_data import BATCH_SIZE, Absent, Row, at_infinity, series, variants
from .latent_sweeps import SCORES, title

COLUMNS = 5
GRID_SIDE = 6
COSTS = {
    "train_seconds": "seconds of training, one repeat (steps times a gradient's, and the pilot's)",
    "flops_per_step": "floating-point operations a gradient, one repeat",
}


def schedules(rows: Sequence[Row], estimator: str, path: Path) -> None:
    """Draws Fig. 1: the powers against their index."""
    swept = series(rows, estimator)
    with figure(path, size=(5.5, 4), has_legend=True) as ((axes,),):
        for row, shade in zip(swept, shades(len(swept)), strict=True):
            powers, _ = row.mean_log_likelihoods()
            axes.plot(range(len(powers)), powers, "o-", color=shade, label=row.label)
        axes.set(xlabel="index i", ylabel="power t")


def trapezia(rows: Sequence[Row], estimator: str, path: Path) -> None:
    """Draws Fig. 2: E_t along the schedule and the integral, for the thesis's p = 0.3 and 3."""
    swept = series(rows, estimator)
    shown = (_nearest(swept, 0.3), _nearest(swept, 3.0))
    with figure(path, 1, 2, size=(4.5, 3.8), title=title(swept)) as (panels,):
        for axes, row in zip(panels, shown, strict=True):
            powers, values = row.mean_log_likelihoods()
            floor = np.nanmin(values)
            for i in range(len(powers) - 1):
                edge = powers[i : i + 2]
                axes.fill_between(edge, values[i : i + 2], floor, color="C0", alpha=0.12, ec="C0")
            axes.plot(powers, values, "o-")
            axes.set(xlabel="power t", ylabel="E_t [log p(x|z)] of test images, nats")
            axes.set_title(row.label)


def losses(rows: Sequence[Row], estimator: str, path: Path) -> None:
    """Draws Fig. 9: the surrogate loss of every row of a sweep, a line a repeat.

    Each row has a separate axis, because losses of different rows differ by meaningless offsets.
    The mean is over repeats that did not diverge.
    """
    swept = series(rows, estimator)
    options: Any = {"size": (3.6, 2.6), "title": title(swept), "has_legend": True}
    with figure(path, *shape(len(swept), COLUMNS), **options) as grid:
        for axes, row in zip(grid.flat, swept, strict=False):
            steps, values = row.loss()
            axes.plot(steps, values, lw=0.4, color="C0", alpha=0.35)
            sound = values[:, np.isfinite(values).all(axis=0)]
            if sound.size:
                axes.plot(steps, sound.mean(axis=1), color="C1", label="mean")
            by_step(axes, "surrogate loss")
            axes.set_title(row.label)


def sweep_samples(rows: Sequence[Row], estimator: str, path: Path) -> None:
    """Draws Fig. 20: samples at the end of training, a grid a row of the sweep."""
    _grids(path, series(rows, estimator))


def variant_samples(rows: Sequence[Row], estimator: str, path: Path) -> None:
    """Draws Fig. 11: the same for rows that change more than p, after the reference, p = 6."""
    _grids(path, [_nearest(series(rows, estimator), 6.0), *variants(rows, estimator)])


def samples_by_score(rows: Sequence[Row], path: Path) -> None:
    """Draws Figs. 7 and 8: every row's samples, the lowest KID_inf first."""
    found = sorted(_sound(rows), key=lambda row: find_shown_scores(row)[0])
    _grids(path, found, with_estimator=True)


def find_shown_scores(row: Row) -> tuple[float, float]:
    """Returns KID_inf with the RBF kernel and FID_inf of the shown repeat."""
    _, repeat = row.samples(at_infinity("kid_rbf"))
    kid, fid = (row.values(at_infinity(score))[repeat] for score in ("kid_rbf", "fid"))
    return float(kid), float(fid)


def costs(rows: Sequence[Row], name: str, path: Path) -> None:
    """Draws Figs. 14 and 15: a bar a row."""
    found = cost_values(rows, name)
    with figure(path, size=(8, 0.28 * len(found) + 1.2)) as ((axes,),):
        bars = axes.barh(list(found), list(found.values()))
        axes.bar_label(bars, fmt="%.3g", padding=2)
        axes.invert_yaxis()
        axes.set(xlabel=COSTS[name], xmargin=0.12)


def cost_values(rows: Sequence[Row], name: str) -> dict[str, float]:
    """Returns the cost of rows that have it, averaged over seeds; raises Absent if none has."""
    found = {}
    for row in sorted(rows, key=lambda row: (row.estimator, row.exponent, row.config[BATCH_SIZE])):
        mean = row.values(f"cost.{name}").mean()
        if np.isfinite(mean):
            found[f"{row.estimator}, {row.label}"] = float(mean)
    if not found:
        raise Absent(f"no row has cost.{name}")
    return found


def _nearest(swept: Sequence[Row], exponent: float) -> Row:
    """Returns the row with the nearest exponent, as a ratio."""
    return min(swept, key=lambda row: abs(np.log(row.exponent / exponent)))


def _grids(path: Path, rows: Sequence[Row], *, with_estimator: bool = False) -> None:
    rows = _sound(rows)
    text = f"{SCORES['kid_rbf']}, and {SCORES['fid']}; {title(rows, features=True)}"
    found = {}
    for row in rows:
        images, repeat = row.samples(at_infinity("kid_rbf"))
        kid, fid = find_shown_scores(row)
        name = f"{row.estimator}\n{row.label}" if with_estimator else row.label
        caption = f"{name}\nrepeat {repeat}: KID {1000 * kid:.3g}e-3, FID {fid:.3g}"
        found[caption] = images[: GRID_SIDE**2]
    draw_tiles(path, found, GRID_SIDE, most=COLUMNS, size=(2.4, 2.9), title=text)


def _sound(rows: Sequence[Row]) -> list[Row]:
    found = [row for row in rows if np.isfinite(row.values(at_infinity("kid_rbf"))).any()]
    if not found:
        raise Absent("it takes a row with a finite KID_inf")
    return found
