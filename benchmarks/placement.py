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
import json
import os
import resource
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median

# As run.py, and before JAX is imported: it would compile other programs otherwise.
os.environ.setdefault("JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS", "true")

import _harness as harness
import numpy as np
from _configured import build_experiment, time_steps

from ebmjax import training
from ebmjax.recipes.__main__ import quietly
from ebmjax.recipes.config import command_line
from ebmjax.recipes.config.errors import Config, stop
from ebmjax.recipes.models import build
from ebmjax.recipes.run import explain, launch

PLACEMENTS = ("device", "host", "disk")
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


def place(config: Config, placement: str) -> Config:
    """Returns ``config`` with its images at ``placement``."""
    config = config.copy_and_resolve_references()
    config.data.placement = placement
    return config


def step_seconds(
    config: Config, first: build.Experiment, data: object, num_blocks: int
) -> tuple[float, float]:
    """Returns the median seconds of a step, by the clock and of all cores."""
    clock, cores = zip(*time_steps(config, first, data, num_blocks)[0], strict=True)
    return median(clock), median(cores)


def measure_times(config: Config, num_blocks: int, num_turns: int) -> list[harness.Row]:
    """Times every placement in turn; returns a row for each."""
    configs = {placement: place(config, placement) for placement in PLACEMENTS}
    experiments = {placement: build_experiment(one) for placement, one in configs.items()}
    first = experiments["device"]  # its step serves all, so that it is traced once
    measures = {
        placement: partial(step_seconds, configs[placement], first, experiment.data, num_blocks)
        for placement, experiment in experiments.items()
    }
    return compare(harness.take_turns(measures, num_turns))


def compare(found: dict[str, list[tuple[float, float]]]) -> list[harness.Row]:
    """Returns times of a step, and their ratios to those of "device" in the same turn."""
    (bases, core_bases), rows = zip(*found["device"], strict=True), []
    for placement, turns in found.items():
        times, cores = zip(*turns, strict=True)
        rows.append(
            {
                "placement": placement,
                "ms a step": harness.median_ms(times),
                "ratio": harness.spread_of_ratios(times, bases),
                "ms of cores": harness.median_ms(cores),
                "their ratio": harness.spread_of_ratios(cores, core_bases),
            }
        )
    return rows


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
    experiment = build_experiment(config)
    training.digest_data(experiment.data)
    time_steps(config, experiment, experiment.data, num_blocks)
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # Linux counts in KiB


def measure_memory(num_images: int, factor: int, num_blocks: int) -> list[harness.Row]:
    """Returns memory with ``num_images`` and ``factor`` times as many, a row a placement."""
    sizes = [num_images, factor * num_images]
    with tempfile.TemporaryDirectory() as parent:
        folders = [Path(parent) / str(size) for size in sizes]
        for folder, size in zip(folders, sizes, strict=True):
            write_images(folder, size)
        for placement in PLACEMENTS:  # compiling takes memory: programs are kept
            in_a_process(folders[0], placement, num_blocks)
        rows = []
        for placement in PLACEMENTS:
            peaks = [in_a_process(folder, placement, num_blocks) / 2**20 for folder in folders]
            found = {f"MiB, {n:,} images": mib for n, mib in zip(sizes, peaks, strict=True)}
            rows.append({"placement": placement, **found, "MiB more": peaks[1] - peaks[0]})
    images = [size * SIDE * SIDE * 3 / 2**20 for size in sizes]
    own = dict(zip(rows[0], ["the images", *images, images[1] - images[0]], strict=True))
    return [*rows, own]


def in_a_process(folder: Path, placement: str, num_blocks: int) -> int:
    """Returns ``train_a_little`` of a new process."""
    arguments = ["--of", str(folder), "--placement", placement, "--blocks", str(num_blocks)]
    command = [sys.executable, __file__, "--memory", *arguments]
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(found.stdout.splitlines()[-1])


def measure(config: Config | None, options: argparse.Namespace) -> list[harness.Row]:
    """Times a configuration; measures memory without one."""
    if config is None:
        return measure_memory(options.images, options.factor, options.blocks)
    return measure_times(config, options.blocks, options.turns)


def main() -> None:
    """Measures step times, or memory."""
    parser, count = harness.make_parser(__doc__), harness.at_least_one
    parser.add_argument("--config", help="configuration file, with :VARIANT")
    parser.add_argument("--blocks", type=count, default=8, help="timed, after one more")
    parser.add_argument("--turns", type=count, default=5, help="of all placements")
    parser.add_argument("--memory", action="store_true", help="measure memory instead of times")
    parser.add_argument("--images", type=count, default=10_000, help="for --memory")
    parser.add_argument("--factor", type=count, default=20, help="how many times as many")
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
    try:
        rows = measure(config, options)
    except explain.USER_ERRORS as error:
        stop(error)
    asked = "--memory" if options.memory else " ".join([options.config, *rest])
    harness.report("placement", rows, options.out, asked, f"{options.blocks} blocks a turn")


if __name__ == "__main__":
    quietly(main)
