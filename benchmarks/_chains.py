"""Chains of networks and of other densities, compiled for one device or spread over several."""

from typing import Any, NamedTuple

import _harness as harness
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, PartitionSpec

from ebmjax import networks, samplers
from ebmjax.types import LogDensityFn

WIDE_RESNETS = {"conv": (10, 1, 1), "wrn_28_10": (28, 10, 3)}
"""Depth, width and channels of the images."""
ENERGIES = ("mlp", "conv", "wrn_28_10", "gaussian")


def make_log_density(
    energy: str, side: int, dtype: Any = None
) -> tuple[LogDensityFn, tuple[int, ...]]:
    """Returns a log density of ``ENERGIES`` and the shape of its images, ``side`` pixels a side.

    Networks have random parameters. ``dtype`` is that of a wide ResNet.
    """
    if energy in WIDE_RESNETS:
        depth, widen_factor, channels = WIDE_RESNETS[energy]
        shape = (side, side, channels)
        return make_image_density(shape, depth, widen_factor, dtype=dtype), shape
    if energy == "gaussian":
        return log_gaussian, (side, side, 3)
    network: Any = networks.MLPEnergy(hidden=(1024, 1024))
    params = network.init(jax.random.key(0), jnp.zeros(side**2))
    return lambda x: -network.apply(params, x.reshape(-1)), (side, side, 1)


def make_image_density(
    shape: tuple[int, ...], depth: int, widen_factor: int = 1, **options: Any
) -> LogDensityFn:
    """Returns log p(x) of a wide ResNet with random parameters, on images of ``shape``."""
    network: Any = networks.WideResNet(depth, widen_factor, 10, **options)
    params = jax.jit(network.init)(jax.random.key(0), jnp.zeros(shape))
    return lambda x: jax.nn.logsumexp(network.apply(params, x))


def log_gaussian(x: jax.Array) -> jax.Array:
    """Returns the log density of N(0, I), without its constant."""
    return -0.5 * jnp.sum(x**2)


class Chain(NamedTuple):
    """A compiled chain and what it starts from."""

    program: Any
    compile_seconds: float
    key: jax.Array
    state: Any

    def __call__(self) -> Any:
        """Returns the last state."""
        return self.program(self.key, self.state)


def compile_chain(
    sampler: Any, start: jax.Array, steps: int, is_interacting: bool = False, num_devices: int = 1
) -> Chain:
    """Compiles ``steps`` steps from ``start``, with one state a chain or one of all particles.

    Chains are spread over ``num_devices``, as a user would: by where they start.
    """
    init = samplers.start_chain if is_interacting else samplers.start_chains
    step = sampler.step if is_interacting else samplers.batch_step(sampler.step)

    def chain(key: jax.Array, state: Any) -> Any:
        return samplers.run_chain(key, state, step, steps, burn_in=steps)[0]

    mesh = jax.make_mesh((num_devices,), ("chains",), (AxisType.Explicit,))
    with jax.set_mesh(mesh):
        start = jax.device_put(start, PartitionSpec(None if is_interacting else "chains"))
        key = jax.device_put(jax.random.key(2), PartitionSpec())
        state = jax.jit(lambda start: init(samplers.start_key(key), sampler, start))(start)
        return Chain(*harness.compile_program(chain, key, state), key, state)
