"""Measures what a configuration costs on this machine, before a run of days is begun.

  python benchmarks/configuration.py --config=configs/sadajem_digits.py
  python benchmarks/configuration.py --config=configs/thermo_celeba.py --random_examples=1000
  python benchmarks/configuration.py --config=configs/jem_cifar10.py --flops --blocks=0

Trains it by ``training.fit`` as run.py does, but monitors, saves and draws nothing, for a few
blocks: the steps of one compiled call (``config.train.steps_per_dispatch``). Further arguments are
those of run.py. Random images stand in for a data set of tensorflow-datasets that is not at hand,
in its shapes; the seconds an epoch are then those of an epoch of so many.

Prints the time of a step (median, and the range over the blocks), what an epoch and the whole run
come to without monitoring, the time to compile, the operations of a step
(``metrics.compiled_flops``, which compiles it once more: --flops) and the device's memory at its
peak, where it tells. With --blocks=0 nothing is trained, and the operations alone are counted.
"""

import argparse
import contextlib
import datetime
import os
import platform
import tempfile
import time
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Literal, NamedTuple

# As run.py, and before JAX is imported: it would compile other programs otherwise.
os.environ.setdefault("JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS", "true")

import jax
import jax.numpy as jnp
import numpy as np
from sampler_throughput import at_least_one

from ebmjax import metrics, training
from ebmjax.recipes.__main__ import quietly
from ebmjax.recipes.core import build, command_line, explain, families
from ebmjax.recipes.core.fields import Config, stop


class Cost(NamedTuple):
    """Cost that was measured.

    Attributes:
      step_seconds: of a step, for every block timed.
      compile_seconds: of the program of a block.
      steps_per_epoch: passes over the first stream's examples.
      total_steps: of the whole run.
      flops: of a step; None where they were not counted.
      peak_bytes: of the first device; None where it does not say.
    """

    step_seconds: list[float]
    compile_seconds: float
    steps_per_epoch: int
    total_steps: int
    flops: float | None
    peak_bytes: int | None


class Clock:
    """A writer that notes when each block is done, the next one already under way."""

    def __init__(self):
        self.times: list[float] = []

    def start(self, first_step: int) -> None:
        """Nothing to forget."""

    def write(self, step: int, row: dict[str, Any]) -> None:
        """Called once a block, as its numbers arrive."""
        self.times.append(time.perf_counter())

    def close(self) -> None:
        """Nothing to close."""


def measure(config: Config, num_blocks: int, has_flops: bool) -> Cost:
    """Builds it, times it if there are blocks to time, and counts its operations if asked."""
    with tempfile.TemporaryDirectory() as folder:
        make = partial(families.build, config, Path(folder))
        experiment = explain.build_or_explain(config, make)
    key, plan = build.train_key(config), experiment.plan
    num_examples = len(jax.tree.leaves(experiment.data)[0])
    step_seconds, compile_seconds = [], 0.0
    if num_blocks:
        placement = build.placement(config)
        step_seconds, compile_seconds = timed(experiment, key, num_blocks, placement)
    memory = jax.devices()[0].memory_stats() or {}
    return Cost(
        step_seconds=step_seconds,
        compile_seconds=compile_seconds,
        steps_per_epoch=num_examples // plan.streams[0],  # the images may choose the epochs
        total_steps=plan.total_steps,
        flops=step_flops(experiment, key) if has_flops else None,
        peak_bytes=memory.get("peak_bytes_in_use"),
    )


def timed(
    experiment: build.Experiment,
    key: jax.Array,
    num_blocks: int,
    placement: Literal["device", "host"] = "device",
) -> tuple[list[float], float]:
    """Seconds a step of every block, and to compile. One more comes first and is not timed."""
    size, clock = experiment.plan.steps_per_dispatch, Clock()
    plan = replace(
        experiment.plan,
        total_steps=(num_blocks + 1) * size,
        log_every=size,
        monitor_every=0,
        checkpoint_every=0,
    )
    result = training.fit(
        key,
        experiment.state,
        experiment.train_step,
        experiment.data,
        plan,
        writers=[clock],
        placement=placement,
    )
    seconds = [(end - start) / size for start, end in pairwise(clock.times)]
    return seconds, result.compile_seconds


