"""Chains of networks and of other densities, timed beside the gradients that they take.

Needs JAX and Flax only.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import _harness as harness
import jax
import jax.numpy as jnp

from ebmjax import networks, samplers
from ebmjax.types import LogDensityFn


def make_log_density(energy: str, resolution: int) -> LogDensityFn:
    """Returns that of a network, "mlp" or "conv", with random parameters, on grey images."""
    if energy == "conv":
        return make_image_density((resolution, resolution, 1), depth=10)
    network: Any = networks.MLPEnergy(hidden=(1024, 1024))
    params = network.init(jax.random.key(0), jnp.zeros(resolution**2))
    return lambda x: -network.apply(params, x.reshape(-1))


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


def compile_chain(sampler: Any, start: jax.Array, steps: int, interacting: bool) -> Chain:
    """Compiles ``steps`` steps from ``start``, with one state a chain or one of all particles."""
    init = samplers.start_chain if interacting else samplers.start_chains
    step = sampler.step if interacting else samplers.batch_step(sampler.step)

    def chain(key: jax.Array, state: Any) -> Any:
        return samplers.run_chain(key, state, step, steps, burn_in=steps)[0]

    key = jax.random.key(2)
    state = jax.jit(lambda start: init(samplers.start_key(key), sampler, start))(start)
    return Chain(*harness.compile_program(chain, key, state), key, state)


def compile_gradient(log_density_fn: LogDensityFn, start: jax.Array) -> Callable[[], Any]:
    """Returns a call for the log densities and gradients of all chains."""
    program, _ = harness.compile_program(jax.vmap(jax.value_and_grad(log_density_fn)), start)
    return lambda: program(start)


def beside_gradients(
    chain: Callable[[], Any], gradient: Callable[[], Any], steps: int, repeats: int, calls: int = 1
) -> tuple[list[float], list[float]]:
    """Returns the seconds of a chain, and of as many bare gradients, in turn.

    Args:
      chain: takes ``steps`` steps.
      gradient: takes the gradient of all chains once.
      steps: gradients for each call of ``chain``.
      repeats: timings.
      calls: of ``chain`` in one timing.
    """
    both = {
        "chain": lambda: [chain() for _ in range(calls)],
        "bare": lambda: [gradient() for _ in range(calls * steps)],
    }
    times = harness.time_in_turn(both, repeats)
    return times["chain"], times["bare"]
