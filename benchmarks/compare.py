"""Times steps of a configuration beside the same with other fields: what does a field cost?

  python benchmarks/compare.py --config=configs/thermo_digits.py --versus loss.num_intervals=30
  python benchmarks/compare.py --config=configs/jem_digits.py:unconfined --versus mesh.num_shards=2

Each --versus names one or more fields and their values, with spaces between them. Every variant is
trained by ``training.fit`` as run.py does, but monitors, saves and draws nothing. A few blocks of
each are timed in turn, again and again, so that the ratios survive a machine whose speed drifts.
Further arguments are those of run.py.

The first row is the configuration itself, which the ratios are to: below 1 a variant is faster. The
time of all cores shows on a busy machine, too, what a field adds. As many devices are used as
divide ``mesh.num_shards``: a CPU with XLA_FLAGS=--xla_force_host_platform_device_count=2 has two.
"""

from functools import partial
from statistics import median
from typing import Any

import _configured as configured
import _harness as harness

from ebmjax import training
from ebmjax.recipes.__main__ import quietly
from ebmjax.recipes.config import command_line
from ebmjax.recipes.run.compilation import use_compilation_cache


def step_seconds(config: configured.Config, experiment: Any, blocks: int) -> tuple[float, float]:
    """Returns the median seconds of a step, by the clock and of all cores."""
    clock, cores = zip(*configured.time_steps(config, experiment, blocks)[0], strict=True)
    return median(clock), median(cores)


def describe(found: dict[str, list[tuple[float, float]]]) -> list[harness.Row]:
    """Returns times of a step, and their ratios to those of the first variant in the same turn."""
    (bases, core_bases), rows = zip(*next(iter(found.values())), strict=True), []
    for name, turns in found.items():
        times, cores = zip(*turns, strict=True)
        rows.append(
            {
                "fields": name,
                "ms a step": harness.median_ms(times),
                "ratio": harness.spread_of_ratios(times, bases),
                "ms of cores": harness.median_ms(cores),
                "their ratio": harness.spread_of_ratios(cores, core_bases),
            }
        )
    return rows


def measure(configs: dict[str, configured.Config], blocks: int, turns: int) -> list[harness.Row]:
    """Times all configurations in turn; returns a row for each, with the devices that it uses."""
    experiments = {name: configured.build_experiment(one) for name, one in configs.items()}
    measures = {
        name: partial(step_seconds, configs[name], experiment, blocks)
        for name, experiment in experiments.items()
    }
    shards = [experiment.plan.num_shards for experiment in experiments.values()]
    rows = zip(shards, describe(harness.take_turns(measures, turns)), strict=True)
    return [{"devices": training.make_mesh(number).size, **row} for number, row in rows]


def main() -> None:
    """Times a configuration and its variants."""
    parser = configured.make_parser(
        __doc__, blocks=(8, "timed a turn, after one more"), turns=(5, "of all variants")
    )
    parser.add_argument("--versus", action="append", required=True, help="fields and values")
    options, rest = parser.parse_known_args()
    variants = {name: [f"--config.{one}" for one in name.split()] for name in options.versus}
    configs = {
        name: command_line.read(options.config, [*rest, *fields])
        for name, fields in {"": [], **variants}.items()
    }
    use_compilation_cache()
    with configured.offer_examples(options.random_examples):
        rows = measure(configs, options.blocks, options.turns)
    turns = f"{options.blocks} blocks a turn, {options.turns} turns"
    harness.report("compare", rows, options.out, " ".join([options.config, *rest]), turns)


if __name__ == "__main__":
    quietly(main)
