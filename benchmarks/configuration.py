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
row is the configuration itself, which the ratios are to: below 1 a variant is faster.
"""

import argparse
import resource
from collections.abc import Iterator, Mapping
from functools import partial
from statistics import median
from typing import Any

import _configured as configured
import _harness as harness
import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import metrics, training
from ebmjax.recipes.config import command_line
from ebmjax.recipes.models import build
from ebmjax.recipes.run.compilation import use_compilation_cache

TAKES_FIELDS = True


def measure(config: configured.Config, num_blocks: int, has_flops: bool) -> dict[str, str]:
    """Builds it, times it if there are blocks to time, and counts its operations if asked."""
    experiment = configured.build_experiment(config)
    training.digest_data(experiment.data)  # as a run begins: it reads all of them
    plan, found = experiment.plan, {}
    if num_blocks:
        times, compile_seconds = configured.time_steps(config, experiment, num_blocks)
        step = harness.spread(times)
        per_epoch = len(jax.tree.leaves(experiment.data)[0]) // plan.streams[0]
        peak = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", float("nan"))
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # in KiB on Linux
        found = {
            "a step": f"{harness.spread(times, 1e3)} ms",
            "an epoch": f"{step.median * per_epoch:.4g} s, {per_epoch} steps",
            "the run": f"{step.median * plan.total_steps / 3600:.3g} h, {plan.total_steps} steps, "
            "without monitoring",
            "to compile": f"{compile_seconds:.3g} s",
            "process": f"{resident / 2**10:.4g} MiB at its peak",
            "memory": f"{peak / 2**30:.3g} GiB at its peak",
        }
    if has_flops:
        flops = step_flops(experiment, build.root_keys(config)[1])
        run = f"{flops * plan.total_steps / 1e15:.4g} P in {plan.total_steps} steps"
        rate = f", {flops / step.median / 1e12:.4g} T a second" if num_blocks else ""
        found["operations"] = f"{flops / 1e12:.4g} T a step{rate}, {run}"
    return found


def step_flops(experiment: build.Experiment, key: jax.Array) -> float:
    """Returns operations of one step over the whole batch, as one device would take it."""
    plan = experiment.plan

    def stream(batch_size: int) -> Any:
        shape = (plan.num_shards, batch_size // plan.num_shards)
        rows = jax.tree.map(lambda leaf: leaf[np.zeros(batch_size, int)], experiment.data)
        return jax.tree.map(lambda leaf: jnp.reshape(leaf, (*shape, *leaf.shape[1:])), rows)

    batches = tuple(map(stream, plan.streams))
    batch = batches if isinstance(plan.batch_size, tuple) else batches[0]
    # A mesh of one device, as an axis: the loops are counted one by one, outside of any mesh.
    step = jax.vmap(experiment.train_step, in_axes=None, axis_name="data", axis_size=1)
    return metrics.compiled_flops(step, key, experiment.state, batch)


def time_step(config: configured.Config, experiment: Any, blocks: int) -> float:
    """Returns the median seconds of a step."""
    return median(configured.time_steps(config, experiment, blocks)[0])


def compare(
    configs: Mapping[str, configured.Config], blocks: int, turns: int
) -> Iterator[harness.Row]:
    """Times all configurations in turn; yields a row for each, with its ratios to the first."""
    experiments = {name: configured.build_experiment(one) for name, one in configs.items()}
    measures = {
        name: partial(time_step, configs[name], one, blocks) for name, one in experiments.items()
    }
    found = harness.take_turns(measures, turns)
    for name, times in found.items():
        yield {
            "devices": training.make_mesh(experiments[name].plan.num_shards).size,
            "fields": name,
            "ms a step": harness.median_ms(times),
            "ratio": harness.spread_of_ratios(times, found[""]),
        }


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what both benchmarks read."""
    configured.add_options(parser)
    parser.add_argument("--blocks", type=int, default=5, help="timed, after one more, in each turn")
    parser.add_argument("--flops", action="store_true", help="count the operations, too")
    harness.add_counts(parser, turns=(5, "of all variants"))
    parser.add_argument("--versus", action="append", default=[], help="fields and values")
    parser.set_defaults(parser=parser)


def rows(name: str, options: argparse.Namespace) -> Iterator[harness.Row]:
    """Measures a configuration, or compares it with its variants."""
    refuse, fields = options.parser.error, options.fields
    config = command_line.read(options.config, fields)
    if options.blocks < (0 if options.flops and name == "configuration" else 1):
        refuse("--blocks must be at least 1, or 0 with --flops for the operations alone.")
    if (name == "compare") != bool(options.versus):
        refuse("--versus FIELD=VALUE is what compare needs, and configuration does not take.")
    with configured.offer_examples(options.random_examples):
        if name == "configuration":
            found = measure(config, options.blocks, options.flops)
            yield from ({"what": what, "value": value} for what, value in found.items())
            return
        configs = {"": config}
        for one in options.versus:
            more = [f"--config.{field}" for field in one.split()]
            configs[one] = command_line.read(options.config, [*fields, *more])
        use_compilation_cache()
        yield from compare(configs, options.blocks, options.turns)
