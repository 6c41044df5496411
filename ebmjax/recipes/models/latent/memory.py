"""Checks before training that the programs of a latent EBM run fit the memory.

Only chains count: the generator's activations for the gradient at all powers at once. Weights,
images and features are small.
"""

import math
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.models.latent import pilot
from ebmjax.training import make_mesh, repeats_take_turns


class Program(NamedTuple):
    """Program that runs on one device.

    Attributes:
      name: what the message calls it.
      counts: numbers whose product is the number of chains, by the words for their fields.
      chain_bytes: bytes of each chain.
      further_bytes: other bytes.
      advice: what to do besides lowering a count.
    """

    name: str
    counts: dict[str, int]
    chain_bytes: int
    further_bytes: int = 0
    advice: str = ""

    @property
    def num_bytes(self) -> int:
        """Estimated bytes."""
        return math.prod(self.counts.values()) * self.chain_bytes + self.further_bytes


def check_memory(config: Config, generator_fn: Callable[..., Any], params: Any) -> None:
    """Raises ConfigError, with the estimate, if the largest of ``programs`` exceeds the memory."""
    largest = max(programs(config, generator_fn, params), key=lambda program: program.num_bytes)
    available = available_bytes()
    if largest.num_bytes > available:
        raise ConfigError(
            f"{largest.name} needs about {largest.num_bytes / 2**30:.1f} GiB and the device has "
            f"{available / 2**30:.1f}: {' x '.join(largest.counts)}. Lower one of them"
            f"{largest.advice}."
        )


def programs(config: Config, generator_fn: Callable[..., Any], params: Any) -> list[Program]:
    """Returns the training step and the programs of the monitor, which run on a single device."""
    kept = chain_bytes(generator_fn, params, config.model.latent_dim)
    powers = {_quote(config, "loss.num_intervals", "powers"): config.loss.num_intervals}
    test = {_quote(config, "eval.num_test", "images"): config.eval.num_test}
    chains = {_quote(config, "eval.evidence.num_chains", "chains"): config.eval.evidence.num_chains}
    found = [
        _training_step(config, kept, powers),
        Program("reconstructing the monitored images", powers | test, kept),
        Program("the log evidence of a monitored image", powers | chains, kept),
    ]
    if config.loss.schedule == "adaptive":
        looked_at = {
            _quote(config, "loss.pilot_intervals", "powers"): config.loss.pilot_intervals,
            f"{pilot.IMAGES} images": pilot.IMAGES,
        }
        found.append(Program("the pilot run's look at its powers", looked_at, kept))
    return found


def _training_step(config: Config, kept: int, powers: dict[str, int]) -> Program:
    """Returns the training step of one device's shards."""
    batch_size, num_devices = config.train.batch_size, make_mesh(config.mesh.num_shards).size
    num_repeats = 1 if repeats_take_turns() else config.train.num_repeats
    images = "images" if num_devices == 1 else f"images over {num_devices} devices"
    chains = {
        _quote(config, "train.batch_size", images): batch_size // num_devices,
        _quote(config, "loss.chains_per_observation", "chains"): config.loss.chains_per_observation,
        f"{num_repeats} of {_quote(config, 'train.num_repeats', 'repeats at a time')}": num_repeats,
    }
    counts = chains if config.loss.name == "vanilla" else powers | chains
    states = {"prior": 0, "posterior": 0}
    if config.loss.name == "through_chain":
        # A position and a score for every step of a differentiated chain.
        states = {
            name: 8 * config.model.latent_dim * config.sampler[name].num_steps for name in states
        }
    return Program(
        "one training step",
        counts,
        kept + states["posterior"],
        math.prod(chains.values()) * states["prior"],
        ", or spread config.mesh.num_shards over more devices",
    )


def _quote(config: Config, field: str, unit: str) -> str:
    return f"config.{field}={config[field]} {unit}"


def chain_bytes(generator_fn: Callable[..., Any], params: Any, latent_dim: int) -> int:
    """Returns the bytes that the generator keeps for one latent's gradient, without shared ones."""

    def remembered(num_chains: int) -> int:
        z = jax.ShapeDtypeStruct((num_chains, latent_dim), jnp.float32)
        over_chains = jax.vmap(generator_fn, in_axes=(None, 0))
        _, pullback = jax.eval_shape(lambda w, z: jax.vjp(over_chains, w, z), params, z)
        leaves = jax.tree.leaves(pullback)
        return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)

    return remembered(2) - remembered(1)


def available_bytes() -> int:
    """Returns free bytes of one device, or of the machine if the device does not report them."""
    statistics = jax.local_devices()[0].memory_stats() or {}
    if "bytes_limit" in statistics:
        return statistics["bytes_limit"]
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
