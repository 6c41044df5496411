"""A train step of JEM on one device and on several: does a device more make it faster?

  python benchmarks/scaling.py
  XLA_FLAGS=--xla_force_host_platform_device_count=2 python benchmarks/scaling.py

Data-parallel as ``training.fit`` is: parameters on every device, a shard of the batch, of the
chains and of the replay buffer on each, gradients averaged. On a CPU the second line makes two
devices of it. Two questions, each device count timed in turn with one device so that the ratios
survive a machine whose speed drifts:

- strong: the same batch, divided. The speedup is the time on one device over that on n; n is best.
- weak: as many images on every device. The efficiency is that ratio, too; 1 is best.
"""

import argparse
import datetime
import platform
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
from _jem_step import make_classifier, make_train_step
from jax.sharding import NamedSharding, PartitionSpec
from sampler_throughput import at_least_one, seconds

from ebmjax import data, training
from ebmjax.recipes.__main__ import quietly


def device_counts(available: int, batch_size: int) -> list[int]:
    """1, 2, 4, ... of the devices, as far as they divide the batch."""
    counts = [2**i for i in range(available.bit_length()) if 2**i <= available]
    return [count for count in counts if batch_size % count == 0]


def make_steps(num_devices: int, batch_size: int, num_steps: int, block: int) -> Callable[[], Any]:
    """A call that takes ``block`` train steps with ``batch_size`` images on each device."""
    mesh = training.make_mesh(num_devices, jax.devices()[:num_devices])
    step, state = make_train_step(make_classifier(), batch_size, num_steps, num_devices)
    specs = training.state_axes(PartitionSpec(), PartitionSpec("data"))
    images = data.load_digits("train")
    picks = jnp.arange(block * num_devices * batch_size) % len(images.images)
    picks = picks.reshape(block, num_devices, batch_size)
    batches = jax.tree.map(lambda leaf: jnp.asarray(leaf)[picks], (images, images))

    def steps(key: jax.Array, state: training.TrainState, batches: Any) -> Any:
        def body(state: training.TrainState, batch: Any) -> tuple[training.TrainState, Any]:
            return step(jax.random.fold_in(key, state.step), state, batch)

        return jax.lax.scan(body, state, batches)

    sharded = jax.shard_map(
        steps,
        mesh=mesh,
        in_specs=(PartitionSpec(), specs, PartitionSpec(None, "data")),
        out_specs=(specs, PartitionSpec()),
        check_vma=False,
    )
    placed = jax.device_put(batches, NamedSharding(mesh, PartitionSpec(None, "data")))
    return partial(jax.jit(sharded), jax.random.key(0), state, placed)


def measure(
    counts: list[int], batch_size: int, num_steps: int, block: int, num_timings: int
) -> dict[str, dict[int, list[float]]]:
    """Seconds a step by question and number of devices, one entry a timing."""
    found: dict[str, dict[int, list[float]]] = {}
    for question in ("strong", "weak"):
        sizes = {n: batch_size // n if question == "strong" else batch_size for n in counts}
        calls = {n: make_steps(n, size, num_steps, block) for n, size in sizes.items()}
        for call in calls.values():
            jax.block_until_ready(call())
        found[question] = {n: [] for n in counts}
        for _ in range(num_timings):
            for n, call in calls.items():
                found[question][n].append(seconds(call) / block)
    return found


def table(found: dict[str, dict[int, list[float]]], batch_size: int) -> str:
    """A line for each question and number of devices."""
    lines = [
        f"{'':8}{'devices':>8}{'images each':>13}{'ms a step':>11}{'ratio':>8}{'(min-max)':>14}"
    ]
    for question, by_count in found.items():
        for n, times in by_count.items():
            ratios = [one / many for one, many in zip(by_count[1], times, strict=True)]
            each = batch_size // n if question == "strong" else batch_size
            spread = f"({min(ratios):.2f}-{max(ratios):.2f})"
            lines.append(
                f"{question:8}{n:8}{each:13}{1e3 * median(times):11.1f}{median(ratios):8.2f}"
                f"{spread:>14}"
            )
    return "\n".join(lines)


def main() -> None:
    """Reads the command line and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=at_least_one, default=64, help="images, and chains")
    parser.add_argument("--steps", type=at_least_one, default=10, help="of each chain")
    parser.add_argument("--block", type=at_least_one, default=10, help="train steps in a timing")
    parser.add_argument("--timings", type=at_least_one, default=7, help="of each device count")
    options = parser.parse_args()
    counts = device_counts(len(jax.devices()), options.batch)
    found = measure(counts, options.batch, options.steps, options.block, options.timings)
    device = jax.devices()[0]
    print(
        f"{datetime.date.today()}  {device.device_kind} x{len(jax.devices())}  jax "
        f"{jax.__version__}  python {platform.python_version()}  {options.steps} steps, median of "
        f"{options.timings} timings of {options.block} steps"
    )
    print(table(found, options.batch))


if __name__ == "__main__":
    quietly(main)
