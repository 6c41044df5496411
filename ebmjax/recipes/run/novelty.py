"""Says which scored images are out of distribution: ``ebmjax score --false_alarm_rate``."""

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np

from ebmjax._phases import phase
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.config.points import is_points
from ebmjax.recipes.run.scores import score_data

SCORES = ("log_density", "log_evidence")
"""Scores that a threshold is found for: the one that a run has."""


def check_rate(rate: float | None, config: Mapping[str, Any]) -> None:
    """Raises ConfigError for a rate that is none, and for a run without images held out."""
    if rate is None:
        return
    if not 0 < rate < 1:
        raise ConfigError(f"--false_alarm_rate must lie between 0 and 1, got {rate:g}.")
    if not (is_points(config) or config["data"].get("holdout")):
        raise ConfigError(
            "--false_alarm_rate needs images that the run was not trained on, and it held none out "
            "(config.data.holdout=0). Train with --config.data.holdout=0.2, or leave it out."
        )


def score_and_flag(run: Any, arguments: argparse.Namespace) -> dict[str, np.ndarray]:
    """Returns ``score_data``, and with a rate "is_out_of_distribution" (N,), 0 or 1."""
    if arguments.false_alarm_rate is None:
        return score_data(run, arguments)
    name, threshold = _find_threshold(run, arguments.false_alarm_rate)
    arrays = score_data(run, arguments)
    is_below = arrays[name] < threshold
    print(f"{np.sum(is_below):,} of {len(is_below):,} are out of distribution")
    return {**arrays, "is_out_of_distribution": is_below.astype(int)}


def _find_threshold(run: Any, rate: float) -> tuple[str, float]:
    """Returns the name of a score and its threshold, by images held out; says both."""
    from ebmjax.metrics import novelty_threshold
    from ebmjax.recipes.parts import image_data, points_data

    if is_points(run.config):
        held_out = points_data.load(run.config)[0].monitored.images
    else:
        held_out = image_data.load_held_out(run.config).data.images
    with phase(f"scoring {len(held_out):,} that were held out"):
        scores = run.score(np.asarray(held_out))
    name = next(name for name in SCORES if name in scores)
    try:
        found = novelty_threshold(scores[name], rate)
    except ValueError as error:
        raise ConfigError(f"--false_alarm_rate={rate:g}: {error}") from error
    print(
        f"out of distribution: {name} below {found.threshold:.6g}, found from {len(held_out):,} "
        f"held out (95 % interval {found.low:.6g} to {found.high:.6g}); expected false alarms "
        f"{found.rate:.1%} (95 % interval {found.rate_low:.1%} to {found.rate_high:.1%})"
    )
    return name, found.threshold
