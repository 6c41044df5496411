"""Measures what it costs to leave training images in memory or on the disk.

  python benchmarks/placement.py --config=configs/jem_cifar10.py:cpu --config.data.path=FOLDER
  python benchmarks/placement.py --memory

The first line times steps with ``config.data.placement`` device, host and disk. ``training.fit``
runs a few blocks of each in turn, again and again, so that the ratios survive a machine whose speed
drifts. It monitors, saves and draws nothing. The time of all cores shows on a busy machine, too,
what a placement adds. Further arguments are those of run.py.

The second line trains a small energy of random images for a few blocks, each time in a new process,
and prints the process's memory at its peak (resident set), with the digest of all data that a run
makes at its start. The images are .npy files in a temporary folder.
"""

import argparse
import datetime
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

# As run.py, and before JAX is imported: it would compile other programs otherwise.
os.environ.setdefault("JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS", "true")

import jax
import numpy as np
from sampler_throughput import at_least_one

from ebmjax import training
from ebmjax.recipes.__main__ import quietly
from ebmjax.recipes.core import build, command_line, explain, families, launch
from ebmjax.recipes.core.fields import Config, stop

PLACEMENTS = ("device", "host", "disk")
TIMES = ("ms a step", "ms of cores")
SIDE = 32
AT_ONCE = 4096
SMALL = (
    "--config.data.name=npz",
    "--config.data.holdout=32",
    "--config.data.max_train=None",
    "--config.data.image_size=None",
    "--config.data.num_classes=0",
    "--config.model.features=(4,8)",
    "--config.sampler.num_steps=1",
)


def prepared(config: Config, placement: str) -> build.Experiment:
    """Returns the experiment of ``config`` with its images at ``placement``."""
    config = config.copy_and_resolve_references()
    config.data.placement = placement
    with tempfile.TemporaryDirectory() as folder:
        make = partial(families.build, config, Path(folder))
        return explain.build_or_explain(config, make)


class Clock:
    """A writer that notes when each block is done, the next one already under way.

    Attributes:
      times: seconds of the clock, and seconds of all cores that this process has used.
    """

    def __init__(self) -> None:
        self.times: list[tuple[float, float]] = []

    def start(self, first_step: int) -> None:
        """Nothing to forget."""

    def write(self, step: int, row: dict[str, Any]) -> None:
        """Called once a block, as its numbers arrive."""
        self.times.append((time.perf_counter(), time.process_time()))

    def close(self) -> None:
        """Nothing to close."""


def step_seconds(
    config: Config, first: build.Experiment, data: object, placement: str, num_blocks: int
) -> list[tuple[float, ...]]:
    """Returns the seconds a step of every block, by the clock and of all cores.

    One more block comes first and is not timed.
    """
    size, clock = first.plan.steps_per_dispatch, Clock()
    plan = replace(
        first.plan,
        total_steps=(num_blocks + 1) * size,
        log_every=size,
        monitor_every=0,
        checkpoint_every=0,
    )
    training.fit(
        build.train_key(config),
        first.state,
        first.train_step,  # the same for all, so that it is traced once
        data,
        plan,
        writers=[clock],
        placement="device" if placement == "device" else "host",
    )
    return [
        tuple((end - start) / size for start, end in zip(*pair, strict=True))
        for pair in pairwise(clock.times)
    ]


def times(config: Config, num_blocks: int, num_turns: int) -> dict[str, list[tuple[float, ...]]]:
    """Returns the median seconds a step of every turn, by the clock and of all cores."""
    experiments = {placement: prepared(config, placement) for placement in PLACEMENTS}
    first = experiments["device"]
    found: dict[str, list[tuple[float, ...]]] = {placement: [] for placement in PLACEMENTS}
    for turn in range(num_turns + 1):
        for placement, experiment in experiments.items():
            seconds = step_seconds(config, first, experiment.data, placement, num_blocks)
            if turn:  # the first one fills caches
                found[placement].append(tuple(map(median, zip(*seconds, strict=True))))
    return found


def table(found: dict[str, list[tuple[float, ...]]]) -> str:
    """Returns a row for every placement: times of a step, and their ratios in the same turn."""
    heads = "".join(f"{name:>12}{'ratio':>8}  {'(min-max)':<13}" for name in TIMES)
    lines = [f"{'placement':<10}{heads}".rstrip()]
    for placement, turns in found.items():
        line = f"{placement:<10}"
        for which in range(len(TIMES)):
            seconds, bases = ([one[which] for one in each] for each in (turns, found["device"]))
            ratios = [one / base for one, base in zip(seconds, bases, strict=True)]
            spread = f"({min(ratios):.3f}-{max(ratios):.3f})"
            line += f"{1e3 * median(seconds):>12.4g}{median(ratios):>8.3f}  {spread:<13}"
        lines.append(line.rstrip())
    return "\n".join(lines)


