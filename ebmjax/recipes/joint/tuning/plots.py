"""Results of the SVGD thesis's tuning study: a run's averages, the table, a plot a sweep."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from ebmjax.recipes.core.plots import finish
from ebmjax.recipes.core.workdir import read_rows
from ebmjax.recipes.joint.tuning.sweeps import Setting, Study

AVERAGED_ROWS = 20
SMOOTHED_ROWS = 10

TITLES = {"literal": "literal objective (the thesis's)", "corrected": "corrected objective"}
FIELDS = {
    "step_size": "step size",
    "num_particles": "particles",
    "num_steps": "steps",
    "smoothing": "smoothing",
    "bandwidth": "bandwidth",
}
PANELS = (
    ("accuracy", "accuracy on the ten images", {}),
    ("cross_entropy", "classification loss, nats", {"yscale": "log"}),
    ("generative_loss", "generative loss, nats", {"yscale": "symlog"}),
    ("loss", "total loss, nats", {"yscale": "symlog"}),
    ("chain_displacement", "mean squared\ndisplacement a pixel", {"yscale": "log"}),
    ("negative_entropy", "entropy of the\nparticles, nats", {}),
)
STYLES = {"softmax": "-", "argmax": "--", "in_place": ":"}


def column(rows: list[dict[str, Any]], name: str) -> np.ndarray:
    """One number a row, NaN for null; "generative_loss" is the loss less its other term."""
    if name == "generative_loss":  # both terms have weight 1
        return column(rows, "loss") - column(rows, "cross_entropy")
    return np.array([row[name] for row in rows], dtype=float)


def averages(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Means over the last rows, the median displacement of all, and the number of sound updates.

    The last rows of a run that diverged are those of its last sound parameters.
    """
    means = {
        name: float(np.mean(column(rows[-AVERAGED_ROWS:], name)))
        for name in ("accuracy", "cross_entropy", "generative_loss", "negative_entropy")
    }
    displacement = float(np.median(column(rows, "chain_displacement")))
    sound_updates = rows[-1]["step"] - rows[-1]["skipped"]
    return {**means, "chain_displacement": displacement, "sound_updates": sound_updates}


def draw(study: Study, folder: Path, num_seeds: int) -> str:
    """Writes table.json, table.md and a plot of each sweep; returns the table."""
    found = {
        setting.name: [_summary(folder / one.name) for one in _seeds(setting, num_seeds)]
        for setting in study.settings(1)
    }
    (folder / "table.json").write_text(json.dumps(found, indent=2) + "\n")
    text = "\n\n".join(_table(study, sweep, found) for sweep in study.sweeps) + "\n"
    (folder / "table.md").write_text(text)
    for sweep in study.sweeps:
        _figure(study, sweep, folder, num_seeds)
    return text


def _seeds(setting: Setting, num_seeds: int) -> Iterable[Setting]:
    return [setting._replace(seed=seed) for seed in range(num_seeds)]


def _summary(path: Path) -> dict[str, Any]:
    return json.loads((path / "summary.json").read_text())


COLUMNS = {
    "accuracy": "{:.2f}",
    "cross_entropy": "{:.3g}",
    "generative_loss": "{:.3g}",
    "chain_displacement": "{:.1e}",
    "negative_entropy": "{:.0f}",
    "sound_updates": "{:.0f}",
}


def _table(study: Study, sweep: str, found: dict[str, list[dict[str, Any]]]) -> str:
    """Means over seeds of one sweep, with their standard deviations, as Markdown."""
    field = study.sweeps[sweep].field
    heads = [
        "objective",
        FIELDS[field],
        "replacement",
        *(name.replace("_", " ") for name in COLUMNS),
    ]
    lines = [
        f"{_frozen(study, sweep)}.",
        "",
        f"| {' | '.join(heads)} |",
        "|---" * len(heads) + "|",
    ]
    for objective in TITLES:
        for setting in study.lines(sweep, objective):
            summaries = found[setting.name]
            numbers = [
                _mean(style, [one[name] for one in summaries]) for name, style in COLUMNS.items()
            ]
            cells = [objective, f"{getattr(setting, field):g}", setting.replacement, *numbers]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _mean(style: str, values: list[float | None]) -> str:
    """The mean, with the standard deviation of several; "-" where a number was not finite."""
    if None in values:
        return "-"
    mean = style.format(np.mean(np.array(values, float)))
    return mean if len(values) == 1 else f"{mean} ± {np.std(np.array(values, float), ddof=1):.2g}"


