"""Repeats of a small training run on one device: all at once against one after the other.

  python benchmarks/repeats.py
  taskset -c 0 python benchmarks/repeats.py

A step of the latent EBM on images of the digits' size, batch 75, with ten powers and 20 posterior
steps: the step of R repeats as ``training.repeat_step`` takes it on this backend, and with
``train_step`` vmapped, each against R steps of single runs. Timed in turn, so that the ratios
survive a machine whose speed drifts.
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
import optax
from sampler_throughput import at_least_one, seconds

from ebmjax import latent, learning, networks, samplers, training
from ebmjax.recipes.__main__ import quietly

LATENT_DIM, BATCH_SIZE, IMAGE_SHAPE = 16, 75, (8, 8, 1)
TOGETHER, VMAPPED, ALONE = "repeat_step", "vmapped", "single runs"


def make_step() -> tuple[Callable[..., Any], Callable[[jax.Array], training.TrainState]]:
    """The train step of a single run, outside of any mesh, and ``key -> its first state``."""
    energy = networks.LatentEnergy(hidden=(100, 100))
    generator = networks.ConvGenerator(features=(64,), channels=IMAGE_SHAPE[-1])
    gradient_fn = learning.make_latent_gradient_fn(
        latent.LatentModel(energy.apply, generator.apply),
        latent.LatentChains(
            LATENT_DIM,
            prior_sampler=partial(samplers.sgld, step_size=0.16),
            prior_steps=60,
            posterior_sampler=partial(samplers.sgld, step_size=0.04),
            posterior_steps=20,
        ),
        observe=lambda batch: batch,
        powers=latent.power_schedule(10, 6.0),
        loss_fn=latent.tempered_loss,
    )
    optimizer = optax.adam(1e-3)

    def first_state(key: jax.Array) -> training.TrainState:
        keys, z = jax.random.split(key), jnp.zeros(LATENT_DIM)
        params = latent.LatentParams(energy.init(keys[0], z), generator.init(keys[1], z))
        return training.init_state(params, optimizer)

    return training.make_train_step(gradient_fn, optimizer, axis_name=None), first_state


def vmapped(train_step: Callable[..., Any]) -> Callable[..., Any]:
    """All repeats at once, whatever the backend."""
    axes = training.state_axes(0, 1)._replace(step=None)
    return jax.vmap(train_step, in_axes=(0, axes, 1), out_axes=(axes, 0))


def measure(num_repeats: int, num_timings: int) -> dict[str, list[float]]:
    """Seconds a repeat and step of each way, one entry a timing."""
    train_step, first_state = make_step()
    keys = jax.random.split(jax.random.key(0), num_repeats)
    images = jax.random.uniform(jax.random.key(1), (1, num_repeats, BATCH_SIZE, *IMAGE_SHAPE))
    states = [jax.jit(first_state)(key) for key in keys]
    stacked = training.stack_states(states)
    single = jax.jit(train_step)
    joined = {
        TOGETHER: jax.jit(training.repeat_step(train_step)),
        VMAPPED: jax.jit(vmapped(train_step)),
    }
    ways: dict[str, Callable[[], Any]] = {
        name: partial(step, keys, stacked, images) for name, step in joined.items()
    }
    ways[ALONE] = lambda: [single(keys[r], state, images[:, r]) for r, state in enumerate(states)]
    found: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        jax.block_until_ready(way())
    for _ in range(num_timings):
        for name, way in ways.items():
            found[name].append(seconds(way) / num_repeats)
    return found


def main() -> None:
    """Reads the command line and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=at_least_one, default=5, help="of the run")
    parser.add_argument("--timings", type=at_least_one, default=9, help="of each way")
    options = parser.parse_args()
    found = measure(options.repeats, options.timings)
    print(
        f"{datetime.date.today()}  {jax.default_backend()}  jax {jax.__version__}  "
        f"python {platform.python_version()}  {options.repeats} repeats, median of "
        f"{options.timings} timings"
    )
    print(f"{'':14}{'ms a step':>10}{'ratio':>8}")
    for name, values in found.items():
        ratios = [a / b for a, b in zip(values, found[ALONE], strict=True)]
        print(f"{name:14}{1e3 * median(values):10.1f}{median(ratios):8.2f}")


if __name__ == "__main__":
    quietly(main)
