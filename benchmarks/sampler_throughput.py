"""Steps per second of every sampler, and what a step costs beside the gradient it needs.

  python benchmarks/sampler_throughput.py
  python benchmarks/sampler_throughput.py --chains 64 1024 --resolutions 16 32 --steps 50
  python benchmarks/sampler_throughput.py --samplers sgld_in_training --steps 5 10 20
  python benchmarks/sampler_throughput.py --energies wrn_28_10 --dtype bfloat16 --product 8192

Each chain of --steps steps is timed against as many bare jitted gradients of the same energy, one
after the other within each repeat, so that the ratio survives a machine whose speed drifts. A
ratio of 1 means that the sampler costs nothing. Prints one table; with --out also writes it as
text and JSON, with a figure. The same on CPU, GPU and TPU.

With --product the table also has the gradient's operations a second, as its program is written, and
their share of the rate of a product of two matrices with so many rows and columns.
"""

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import _chains
import _harness as harness
import jax
import jax.numpy as jnp
from _chain_limits import product_rate

from ebmjax import metrics, samplers
from ebmjax.recipes.__main__ import quietly
from ebmjax.recipes.parts import samplers as recipes
from ebmjax.types import LogDensityFn, Sampler

SAMPLERS = {
    name: entry for name, entry in recipes.PLAIN.items() if hasattr(samplers, f"{name}_step")
}
"""Samplers of the library that one function is enough for, by the table of recipes."""
IN_TRAINING = "sgld_in_training"
"""SGLD as joint models train with it, by ``learning.run_chains``."""
GRADIENTS = 20
"""Number of gradients in one timing, at least."""
SETTINGS = {"step_size": 1e-3, "damping": 1.0}
"""Values in place of the table's, for samplers that have the field: no chain runs away."""


def bind(name: str, log_density_fn: LogDensityFn) -> Sampler:
    """Returns the sampler at the table's values, but for ``SETTINGS``."""
    options = recipes.defaults(name)
    options |= {field: value for field, value in SETTINGS.items() if field in options}
    return SAMPLERS[name].make(log_density_fn, **options)


def measure(
    energy: str, resolution: int, chains: int, options: Any, peak: float | None
) -> Iterator[harness.Row]:
    """Times a chain of each sampler against its bare gradients.

    ``peak`` is the rate that the gradient's is compared with, if any: operations a second.
    """
    log_density_fn, shape = _chains.make_log_density(energy, resolution, options.dtype)
    start = jax.random.uniform(jax.random.key(1), (chains, *shape))
    gradient, compile_seconds = _chains.compile_gradient(log_density_fn, start)
    flops = metrics.compiled_flops(jax.vmap(jax.value_and_grad(log_density_fn)), start)
    for name, steps in itertools.product(options.samplers, options.steps):
        if name == IN_TRAINING:
            sampler = partial(bind, "sgld")
            chain = _chains.compile_training_chain(sampler, log_density_fn, start, steps)
        else:
            sampler, is_interacting = bind(name, log_density_fn), SAMPLERS[name].interacting
            chain = _chains.compile_chain(sampler, start, steps, is_interacting)
        calls = -(-GRADIENTS // steps)
        ours, bare = _chains.beside_gradients(chain, gradient, steps, options.repeats, calls)
        gradient_ms = harness.median_ms(bare) / (calls * steps)
        row = {
            "energy": energy,
            "pixels": resolution,
            "chains": chains,
            "sampler": name,
            "steps": steps,
            "steps/s": 1e3 * calls * steps / harness.median_ms(ours),
            "ratio": harness.spread_of_ratios(ours, bare),
            "gradient ms": gradient_ms,
            "compile s": chain.compile_seconds,
            "peak MiB": harness.memory_mib(chain.program)["peak"],
        }
        if peak:
            row["gradient 10⁹ op./s"] = 1e-6 * flops / gradient_ms
            row["of peak"] = 1e3 * flops / gradient_ms / peak
            row["its compile s"] = compile_seconds
        yield row


def main() -> None:
    """Measures every combination and reports."""
    parser = harness.make_parser(
        __doc__,
        resolutions=([8, 16], "pixels a side"),
        chains=([64, 256], "side by side"),
        steps=([20], "of each chain"),
        repeats=(5, "timings"),
    )
    names = [*SAMPLERS, IN_TRAINING]
    parser.add_argument("--energies", nargs="+", default=["mlp", "conv"], choices=_chains.ENERGIES)
    parser.add_argument("--samplers", nargs="+", default=list(SAMPLERS), choices=names)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], help="of wide ResNets")
    parser.add_argument("--product", type=harness.at_least_one, help="rows of the matrices")
    options = parser.parse_args()
    options.dtype = options.dtype and jnp.dtype(options.dtype)
    note, peak = f"median of {options.repeats} repeats", None
    if options.product:
        dtype = options.dtype or jnp.float32
        peak = product_rate(options.product, options.repeats, dtype)
        note += f", peak {peak / 1e9:.4g} 10⁹ {jnp.dtype(dtype).name} operations a second"
    grid = itertools.product(options.energies, options.resolutions, options.chains)
    rows = [row for one in grid for row in measure(*one, options, peak)]
    harness.report("sampler_throughput", rows, options.out, note)


if __name__ == "__main__":
    quietly(main)
