"""Measures what a configuration costs on this machine, before a run of days is begun.

  python benchmarks/configuration.py --config=configs/sadajem_digits.py
  python benchmarks/configuration.py --config=configs/thermo_celeba.py --random_examples=1000
  python benchmarks/configuration.py --config=configs/jem_cifar10.py --flops --blocks=0

Trains it by ``training.fit`` as run.py does, but monitors, saves and draws nothing, for a few
blocks: the steps of one compiled call (``config.train.steps_per_dispatch``). Further arguments are
those of run.py. Random images stand in for a data set of tensorflow-datasets that is not at hand,
in its shapes; the seconds an epoch are then those of an epoch of so many.

Prints the time of a step (median, and the range over the blocks), what an epoch and the whole run
come to without monitoring, the time to compile, the memory of this process at its peak and of the
device, where it tells, and with --flops the operations of a step (``metrics.compiled_flops``). With
--blocks=0 nothing is trained, and the operations alone are counted.
"""

import resource
from statistics import median
from typing import Any, NamedTuple

import _configured as configured
import _harness as harness
import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import metrics, training
from ebmjax.recipes.__main__ import quietly
from ebmjax.recipes.config import command_line
from ebmjax.recipes.config.points import is_points
from ebmjax.recipes.models import build


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


def at_least_zero(text: str) -> int:
    """Reads an argument that counts something or is zero."""
    return 0 if text == "0" else harness.at_least_one(text)


def main() -> None:
    """Measures one configuration."""
    parser = configured.make_parser(__doc__)
    parser.add_argument("--blocks", type=at_least_zero, default=5, help="timed, after one more")
    parser.add_argument("--flops", action="store_true", help="count the operations, too")
    options, rest = parser.parse_known_args()
    config = command_line.read(options.config, rest)
    if options.flops and config.train.get("num_repeats", 1) > 1:
        parser.error("--flops counts one run: leave it out, or --config.train.num_repeats=1.")
    if options.random_examples and (config.data.name == "digits" or is_points(config)):
        parser.error("--random_examples is for data sets of tensorflow-datasets: leave it out.")
    if not (options.blocks or options.flops):
        parser.error("--blocks=0 leaves nothing but the operations: give --flops, too.")
    with configured.offer_examples(options.random_examples):
        cost = measure(config, options.blocks, options.flops)
    blocks = f"median of {options.blocks} blocks" if options.blocks else ""
    rows = harness.as_rows(describe(cost, config.train.batch_size))
    harness.report("configuration", rows, options.out, " ".join([options.config, *rest]), blocks)


if __name__ == "__main__":
    quietly(main)