def step_flops(experiment: build.Experiment, key: jax.Array) -> float:
    """Operations of one step over the whole batch, as one device would take it."""
    plan = experiment.plan

    def stream(batch_size: int) -> Any:
        places = np.zeros(batch_size, int)
        shape = (plan.num_shards, batch_size // plan.num_shards)
        rows = jax.tree.map(lambda leaf: leaf[places], experiment.data)
        return jax.tree.map(lambda leaf: jnp.reshape(leaf, (*shape, *leaf.shape[1:])), rows)

    batches = tuple(map(stream, plan.streams))
    batch = batches if isinstance(plan.batch_size, tuple) else batches[0]
    # A mesh of one device, as an axis: the loops are counted one by one, outside of any mesh.
    step = jax.vmap(experiment.train_step, in_axes=None, axis_name="data", axis_size=1)
    return metrics.compiled_flops(step, key, experiment.state, batch)


def report(cost: Cost, batch_size: int) -> str:
    """The numbers, a line each."""
    lines = []
    if cost.step_seconds:
        step = median(cost.step_seconds)
        low, high = min(cost.step_seconds), max(cost.step_seconds)
        lines += [
            f"a step        {1e3 * step:.4g} ms ({1e3 * low:.4g}-{1e3 * high:.4g}), {1 / step:.4g} "
            f"a second, {batch_size / step:.4g} examples a second",
            f"an epoch      {step * cost.steps_per_epoch:.4g} s, {cost.steps_per_epoch} steps",
            f"the run       {step * cost.total_steps / 3600:.3g} h, {cost.total_steps} steps, "
            "without monitoring",
            f"to compile    {cost.compile_seconds:.3g} s",
        ]
        if cost.peak_bytes is not None:
            lines.append(f"memory        {cost.peak_bytes / 2**30:.3g} GiB at its peak")
    if cost.flops is not None:
        rate = ""
        if cost.step_seconds:
            rate = f", {cost.flops / median(cost.step_seconds) / 1e12:.4g} T a second"
        lines.append(
            f"operations    {cost.flops / 1e12:.4g} T a step{rate}, "
            f"{cost.flops * cost.total_steps / 1e15:.4g} P in {cost.total_steps} steps"
        )
    return "\n".join(lines)


def examples(number: int | None) -> contextlib.AbstractContextManager[Any]:
    """Random ones, or those that the configuration names."""
    if number is None:
        return contextlib.nullcontext()
    import tensorflow_datasets as tfds

    return tfds.testing.mock_data(num_examples=number)


def at_least_zero(text: str) -> int:
    """An argument that counts."""
    return 0 if text == "0" else at_least_one(text)


def main() -> None:
    """Measures one configuration."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", required=True, help="configuration file, with :VARIANT")
    parser.add_argument("--blocks", type=at_least_zero, default=5, help="timed, after one more")
    parser.add_argument("--random_examples", type=at_least_one, help="so many, of its shapes")
    parser.add_argument("--flops", action="store_true", help="count the operations, too")
    options, rest = parser.parse_known_args()
    config = command_line.read(options.config, rest)
    if options.flops and config.train.get("num_repeats", 1) > 1:
        parser.error("--flops counts one run: leave it out, or --config.train.num_repeats=1.")
    if options.random_examples and (config.data.name == "digits" or "num_points" in config.data):
        parser.error("--random_examples is for data sets of tensorflow-datasets: leave it out.")
    if not (options.blocks or options.flops):
        parser.error("--blocks=0 leaves nothing but the operations: give --flops, too.")

    device = jax.devices()[0]
    blocks = f"  median of {options.blocks} blocks" if options.blocks else ""
    print(
        f"{datetime.date.today()}  {' '.join([options.config, *rest])}  {device.device_kind} "
        f"x{jax.device_count()}  jax {jax.__version__}  python {platform.python_version()}{blocks}"
    )
    try:
        with examples(options.random_examples):
            cost = measure(config, options.blocks, options.flops)
    except explain.USER_ERRORS as error:
        stop(error)
    print(report(cost, config.train.batch_size))


if __name__ == "__main__":
    quietly(main)
