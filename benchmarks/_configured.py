"""Serves benchmarks of a configuration: its experiment, and blocks of its training timed."""

import contextlib
import tempfile
import time
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from ebmjax import training
from ebmjax.recipes.config import families
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.models import build
from ebmjax.recipes.run import explain


def build_experiment(config: Config) -> build.Experiment:
    """Returns the experiment of ``config``, as run.py trains it."""
    with tempfile.TemporaryDirectory() as folder:
        return explain.build_or_explain(config, partial(families.build, config, Path(folder)))


def offer_examples(number: int | None) -> contextlib.AbstractContextManager[Any]:
    """Returns a context in which tensorflow-datasets has ``number`` random examples, if any."""
    if number is None:
        return contextlib.nullcontext()
    import tensorflow_datasets as tfds

    return tfds.testing.mock_data(num_examples=number)


class Clock:
    """A writer that notes when each block is done, the next one already under way.

    Attributes:
      times: seconds of the clock, and seconds of all cores that this process has used.
    """

    def __init__(self) -> None:
        self.times: list[tuple[float, float]] = []

    def start(self, first_step: int) -> None:
        """Forgets nothing."""

    def write(self, step: int, row: dict[str, Any]) -> None:
        """Notes a block, as its numbers arrive."""
        self.times.append((time.perf_counter(), time.process_time()))

    def close(self) -> None:
        """Closes nothing."""


def time_steps(
    config: Config, experiment: build.Experiment, data: Any, num_blocks: int
) -> tuple[list[tuple[float, float]], float]:
    """Trains ``num_blocks`` compiled calls on ``data``, and one before them, and saves nothing.

    Returns:
      The seconds of a step in every block, by the clock and of all cores; the seconds to compile.
    """
    size, clock = experiment.plan.steps_per_dispatch, Clock()
    total = (num_blocks + 1) * size
    plan = replace(
        experiment.plan, total_steps=total, log_every=size, monitor_every=0, checkpoint_every=0
    )
    result = training.fit(
        build.train_key(config),
        experiment.state,
        experiment.train_step,
        data,
        plan,
        writers=[clock],
        placement=build.placement(config),
    )
    seconds = [
        ((end - start) / size, (cores_end - cores_start) / size)
        for (start, cores_start), (end, cores_end) in pairwise(clock.times)
    ]
    return seconds, result.compile_seconds
