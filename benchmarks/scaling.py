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

from collections.abc import Callable
from functools import partial
from typing import Any

import _harness as harness
import jax
import jax.numpy as jnp
from _jem_step import make_jem_step
from jax.sharding import NamedSharding, PartitionSpec

from ebmjax import data, training
from ebmjax.recipes.__main__ import quietly


def device_counts(available: int, batch_size: int) -> list[int]:
    """Returns 1, 2, 4, ... of the devices, as far as they divide the batch."""
    counts = [2**i for i in range(available.bit_length()) if 2**i <= available]
    return [count for count in counts if batch_size % count == 0]


def make_steps(num_devices: int, batch_size: int, num_steps: int, block: int) -> Callable[[], Any]:
    """Returns a call of ``block`` train steps with ``batch_size`` images on each device."""
    mesh = training.make_mesh(num_devices, jax.devices()[:num_devices])
    step, state = make_jem_step(batch_size, num_steps, num_devices)
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


def measure(question: str, counts: list[int], options: Any) -> list[harness.Row]:
    """Times every number of devices in turn; returns a row for each."""
    sizes = {n: options.batch // n if question == "strong" else options.batch for n in counts}
    calls = {str(n): make_steps(n, size, options.steps, options.block) for n, size in sizes.items()}
    times = harness.time_in_turn(calls, options.timings)
    return [
        {
            "question": question,
            "devices": n,
            "images each": size,
            "ms a step": harness.median_ms(times[str(n)]) / options.block,
            "ratio": harness.spread_of_ratios(times["1"], times[str(n)]),
        }
        for n, size in sizes.items()
    ]


def main() -> None:
    """Reads the command line and prints the table."""
    parser = harness.make_parser(__doc__)
    parser.add_argument("--batch", type=harness.at_least_one, default=64, help="images, and chains")
    parser.add_argument("--steps", type=harness.at_least_one, default=10, help="of each chain")
    parser.add_argument(
        "--block", type=harness.at_least_one, default=10, help="train steps in a timing"
    )
    parser.add_argument(
        "--timings", type=harness.at_least_one, default=7, help="of each device count"
    )
    options = parser.parse_args()
    counts = device_counts(jax.device_count(), options.batch)
    rows = [row for question in ("strong", "weak") for row in measure(question, counts, options)]
    note = f"{options.steps} steps, median of {options.timings} timings of {options.block} steps"
    harness.report("scaling", rows, options.out, note)


if __name__ == "__main__":
    quietly(main)
