"""Figures of thermodynamic integration that show runs: schedules, losses, samples, cost."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ebmjax.recipes.core.plots import INK, legend, montage
from ebmjax.recipes.latent.figure_data import BATCH_SIZE, Absent, Row, series, variants
from ebmjax.recipes.latent.figure_sweeps import SCORES, title

GRID_SIDE = 6
COSTS = {
    "train_seconds": "seconds of training, one repeat (steps times a gradient's, and the pilot's)",
    "flops_per_step": "floating-point operations a gradient, one repeat",
}


def schedules(rows: Sequence[Row], estimator: str) -> Figure:
    """Draws Fig. 1: the powers against their index."""
    swept = series(rows, estimator)
    figure, axes = plt.subplots(figsize=(5.5, 4))
    for row, colour in zip(swept, _shades(len(swept)), strict=True):
        powers, _ = row.mean_log_likelihoods()
        axes.plot(range(len(powers)), powers, "o-", ms=3, lw=1.2, color=colour, label=row.label)
    axes.set(xlabel="index i", ylabel="power t")
    legend(axes)
    return figure


def trapezia(rows: Sequence[Row], estimator: str) -> Figure:
    """Draws Fig. 2: E_t along the schedule and the integral, for the thesis's p = 0.3 and 3."""
    swept = series(rows, estimator)
    shown = (_nearest(swept, 0.3), _nearest(swept, 3.0))
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.8))
    for axes, row in zip(panels, shown, strict=True):
        powers, values = row.mean_log_likelihoods()
        floor = np.nanmin(values)
        for i in range(len(powers) - 1):
            edge = powers[i : i + 2]
            axes.fill_between(edge, values[i : i + 2], floor, color=INK, alpha=0.12, ec=INK)
        axes.plot(powers, values, "o-", ms=3, lw=1.2, color=INK)
        axes.set(xlabel="power t", ylabel=r"$E_t\,\log p(x|z)$, nats, unseen images")
        axes.set_title(row.label)
    figure.suptitle(title(swept), fontsize=10)
    return figure


def losses(rows: Sequence[Row], estimator: str) -> Figure:
    """Draws Fig. 9: the surrogate loss of every row of a sweep, a line a repeat.

    Each row has a separate axis, because losses of different rows differ by meaningless offsets.
    The mean is over repeats that did not diverge.
    """
    swept = series(rows, estimator)
    figure, panels = _panels(len(swept), width=3.6, height=2.6)
    for axes, row in zip(panels, swept, strict=True):
        steps, values = row.loss()
        axes.plot(steps, values, lw=0.4, color=INK, alpha=0.35)
        sound = values[:, np.isfinite(values).all(axis=0)]
        if sound.size:
            axes.plot(steps, sound.mean(axis=1), lw=1.2, color="#d1495b", label="mean")
        axes.set(xlabel="step", ylabel="surrogate loss", title=row.label)
    legend(panels[0])
    figure.suptitle(title(swept), fontsize=10)
    return figure


def sweep_samples(rows: Sequence[Row], estimator: str) -> Figure:
    """Draws Fig. 20: samples at the end of training, a grid a row of the sweep."""
    return _grids(series(rows, estimator))


def variant_samples(rows: Sequence[Row], estimator: str) -> Figure:
    """Draws Fig. 11: the same for rows that change more than p, after the reference, p = 6."""
    return _grids([_nearest(series(rows, estimator), 6.0), *variants(rows, estimator)])


def samples_by_score(rows: Sequence[Row]) -> Figure:
    """Draws Figs. 7 and 8: every row's samples, the lowest KID_inf first."""
    found = sorted(_sound(rows), key=lambda row: shown_scores(row)[0])
    return _grids(found, with_estimator=True)


def shown_scores(row: Row) -> tuple[float, float]:
    """Returns KID_inf with the RBF kernel and FID_inf of the shown repeat."""
    _, repeat = row.samples("kid_rbf.infinity")
    kid, fid = (row.values(f"{score}.infinity")[repeat] for score in ("kid_rbf", "fid"))
    return float(kid), float(fid)


def costs(rows: Sequence[Row], name: str) -> Figure:
    """Draws Figs. 14 and 15: a bar a row."""
    found = cost_values(rows, name)
    figure, axes = plt.subplots(figsize=(8, 0.28 * len(found) + 1.2))
    bars = axes.barh(list(found), list(found.values()), color=INK)
    axes.bar_label(bars, fmt="%.3g", fontsize=7, padding=2)
    axes.invert_yaxis()
    axes.tick_params(labelsize=7)
    axes.set(xlabel=COSTS[name], xmargin=0.12)
    return figure


def cost_values(rows: Sequence[Row], name: str) -> dict[str, float]:
    """Returns the rows' cost by name, averaged over seeds; leaves out rows without it.

    Raises:
      Absent: if no row has it.
    """
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


def _grids(rows: Sequence[Row], *, with_estimator: bool = False) -> Figure:
    rows = _sound(rows)
    text = f"{SCORES['kid_rbf']}, and {SCORES['fid']}; {title(rows, features=True)}"
    figure, panels = _panels(len(rows), width=2.4, height=2.9)
    for axes, row in zip(panels, rows, strict=True):
        images, repeat = row.samples("kid_rbf.infinity")
        kid, fid = shown_scores(row)
        axes.imshow(montage(images[: GRID_SIDE**2], GRID_SIDE), interpolation="nearest")
        name = f"{row.estimator}\n{row.label}" if with_estimator else row.label
        axes.set_title(
            f"{name}\nrepeat {repeat}: KID {1000 * kid:.3g}e-3, FID {fid:.3g}", fontsize=7
        )
        axes.set(xticks=[], yticks=[])
    # Places the title in inches, because the usual place is too low in a tall figure.
    figure.suptitle(text, fontsize=8, y=1 - 0.05 / figure.get_figheight())
    return figure


def _sound(rows: Sequence[Row]) -> list[Row]:
    found = [row for row in rows if np.isfinite(row.values("kid_rbf.infinity")).any()]
    if not found:
        raise Absent("it takes a row with a finite KID_inf")
    return found


def _panels(num: int, *, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Returns a figure with ``num`` panels, at most five in a line."""
    columns = min(num, 5)
    lines = -(-num // columns)
    figure, grid = plt.subplots(
        lines, columns, figsize=(width * columns, height * lines + 0.4), squeeze=False
    )
    for axes in grid.flat[num:]:
        axes.set_axis_off()
    return figure, list(grid.flat[:num])


def _shades(num: int) -> list[tuple[float, ...]]:
    return [plt.get_cmap("viridis")(i / num) for i in range(num)]
