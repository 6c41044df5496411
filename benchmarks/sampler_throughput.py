"""Steps per second of every sampler, and what a step costs beside the gradient it needs.

  python benchmarks/run.py sampler_throughput --chains 64 1024 --resolutions 16 32 --steps 50
  python benchmarks/run.py sampler_throughput --energies wrn_28_10 --resolutions 32 --dtype bfloat16

Each chain of --steps steps is timed against as many bare jitted gradients of the same energy, one
after the other within each repeat, on one device. A ratio of 1 means that the sampler costs
nothing. The gradient's operations are those of its program as written.
"""

import argparse
import itertools
from collections.abc import Iterator
from functools import partial
from statistics import median
from typing import Any

import _chains
import _harness as harness
import jax
import jax.numpy as jnp

from ebmjax import metrics, samplers
from ebmjax.recipes.parts import samplers as recipes
from ebmjax.types import LogDensityFn, Sampler

SAMPLERS = {
    name: entry for name, entry in recipes.PLAIN.items() if hasattr(samplers, f"{name}_step")
}
"""Samplers of the library that one function is enough for, by the table of recipes."""
GRADIENTS = 20
"""Number of gradients in one timing, at least."""
SETTINGS = {"step_size": 1e-3, "damping": 1.0}
"""Values in place of the table's, for samplers that have the field: no chain runs away."""


def bind(name: str, log_density_fn: LogDensityFn) -> Sampler:
    """Returns the sampler at the table's values, but for ``SETTINGS``."""
    options = recipes.defaults(name)
    options |= {field: value for field, value in SETTINGS.items() if field in options}
    return SAMPLERS[name].make(log_density_fn, **options)


def measure(energy: str, resolution: int, chains: int, options: Any) -> Iterator[harness.Row]:
    """Times a chain of each sampler against its bare gradients."""
    log_density_fn, shape = _chains.make_log_density(energy, resolution, options.dtype)
    start = jax.random.uniform(jax.random.key(1), (chains, *shape))
    function = jax.vmap(jax.value_and_grad(log_density_fn))
    program, _ = harness.compile_program(function, start)
    gradient, flops = partial(program, start), metrics.compiled_flops(function, start)
    for name, steps in itertools.product(options.samplers, options.steps):
        sampler, is_interacting = bind(name, log_density_fn), SAMPLERS[name].interacts
        chain = _chains.compile_chain(sampler, start, steps, is_interacting)
        calls = -(-GRADIENTS // steps)
        both = {
            "chain": partial(harness.time_call, chain, calls),
            "bare": partial(harness.time_call, gradient, calls * steps),
        }
        times = harness.take_turns(both, options.repeats)
        gradient_ms = 1e3 * median(times["bare"])
        yield {
            "energy": energy,
            "pixels": resolution,
            "chains": chains,
            "sampler": name,
            "steps": steps,
            "steps/s": steps / median(times["chain"]),
            "ratio": harness.spread_of_ratios(times["chain"], [steps * x for x in times["bare"]]),
            "gradient ms": gradient_ms,
            "gradient 10⁹ op./s": 1e-6 * flops / gradient_ms,
            "compile s": chain.compile_seconds,
            "peak MiB": harness.memory_mib(chain.program)["peak"],
        }


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what this benchmark reads."""
    for name, numbers, text in (
        ("resolutions", [8, 16], "pixels a side"),
        ("chains", [64, 256], "side by side"),
        ("steps", [20], "of each chain"),
    ):
        text = f"{text} {numbers}"
        parser.add_argument(f"--{name}", nargs="+", type=int, default=numbers, help=text)
    parser.add_argument("--repeats", type=int, default=5, help="timings (5)")
    parser.add_argument("--energies", nargs="+", default=["mlp", "conv"], choices=_chains.ENERGIES)
    parser.add_argument("--samplers", nargs="+", default=list(SAMPLERS), choices=SAMPLERS)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], help="of wide ResNets")


def rows(_: str, options: Any) -> Iterator[harness.Row]:
    """Measures every combination."""
    options.dtype = options.dtype and jnp.dtype(options.dtype)
    for one in itertools.product(options.energies, options.resolutions, options.chains):
        yield from measure(*one, options)