def _figure(study: Study, sweep: str, folder: Path, num_seeds: int) -> None:
    """``<sweep>.png``: a row of panels for each measure, a column for each objective."""
    figure, grid = plt.subplots(len(PANELS), len(TITLES), figsize=(9, 12), squeeze=False)
    for axes, (objective, title) in zip(grid.T, TITLES.items(), strict=True):
        axes[0].set_title(title, fontsize=10)
        for setting in study.lines(sweep, objective):
            runs = [read_rows(folder / one.name) for one in _seeds(setting, num_seeds)]
            _curves(axes, runs, _style(study, sweep, setting))
        for axis, (_, label, scale) in zip(axes, PANELS, strict=True):
            axis.set(ylabel=label, **scale)
            axis.tick_params(labelsize=7)
            axis.yaxis.label.set_size(8)
        axes[-1].set_xlabel("update of the parameters (epoch of ten images)", fontsize=8)
    # The literal column has room, and the colours are the same in both.
    grid[1, 0].legend(
        fontsize=6, frameon=False, title=FIELDS[study.sweeps[sweep].field], title_fontsize=7
    )
    seeds = "" if num_seeds == 1 else f"\nMean of {num_seeds} seeds, and their range."
    figure.suptitle(
        f"{_frozen(study, sweep)}.\nSolid: softmax, dashed: argmax, dotted: in place.{seeds}",
        fontsize=9,
    )
    finish(figure, folder / f"{sweep}.png")


def _style(study: Study, sweep: str, setting: Setting) -> dict[str, Any]:
    """Colour by value, dashes by replacement; the legend names values once."""
    field, values, _ = study.sweeps[sweep]
    value = getattr(setting, field)
    colour = plt.get_cmap("viridis")(values.index(value) / len(values))
    label = f"{value:g}" if setting.replacement == "softmax" else None
    return {"color": colour, "ls": STYLES[setting.replacement], "lw": 1.0, "label": label}


def _curves(axes: Iterable[Axes], runs: list[list[dict[str, Any]]], style: dict[str, Any]) -> None:
    """The mean over seeds and their range, up to where the first of them diverged."""
    length = min(len(rows) for rows in runs)
    steps = [row["step"] for row in runs[0][:length]]
    for axis, (name, _, _) in zip(axes, PANELS, strict=True):
        values = np.array([column(rows, name)[:length] for rows in runs])
        if name == "accuracy":
            values = np.array([_smoothed(one) for one in values])
        if len(values) > 1:
            low, high = np.min(values, axis=0), np.max(values, axis=0)
            axis.fill_between(steps, low, high, color=style["color"], alpha=0.1, lw=0)
        axis.plot(steps, np.mean(values, axis=0), **style)


def _smoothed(values: np.ndarray) -> np.ndarray:
    """The mean of each value and those before it, ``SMOOTHED_ROWS`` at most."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(sums))
    starts = np.maximum(ends - SMOOTHED_ROWS, 0)
    return (sums[ends] - sums[starts]) / (ends - starts)


def _frozen(study: Study, sweep: str) -> str:
    """Fields that the sweep holds fixed, in words."""
    field, _, others = study.sweeps[sweep]
    frozen = [f"{FIELDS[k]} {_in_words(v)}" for k, v in others.items() if k != field]
    if field != "step_size":
        literal, corrected = (study.step_sizes[name] for name in TITLES)
        frozen.append(f"step size {literal:g} (literal), {corrected:g} (corrected)")
    return "Frozen: " + ", ".join(frozen)


def _in_words(value: float | str | None) -> str:
    """A number, or a rule for the bandwidth."""
    if value is None:
        return "median / sqrt(2 log n)"
    return value if isinstance(value, str) else f"{value:g}"
