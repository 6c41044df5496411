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

BATCH_SIZE, IMAGE_SHAPE = 75, (8, 8, 1)
TOGETHER, VMAPPED, ALONE = "repeat_step", "vmapped", "single runs"


CHAINS = latent.LatentChains(
    16,
    prior_sampler=partial(samplers.sgld, step_size=0.16),
    prior_steps=60,
    posterior_sampler=partial(samplers.sgld, step_size=0.04),
    posterior_steps=20,
)


def make_step(
    chains: latent.LatentChains = CHAINS,
    *,
    hidden: tuple[int, ...] = (100, 100),
    features: tuple[int, ...] = (64,),
    channels: int = IMAGE_SHAPE[-1],
    observe: Callable[[Any], jax.Array] = lambda batch: batch,
    num_powers: int = 10,
    learning_rate: float = 1e-3,
    axis_name: str | None = None,
) -> tuple[Callable[..., Any], Callable[[jax.Array], training.TrainState], tuple[int, ...]]:
    """Returns the latent EBM's train step, ``key -> its first state``, and an image's shape.

    ``observe`` makes images of a batch. All ``num_powers`` run in parallel. Without ``axis_name``
    the step is outside of any mesh.
    """
    energy = networks.LatentEnergy(hidden=hidden)
    generator = networks.ConvGenerator(features=features, channels=channels)
    gradient_fn = learning.make_latent_gradient_fn(
        latent.LatentModel(energy.apply, generator.apply),
        chains,
        observe=observe,
        powers=latent.power_schedule(num_powers, 6.0),
        loss_fn=latent.tempered_loss,
    )
    optimizer, z = optax.adam(learning_rate), jnp.zeros(chains.latent_dim)

    def first_state(key: jax.Array) -> training.TrainState:
        keys = jax.random.split(key)
        params = latent.LatentParams(energy.init(keys[0], z), generator.init(keys[1], z))
        return training.init_state(params, optimizer)

    shape = jax.eval_shape(generator.init_with_output, jax.random.key(0), z)[0].shape
    step = training.make_train_step(gradient_fn, optimizer, axis_name=axis_name)
    return step, first_state, shape


def vmap_repeats(train_step: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a step of all repeats at once, whatever the backend."""
    axes = training.state_axes(0, 1)._replace(step=None)
    return jax.vmap(train_step, in_axes=(0, axes, 1), out_axes=(axes, 0))


def measure(num_repeats: int, num_timings: int) -> dict[str, list[float]]:
    """Returns the seconds of each way, one entry a timing."""
    train_step, first_state, _ = make_step()
    keys = jax.random.split(jax.random.key(0), num_repeats)
    images = jax.random.uniform(jax.random.key(1), (1, num_repeats, BATCH_SIZE, *IMAGE_SHAPE))
    states = [jax.jit(first_state)(key) for key in keys]
    stacked, single = training.stack_states(states), jax.jit(train_step)
    ways: dict[str, Callable[[], Any]] = {
        name: partial(jax.jit(step), keys, stacked, images)
        for name, step in {
            TOGETHER: training.repeat_step(train_step),
            VMAPPED: vmap_repeats(train_step),
        }.items()
    }
    ways[ALONE] = lambda: [single(keys[r], state, images[:, r]) for r, state in enumerate(states)]
    return harness.time_in_turn(ways, num_timings)


def main() -> None:
    """Reads the command line and prints the table."""
    parser = harness.make_parser(__doc__)
    parser.add_argument("--repeats", type=harness.at_least_one, default=5, help="of the run")
    parser.add_argument("--timings", type=harness.at_least_one, default=9, help="of each way")
    options = parser.parse_args()
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
