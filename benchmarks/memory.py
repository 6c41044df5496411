"""Measures the memory of a run whose training images lie in memory or on the disk.

  python benchmarks/memory.py

Trains a small energy of random images for a few blocks, each time in a new process, and prints the
process's memory at its peak (resident set), with the digest of all data that a run makes at its
start. The images are .npy files in a temporary folder. ``compare.py`` times the same placements.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import _harness as harness
import numpy as np

from ebmjax.recipes.__main__ import quietly

PLACEMENTS = ("device", "host", "disk")
SIDE = 32
AT_ONCE = 4096
CACHED_FROM = "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
SMALL = (
    "--config.model.factory=",
    "--config.data.name=npz",
    "--config.data.holdout=32",
    "--config.data.max_train=None",
    "--config.data.image_size=None",
    "--config.data.num_classes=0",
    "--config.model.features=(4,8)",
    "--config.sampler.num_steps=1",
)


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


def in_a_process(folder: Path, placement: str, num_blocks: int) -> float:
    """Returns the MiB that a process holds at its peak, as ``configuration.py`` prints them."""
    script = Path(__file__).resolve().with_name("configuration.py")
    data = [f"--config.data.path={folder}", f"--config.data.placement={placement}"]
    command = [sys.executable, script, "--config=configs/image.py", f"--blocks={num_blocks}"]
    command += [*SMALL, *data]
    kept = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(folder.parent), CACHED_FROM: "0.1"}
    found = subprocess.run(command, env=kept, check=True, stdout=subprocess.PIPE, text=True)
    (text,) = (line for line in found.stdout.splitlines() if line.startswith("process "))
    return float(text.split()[1])


def measure(num_images: int, factor: int, num_blocks: int) -> list[harness.Row]:
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
            peaks = [in_a_process(folder, placement, num_blocks) for folder in folders]
            found = {f"MiB, {n:,} images": mib for n, mib in zip(sizes, peaks, strict=True)}
            rows.append({"placement": placement, **found, "MiB more": peaks[1] - peaks[0]})
    images = [size * SIDE * SIDE * 3 / 2**20 for size in sizes]
    own = dict(zip(rows[0], ["the images", *images, images[1] - images[0]], strict=True))
    return [*rows, own]


def main() -> None:
    """Measures all placements."""
    options = harness.make_parser(
        __doc__,
        blocks=(8, "trained, after one more"),
        images=(10_000, "of the smaller set"),
        factor=(20, "how many times as many the larger set has"),
    ).parse_args()
    rows = measure(options.images, options.factor, options.blocks)
    harness.report("memory", rows, options.out, f"{options.blocks} blocks")


if __name__ == "__main__":
    quietly(main)