def write_images(folder: Path, number: int) -> None:
    """Writes random images (number, SIDE, SIDE, 3), a part at a time."""
    folder.mkdir()
    shape = (number, SIDE, SIDE, 3)
    images = np.lib.format.open_memmap(folder / "images.npy", "w+", np.uint8, shape)
    random = np.random.default_rng(0)
    for start in range(0, number, AT_ONCE):
        part = images[start : start + AT_ONCE]
        part[:] = random.integers(0, 256, part.shape, np.uint8)
    images.flush()


def train_a_little(folder: str, placement: str, num_blocks: int) -> int:
    """Trains on the images in ``folder``; returns this process's memory at its peak, in bytes."""
    arguments = [f"--config.data.path={folder}", f"--config.data.placement={placement}"]
    config = command_line.read("configs/image.py", [*SMALL, *arguments])
    experiment = prepared(config, placement)
    training.digest_data(experiment.data)
    step_seconds(config, experiment, experiment.data, placement, num_blocks)
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # Linux counts in KiB


def memory(num_images: int, factor: int, num_blocks: int) -> str:
    """Returns memory with ``num_images`` and ``factor`` times as many, a row a placement."""
    sizes = [num_images, factor * num_images]
    heads = "".join(f"{size:>11,} images" for size in sizes)
    lines = [f"{'placement':<10}{heads}{'more':>12}"]
    with tempfile.TemporaryDirectory() as place:
        folders = [Path(place) / str(size) for size in sizes]
        for folder, size in zip(folders, sizes, strict=True):
            write_images(folder, size)
        in_a_process(folders[0], "device", num_blocks)  # compiling takes memory: programs are kept
        for placement in PLACEMENTS:
            peaks = [in_a_process(folder, placement, num_blocks) / 2**20 for folder in folders]
            row = "".join(f"{peak:>14.0f} MiB" for peak in peaks)
            lines.append(f"{placement:<10}{row}{peaks[1] - peaks[0]:>8.0f} MiB")
    data = " and ".join(f"{size * SIDE * SIDE * 3 / 2**20:.0f}" for size in sizes)
    return "\n".join([*lines, f"the images themselves: {data} MiB"])


def in_a_process(folder: Path, placement: str, num_blocks: int) -> int:
    """Returns ``train_a_little`` of a new process."""
    arguments = ["--of", str(folder), "--placement", placement, "--blocks", str(num_blocks)]
    command = [sys.executable, __file__, "--memory", *arguments]
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(found.stdout.splitlines()[-1])


def report(options: argparse.Namespace, config: Config | None) -> str:
    """Returns the table of step times of a configuration, or that of memory."""
    if config is None:
        return memory(options.images, options.factor, options.blocks)
    return table(times(config, options.blocks, options.turns))


def main() -> None:
    """Measures step times, or memory."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", help="configuration file, with :VARIANT")
    parser.add_argument("--blocks", type=at_least_one, default=8, help="timed, after one more")
    parser.add_argument("--turns", type=at_least_one, default=5, help="of all placements")
    parser.add_argument("--memory", action="store_true", help="measure memory instead of times")
    parser.add_argument("--images", type=at_least_one, default=10_000, help="for --memory")
    parser.add_argument("--factor", type=at_least_one, default=20, help="how many times as many")
    parser.add_argument("--of", help=argparse.SUPPRESS)
    parser.add_argument("--placement", default="disk", help=argparse.SUPPRESS)
    options, rest = parser.parse_known_args()
    if options.memory == bool(options.config) or (options.memory and rest):
        parser.error("give either --config=FILE and fields of it, or --memory.")
    config = None if options.memory else command_line.read(options.config, rest)
    if config is not None and "placement" not in config.data:
        parser.error(f"--config={options.config} has no images to place: give one of images.")
    launch.use_compilation_cache()
    if options.of:
        print(train_a_little(options.of, options.placement, options.blocks))
        return
    what = "--memory" if options.memory else " ".join([options.config, *rest])
    print(
        f"{datetime.date.today()}  {what}  {jax.devices()[0].device_kind} x{jax.device_count()}, "
        f"{os.cpu_count()} cores  jax {jax.__version__}  python {platform.python_version()}  "
        f"{options.blocks} blocks a turn, load {os.getloadavg()[0]:.1f}"
    )
    try:
        print(report(options, config))
    except explain.USER_ERRORS as error:
        stop(error)
    print(f"load {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    quietly(main)
