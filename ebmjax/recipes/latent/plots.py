"""Plots of a latent EBM run, drawn from its folder."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from ebmjax.recipes.core.plots import INK, column, curve, finish, legend, montage
from ebmjax.recipes.core.workdir import read_rows, snapshots

SHOWN = 10


def draw(workdir: Path, powers: np.ndarray) -> None:
    """Draws every plot of the run in ``workdir`` whose schedule is ``powers``.

    For several repeats, curves show mean and range, and images are the first repeat's.
    """
    rows, plots = read_rows(workdir), workdir / "plots"
    monitored = {int(p.stem): _of_first_repeat(dict(np.load(p))) for p in snapshots(workdir)}
    samples_over_training(plots / "samples_over_training.png", monitored)
    reconstructions(plots / "reconstructions.png", monitored)
    schedule(plots / "schedule.png", powers)
    log_likelihood_by_power(plots / "mean_log_likelihood.png", rows, powers)
    training_curves(plots / "training.png", rows)


def _of_first_repeat(pictures: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: x[0] if x.ndim == 5 else x for name, x in pictures.items()}


def samples_over_training(path: Path, monitored: dict[int, dict[str, np.ndarray]]) -> None:
    """Draws a row of prior samples for each monitored step, with the same noise along a column."""
    strips = np.concatenate([arrays["samples"][:SHOWN] for arrays in monitored.values()])
    figure, axes = plt.subplots(figsize=(7, 0.75 * len(monitored) + 0.6))
    sheet = montage(strips, min(SHOWN, len(strips)))
    axes.imshow(sheet, interpolation="nearest")
    height = sheet.shape[0] / len(monitored)
    axes.set_yticks([height * (i + 0.5) for i in range(len(monitored))], map(str, monitored))
    axes.set(xticks=[], ylabel="step", title="samples of the prior chains")
    finish(figure, path)


def reconstructions(path: Path, monitored: dict[int, dict[str, np.ndarray]]) -> None:
    """Draws test images above their reconstructions at the last monitored step."""
    last = monitored[max(monitored)]
    pairs = np.concatenate([last["originals"][:SHOWN], last["reconstructions"][:SHOWN]])
    figure, axes = plt.subplots(figsize=(7, 2))
    sheet = montage(pairs, len(pairs) // 2)
    axes.imshow(sheet, interpolation="nearest")
    ticks = [sheet.shape[0] * share for share in (0.25, 0.75)]
    axes.set_yticks(ticks, ["test image", "reconstruction"])
    axes.set(xticks=[])
    finish(figure, path)


def schedule(path: Path, powers: np.ndarray) -> None:
    """Plots the places of the powers."""
    figure, axes = plt.subplots(figsize=(5, 3.2))
    axes.plot(range(len(powers)), powers, "o-", color=INK, ms=4)
    axes.set(xlabel="index i", ylabel="power t", title="temperature schedule", ylim=(-0.03, 1.03))
    finish(figure, path)


def log_likelihood_by_power(path: Path, rows: list[dict[str, Any]], powers: np.ndarray) -> None:
    """Draws E_t against t, later steps darker; its integral is the log evidence."""
    steps, values = column(rows, "test_mean_log_likelihoods")
    figure, axes = plt.subplots(figsize=(5.5, 3.6))
    for i, (step, curve_values) in enumerate(zip(steps, values, strict=True)):
        shade = plt.get_cmap("viridis_r")((i + 1) / len(steps))
        curve_values = curve_values.reshape(-1, len(powers)).mean(0)  # over repeats
        axes.plot(powers, curve_values, "o-", ms=3, lw=1.2, color=shade, label=f"step {step}")
    axes.set(xlabel="power t", ylabel="E_t [log p(x|z)] in nats, unseen images")
    legend(axes)
    finish(figure, path)


def training_curves(path: Path, rows: list[dict[str, Any]]) -> None:
    """Plots logged numbers against the step, from loss to acceptance; FID and KID if present."""
    panels = (
        ("loss", ("loss",), "linear"),
        ("energy", ("prior_energy", "posterior_energy"), "linear"),
        ("error a pixel", ("reconstruction_error", "test_reconstruction_error"), "log"),
        ("nats", ("test_log_evidence", "test_trapezium_log_evidence"), "linear"),
        ("variance", ("coordinate_gradient_variance", "gradient_variance"), "log"),
        ("FID of samples", ("sample_fid", "start_fid"), "linear"),
        ("KID of samples", ("sample_kid", "start_kid"), "linear"),
    )
    panels = [panel for panel in panels if any(name in row for row in rows for name in panel[1])]
    num_columns = len(panels) // 2 + 1  # with a last panel for the acceptance
    figure, grid = plt.subplots(2, num_columns, figsize=(4 * num_columns, 6))
    for axes, (label, names, scale) in zip(grid.flat, panels, strict=False):
        for name, color in zip(names, (INK, "#d1495b"), strict=False):
            curve(axes, rows, name, color=color)
        axes.set(xlabel="step", ylabel=label, yscale=scale)
        legend(axes)
    _acceptance(grid.flat[-1], rows)
    finish(figure, path)


def _acceptance(axes: Any, rows: list[dict[str, Any]]) -> None:
    curve(axes, rows, "prior_acceptance", color=INK)
    steps, values = column(rows, "posterior_acceptance")
    if len(steps):
        values = values.reshape(len(steps), -1, values.shape[-1]).mean(1)  # over repeats
        axes.plot(steps, values[:, -1], color="#d1495b", lw=1.2, label="posterior, t = 1")
        if values.shape[1] > 1:
            axes.plot(steps, values[:, 0], color="#edae49", lw=1.2, label="lowest power above 0")
    axes.set(xlabel="step", ylabel="acceptance probability", ylim=(0, 1))
    legend(axes)
