"""Serves benchmarks of a configuration: reads it, builds it, and trains blocks of its steps."""

import argparse
import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import _harness as harness
import numpy as np

from ebmjax import training
from ebmjax.recipes.config import command_line
from ebmjax.recipes.config.errors import Config, stop
from ebmjax.recipes.models import build
from ebmjax.recipes.run import explain
from ebmjax.recipes.run.run import Run
from ebmjax.training._block import make_block
from ebmjax.training._feed import Feed
from ebmjax.training._sharding import place_state


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds a configuration, and examples to stand in for its data; other arguments are fields."""
    parser.add_argument("--config", required=True, help="configuration file, with :VARIANT")
    examples = "number of them, of its shapes"
    parser.add_argument("--random_examples", type=harness.at_least_one, help=examples)


@contextlib.contextmanager
def offer_examples(number: int | None = None) -> Iterator[None]:
    """Gives tensorflow-datasets random examples, if any; a mistake ends the program in a line."""
    with contextlib.ExitStack() as stack:
        if number is not None:
            import tensorflow_datasets as tfds

            stack.enter_context(tfds.testing.mock_data(num_examples=number))
        try:
            yield
        except explain.USER_ERRORS as error:
            stop(error)


def build_experiment(config: Config) -> build.Experiment:
    """Returns the experiment of ``config``, as run.py trains it."""
    with tempfile.TemporaryDirectory() as folder:
        return Run(config, folder).build()


def build_jem(
    batch_size: int, num_steps: int, block: int, num_shards: int
) -> tuple[Config, build.Experiment]:
    """Returns JEM on the digits, at settings that PyTorch's step has, too.

    ``batch_size`` counts labelled images, images for p(x), and chains; ``num_steps`` the steps of a
    chain; ``block`` the training steps in one compiled call.
    """
    sizes = "train.batch_size", "train.positive_batch_size", "sampler.num_samples"
    fields = dict.fromkeys(sizes, batch_size) | {
        "sampler.num_steps": num_steps,
        "data.crop_padding": 1,
        "optimizer.learning_rate": 1e-3,
        "mesh.num_shards": num_shards,
        "train.steps_per_dispatch": block,
        "train.max_consecutive_skips": 1_000_000,  # a step that diverges takes as long
    }
    texts = [f"--config.{name}={value}" for name, value in fields.items()]
    config = command_line.read("configs/jem_digits.py:unconfined", texts)
    return config, build_experiment(config)


def make_steps(config: Config, experiment: build.Experiment) -> Callable[[], Any]:
    """Returns a call of one block as ``training.fit`` runs it, batches included."""
    mesh = training.make_mesh(experiment.plan.num_shards)
    plan = replace(experiment.plan, total_steps=10**9)
    blocks = Feed(experiment.data, plan, mesh, build.placement(config)).blocks(0)
    key, step = build.root_keys(config)[1], make_block(experiment.train_step, mesh)
    state = place_state(experiment.state, mesh)

    def steps() -> Any:
        nonlocal state
        state, metrics = step(key, state, next(blocks)[-1], experiment.numbers)
        return state, metrics

    return steps


def time_steps(
    config: Config, experiment: build.Experiment, num_blocks: int
) -> tuple[list[float], float]:
    """Trains one compiled call and ``num_blocks`` more, and saves nothing.

    Returns:
      The seconds of a step in every block but the first; the seconds to compile.
    """
    times, size = [], experiment.plan.steps_per_dispatch

    def note(step: int, row: dict[str, Any]) -> None:
        times.append(time.perf_counter())

    total = {"total_steps": (num_blocks + 1) * size, "log_every": size}
    plan = replace(experiment.plan, **total, monitor_every=0, checkpoint_every=0)
    writer: Any = SimpleNamespace(write=note, start=lambda step: None, close=lambda: None)
    result = training.fit(
        build.root_keys(config)[1],
        experiment.state,
        experiment.train_step,
        experiment.data,
        plan,
        numbers=experiment.numbers,
        writers=[writer],
        placement=build.placement(config),
    )
    return (np.diff(times) / size).tolist(), result.compile_seconds
