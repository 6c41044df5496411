"""Repeats of a small training run on one device: all at once against one after the other.

  python benchmarks/repeats.py
  taskset -c 0 python benchmarks/repeats.py

A step of the latent EBM on images of the digits' size, batch 75, with ten powers and 20 posterior
steps: the step of R repeats as ``training.repeat_step`` takes it on this backend, and with
``train_step`` vmapped, each against R steps of single runs. Timed in turn, so that the ratios
survive a machine whose speed drifts.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import _harness as harness
import jax
import jax.numpy as jnp
import optax

from ebmjax import latent, learning, networks, samplers, training
from ebmjax.recipes.__main__ import quietly

BATCH_SIZE, IMAGE_SHAPE, LATENT_DIM = 75, (8, 8, 1), 16
TOGETHER, VMAPPED, ALONE = "repeat_step", "vmapped", "single runs"


def make_step() -> tuple[Callable[..., Any], Callable[[jax.Array], training.TrainState]]:
    """Returns the latent EBM's train step outside of any mesh, and ``key -> its first state``."""
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
    optimizer, z = optax.adam(1e-3), jnp.zeros(LATENT_DIM)

    def first_state(key: jax.Array) -> training.TrainState:
        keys = jax.random.split(key)
        params = latent.LatentParams(energy.init(keys[0], z), generator.init(keys[1], z))
        return training.init_state(params, optimizer)

    return training.make_train_step(gradient_fn, optimizer, axis_name=None), first_state


def measure(num_repeats: int, num_timings: int) -> dict[str, list[float]]:
    """Returns the seconds of each way, one entry a timing."""
    train_step, first_state = make_step()
    keys = jax.random.split(jax.random.key(0), num_repeats)
    images = jax.random.uniform(jax.random.key(1), (1, num_repeats, BATCH_SIZE, *IMAGE_SHAPE))
    states = [jax.jit(first_state)(key) for key in keys]
    stacked, single = training.stack_states(states), jax.jit(train_step)
    axes = training.state_axes(0, 1)._replace(step=None)
    vmapped = jax.vmap(train_step, in_axes=(0, axes, 1), out_axes=(axes, 0))
    ways: dict[str, Callable[[], Any]] = {
        TOGETHER: partial(jax.jit(training.repeat_step(train_step)), keys, stacked, images),
        VMAPPED: partial(jax.jit(vmapped), keys, stacked, images),
        ALONE: lambda: [single(keys[r], one, images[:, r]) for r, one in enumerate(states)],
    }
    return harness.time_in_turn(ways, num_timings)


def main() -> None:
    """Reads the command line and prints the table."""
    options = harness.make_parser(
        __doc__, repeats=(5, "of the run"), timings=(9, "of each way")
    ).parse_args()
    found = measure(options.repeats, options.timings)
    rows = [
        {
            "way": name,
            "ms a step": harness.median_ms(times) / options.repeats,
            "ratio": harness.spread_of_ratios(times, found[ALONE]),
        }
        for name, times in found.items()
    ]
    note = f"{options.repeats} repeats, median of {options.timings} timings"
    harness.report("repeats", rows, options.out, note)


if __name__ == "__main__":
    quietly(main)
