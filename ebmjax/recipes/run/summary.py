"""Ends a run that trained: plots, summary.json and, where asked for, its evaluation."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from ebmjax import training
from ebmjax._phases import phase
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.config.extractor_names import extractor_name
from ebmjax.recipes.evaluators.sample_scores import advice
from ebmjax.recipes.folder import workdir
from ebmjax.recipes.models import build
from ebmjax.recipes.run import best, evaluate, health, recover
from ebmjax.recipes.run.tracking import table


class Trained(NamedTuple):
    """A run that trained to its end, with its experiment and recoveries at that time."""

    result: training.FitResult
    experiment: build.Experiment
    recoveries: Sequence[recover.Recovery]


def finish(path: Path, config: Config, trained: Trained, started: float, mode: str) -> None:
    """Draws and summarises a run that began at ``started``; in the mode "all" evaluates it."""
    result, experiment, recoveries = trained
    with phase("drawing plots"):
        experiment.draw()
    seconds = time.perf_counter() - started
    summarise(path, config, result, experiment, recoveries, seconds)
    if mode == "all":
        state = result.state
        if evaluate.is_of_best(config):
            state = best.restore(path, experiment.state)
        evaluate.evaluate(path, config, experiment, state)


def summarise(
    path: Path,
    config: Config,
    result: training.FitResult,
    experiment: build.Experiment,
    recoveries: Sequence[recover.Recovery],
    sitting_seconds: float,
) -> None:
    """Writes summary.json and prints where things are.

    The seconds include a pilot's, and the steps that recoveries undid.
    """
    pilot = experiment.pilot
    before = pilot or build.Seconds(0.0, 0.0)
    seconds = build.Seconds(
        before.wall + result.wall_seconds + sum(one.lost_seconds for one in recoveries),
        before.compile
        + result.compile_seconds
        + sum(one.lost_compile_seconds for one in recoveries),
    )
    summary: dict[str, Any] = {
        **result.row,
        "steps": int(result.state.step),
        "seed": config.seed,
        "versions": workdir.versions(),
        "revision": workdir.revision(),
        "devices": [str(device.device_kind) for device in jax.devices()],
        "wall_seconds": round(seconds.wall, 3),
        "compile_seconds": round(seconds.compile, 3),
        "run_seconds": round(seconds.run, 3),
        "params_sha256": training.tree_digest(result.state.params),
        "data_sha256": result.data_sha256,
    }
    if experiment.config is not None:
        summary["extractor"] = extractor_name(experiment.config)
    if experiment.about_data:
        summary["data"] = list(experiment.about_data)
    if pilot is not None:
        summary["pilot_seconds"] = round(pilot.wall, 3)
    if config.train.get("on_divergence") == "recover":
        summary["recoveries"] = [one.told() for one in recoveries]
    workdir.write_summary(path, summary)
    print(
        f"Done in {sitting_seconds:.0f} s, of which compiling took {seconds.compile:.0f} s.",
        table(summary),
        *advice(summary),
        *health.about_end(path, result.health),
        f"Numbers in {path}/summary.json, plots in {path}/plots",
        sep="\n",
    )
