"""Cost of a configuration on this machine, before a run of days is begun; or of some fields.

  python benchmarks/run.py configuration --config=configs/sadajem_digits.py
  python benchmarks/run.py configuration --config=configs/thermo_celeba.py --random_examples=1000
  python benchmarks/run.py configuration --config=configs/jem_cifar10.py --flops --blocks=0
  python benchmarks/run.py compare --config=configs/thermo_digits.py --versus loss.num_intervals=30

Trains it by ``training.fit`` as `ebmjax run` does, but monitors, saves and draws nothing, for a few
blocks: the steps of one compiled call (``config.train.steps_per_dispatch``). Further arguments are
fields. --random_examples stand in for a data set of tensorflow-datasets that is not at hand.

"configuration" prints the time of a step (median, and the range over the blocks), what an epoch and
the whole run come to without monitoring, the time to compile, the memory of this process at its
peak and of the first device where it tells. --flops adds the operations of a step and of the run,
as its program is written: without rematerialisation, every step of every chain counted.

"compare" times the configuration and the same with the fields of each --versus, in turn. The first
row is the configuration itself, which the ratios are to: below 1 a variant is faster. The time of
all cores shows on a busy machine, too, what a field adds. As many devices are used as divide
``mesh.num_shards``.
"""

import argparse
import resource
from collections.abc import Iterator
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import _configured as configured
import _harness as harness
import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import metrics, training
from ebmjax.recipes.config import command_line
from ebmjax.recipes.config.points import is_points
from ebmjax.recipes.models import build
from ebmjax.recipes.run.compilation import use_compilation_cache

TAKES_FIELDS = True


class Cost(NamedTuple):
    """Cost that was measured."""

    step_seconds: list[float]  # for every block timed
    compile_seconds: float  # of the program of a block
    steps_per_epoch: int  # passes over the first stream's examples
    total_steps: int  # of the whole run
    flops: float | None  # of a step; None where they were not counted
    peak_bytes: int | None  # of the first device; None where it does not say
    process_bytes: int  # resident memory of this process at its peak


def measure(config: configured.Config, num_blocks: int, has_flops: bool) -> Cost:
    """Builds it, times it if there are blocks to time, and counts its operations if asked."""
    experiment = configured.build_experiment(config)
    training.digest_data(experiment.data)  # as a run begins: it reads all of them
    num_examples = len(jax.tree.leaves(experiment.data)[0])
    times, compile_seconds = [], 0.0
    if num_blocks:
        times, compile_seconds = configured.time_steps(config, experiment, num_blocks)
    memory = jax.devices()[0].memory_stats() or {}
    return Cost(
        step_seconds=[seconds for seconds, _ in times],
        compile_seconds=compile_seconds,
        steps_per_epoch=num_examples // experiment.plan.streams[0],  # images may choose the epochs
        total_steps=experiment.plan.total_steps,
        flops=step_flops(experiment, build.train_key(config)) if has_flops else None,
        peak_bytes=memory.get("peak_bytes_in_use"),
        process_bytes=1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,  # in KiB on Linux
    )


def step_flops(experiment: build.Experiment, key: jax.Array) -> float:
    """Returns operations of one step over the whole batch, as one device would take it."""
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


def describe(cost: Cost, batch_size: int) -> dict[str, str]:
    """Returns the numbers by what they are of."""
    found, rate = {}, ""
    if cost.step_seconds:
        step = median(cost.step_seconds)
        low, high = min(cost.step_seconds), max(cost.step_seconds)
        found = {
            "a step": f"{1e3 * step:.4g} ms ({1e3 * low:.4g}-{1e3 * high:.4g}), {1 / step:.4g} "
            f"a second, {batch_size / step:.4g} examples a second",
            "an epoch": f"{step * cost.steps_per_epoch:.4g} s, {cost.steps_per_epoch} steps",
            "the run": f"{step * cost.total_steps / 3600:.3g} h, {cost.total_steps} steps, "
            "without monitoring",
            "to compile": f"{cost.compile_seconds:.3g} s",
            "process": f"{cost.process_bytes / 2**20:.4g} MiB at its peak",
        }
        if cost.peak_bytes is not None:
            found["memory"] = f"{cost.peak_bytes / 2**30:.3g} GiB at its peak"
        rate = f", {(cost.flops or 0) / step / 1e12:.4g} T a second"
    if cost.flops is not None:
        run = f"{cost.flops * cost.total_steps / 1e15:.4g} P in {cost.total_steps} steps"
        found["operations"] = f"{cost.flops / 1e12:.4g} T a step{rate}, {run}"
    return found


