"""Plots of a latent EBM run, drawn from its folder."""

from pathlib import Path
from typing import Any

import numpy as np

from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.evaluators.plots import column, figure, panels, step_colours, tiles
from ebmjax.recipes.evaluators.result_tables import FIDS
from ebmjax.recipes.folder.workdir import read_rows, snapshots

SHOWN = 10

PANELS = {
    "latent": (
        ("loss", ("loss",), "linear"),
        ("energy, nats", ("prior_energy", "posterior_energy"), "linear"),
        ("squared error, a pixel", ("reconstruction_error", "test_reconstruction_error"), "log"),
        (
            "log evidence of test images, nats",
            ("test_log_evidence", "test_trapezium_log_evidence"),
            "linear",
        ),
        ("variance of gradients", ("coordinate_gradient_variance", "gradient_variance"), "log"),
        ("FID of samples ({extractor})", FIDS, "linear"),
        ("KID of samples ({extractor})", ("sample_kid", "start_kid"), "linear"),
        (
            "acceptance probability",
            ("prior_acceptance", "posterior, t = 1", "posterior, lowest power above 0"),
            "linear",
        ),
    )
}


def draw(workdir: Path, config: Config, powers: np.ndarray) -> None:
    """Draws every plot of the run in ``workdir`` whose schedule is ``powers``."""
    rows, plots = read_rows(workdir), workdir / "plots"
    monitored = {int(p.stem): dict(np.load(p)) for p in snapshots(workdir)}
    for name, draw_images in (
        ("samples", samples_over_training),
        ("reconstructions", reconstructions),
    ):
        found = {step: arrays for step, arrays in monitored.items() if name in arrays}
        if found:
            draw_images(plots, found)
    schedule(plots / "schedule.png", powers)
    log_likelihood_by_power(plots / "mean_log_likelihood.png", rows, powers)
    panels(
        plots / "training.png", [row | _acceptances(row) for row in rows], PANELS["latent"], config
    )


def samples_over_training(plots: Path, monitored: dict[int, dict[str, np.ndarray]]) -> None:
    """Draws a row of prior samples for each monitored step, with the same noise along a column."""
    strips = np.concatenate([arrays["samples"][:SHOWN] for arrays in monitored.values()])
    size = (7, 0.75 * len(monitored) + 0.6)
    with figure(plots / "samples_over_training.png", size=size) as ((axes,),):
        tiles(axes, strips, SHOWN, "samples of the prior chains", [*map(str, monitored)])
        axes.set_ylabel("step")


def reconstructions(plots: Path, monitored: dict[int, dict[str, np.ndarray]]) -> None:
    """Draws test images above their reconstructions at the last monitored step."""
    last = max(monitored)
    pairs = [monitored[last][name][:SHOWN] for name in ("originals", "reconstructions")]
    with figure(plots / "reconstructions.png", size=(7, 2)) as ((axes,),):
        rows = ("test image", "reconstruction")
        tiles(axes, np.concatenate(pairs), len(pairs[0]), f"step {last}", rows)


def schedule(path: Path, powers: np.ndarray) -> None:
    """Plots the places of the powers."""
    with figure(path) as ((axes,),):
        axes.plot(range(len(powers)), powers, "o-")
        axes.set(xlabel="index i", ylabel="power t", title="schedule of powers")


def log_likelihood_by_power(path: Path, rows: list[dict[str, Any]], powers: np.ndarray) -> None:
    """Draws E_t against t, later steps darker; its integral is the log evidence."""
    steps, values = column(rows, "test_mean_log_likelihoods")
    with figure(path, size=(5.5, 3.6)) as grid:
        axes, colour = grid[0, 0], step_colours(grid, max(steps, default=0))
        for step, curve_values in zip(steps, values, strict=True):
            axes.plot(powers, curve_values, "o-", color=colour(step), label=f"step {step}")
        axes.set(xlabel="power t", ylabel="E_t [log p(x|z)] of test images, nats")


def _acceptances(row: dict[str, Any]) -> dict[str, Any]:
    """Returns the posteriors' acceptance at the highest power and at the lowest above 0."""
    by_power = np.atleast_1d(np.asarray(row.get("posterior_acceptance", ()), dtype=float)).T
    ends = {
        "posterior, t = 1": by_power[-1:],
        "posterior, lowest power above 0": by_power[:-1][:1],
    }
    return {name: found[0].tolist() for name, found in ends.items() if len(found)}