def time_step(config: configured.Config, experiment: Any, blocks: int) -> harness.Turn:
    """Returns the median seconds of a step."""
    clock, processor = zip(*configured.time_steps(config, experiment, blocks)[0], strict=True)
    return harness.Turn(median(clock), median(processor))


def compare_turns(found: dict[str, list[harness.Turn]]) -> Iterator[harness.Row]:
    """Yields times of a step, and their ratios to those of the first variant in the same turn."""
    bases, core_bases = zip(*next(iter(found.values())), strict=True)
    for name, turns in found.items():
        times, cores = zip(*turns, strict=True)
        yield {
            "fields": name,
            "ms a step": harness.median_ms(times),
            "ratio": harness.spread_of_ratios(times, bases),
            "ms of cores": harness.median_ms(cores),
            "their ratio": harness.spread_of_ratios(cores, core_bases),
        }


def compare(
    configs: dict[str, configured.Config], blocks: int, turns: int
) -> Iterator[harness.Row]:
    """Times all configurations in turn; yields a row for each, with the devices that it uses."""
    experiments = {name: configured.build_experiment(one) for name, one in configs.items()}
    measures = {
        name: partial(time_step, configs[name], experiment, blocks)
        for name, experiment in experiments.items()
    }
    rows = compare_turns(harness.take_turns(measures, turns))
    for experiment, row in zip(experiments.values(), rows, strict=True):
        yield {"devices": training.make_mesh(experiment.plan.num_shards).size, **row}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what both benchmarks read."""
    configured.add_options(parser)
    blocks = "timed, after one more, in each turn"
    parser.add_argument("--blocks", type=at_least_zero, default=5, help=blocks)
    parser.add_argument("--flops", action="store_true", help="count the operations, too")
    harness.add_counts(parser, turns=(5, "of all variants"))
    parser.add_argument("--versus", action="append", default=[], help="fields and values")
    parser.set_defaults(parser=parser)


def at_least_zero(text: str) -> int:
    """Reads an argument that counts something or is zero."""
    return 0 if text == "0" else harness.at_least_one(text)


def rows(name: str, options: argparse.Namespace) -> Iterator[harness.Row]:
    """Measures a configuration, or compares it with its variants."""
    refuse, fields = options.parser.error, options.fields
    config = command_line.read(options.config, fields)
    if options.flops and config.train.get("num_repeats", 1) > 1:
        refuse("--flops counts one run: leave it out, or --config.train.num_repeats=1.")
    if options.random_examples and (config.data.name == "digits" or is_points(config)):
        refuse("--random_examples is for data sets of tensorflow-datasets: leave it out.")
    if not (options.blocks or (options.flops and name == "configuration")):
        refuse("--blocks=0 leaves nothing but the operations: give --flops, too.")
    if (name == "compare") != bool(options.versus):
        refuse("--versus FIELD=VALUE is what compare needs, and configuration does not take.")
    with configured.offer_examples(options.random_examples):
        if name == "configuration":
            cost = measure(config, options.blocks, options.flops)
            yield from harness.as_rows(describe(cost, config.train.batch_size))
            return
        configs = {"": config}
        for one in options.versus:
            more = [f"--config.{field}" for field in one.split()]
            configs[one] = command_line.read(options.config, [*fields, *more])
        use_compilation_cache()
        yield from compare(configs, options.blocks, options.turns)
