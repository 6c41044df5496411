"""Steps per second of every sampler, and what a step costs beside the gradient it needs.

  python benchmarks/sampler_throughput.py
  python benchmarks/sampler_throughput.py --chains 64 1024 --resolutions 16 32 --steps 50

Each chain of --steps steps is timed against as many bare jitted gradients of the same energy, one
after the other within each repeat, so that the ratio survives a machine whose speed drifts. A
ratio of 1 means that the sampler costs nothing. Prints one table; with --out also writes it as
text and JSON, with a figure. The same on CPU, GPU and TPU.
"""

import _harness as harness
import jax
from _chains import beside_gradients, compile_chain, compile_gradient, make_log_density

from ebmjax import samplers
from ebmjax.recipes.__main__ import quietly
from ebmjax.recipes.parts import samplers as recipes
from ebmjax.types import LogDensityFn, Sampler

SAMPLERS = {
    name: entry for name, entry in recipes.PLAIN.items() if hasattr(samplers, f"{name}_step")
}
"""Samplers of the library that one function is enough for, by the table of recipes."""
SETTINGS = {"step_size": 1e-3, "damping": 1.0}
"""Values in place of the table's, for samplers that have the field: no chain runs away."""


def bind(name: str, log_density_fn: LogDensityFn) -> Sampler:
    """Returns the sampler at the table's values, but for ``SETTINGS``."""
    options = recipes.defaults(name)
    options |= {field: value for field, value in SETTINGS.items() if field in options}
    return SAMPLERS[name].make(log_density_fn, **options)


def measure(
    energy: str, resolution: int, chains: int, name: str, steps: int, repeats: int
) -> harness.Row:
    """Times one chain against its bare gradients."""
    log_density_fn = make_log_density(energy, resolution)
    start = jax.random.uniform(jax.random.key(1), (chains, resolution, resolution, 1))
    chain = compile_chain(
        bind(name, log_density_fn), start, steps, interacting=SAMPLERS[name].interacting
    )
    gradient = compile_gradient(log_density_fn, start)
    ours, bare = beside_gradients(chain, gradient, steps, repeats)
    return {
        "energy": energy,
        "pixels": resolution,
        "chains": chains,
        "sampler": name,
        "steps/s": 1e3 * steps / harness.median_ms(ours),
        "ratio": harness.spread_of_ratios(ours, bare),
        "gradient ms": harness.median_ms(bare) / steps,
        "compile s": chain.compile_seconds,
        "peak MiB": harness.memory_mib(chain.program)["peak"],
    }


def main() -> None:
    """Measures every combination and reports."""
    parser, count = harness.make_parser(__doc__), harness.at_least_one
    parser.add_argument("--energies", nargs="+", default=["mlp", "conv"], choices=["mlp", "conv"])
    parser.add_argument("--resolutions", nargs="+", type=count, default=[8, 16])
    parser.add_argument("--chains", nargs="+", type=count, default=[64, 256])
    parser.add_argument("--samplers", nargs="+", default=list(SAMPLERS), choices=list(SAMPLERS))
    parser.add_argument("--steps", type=count, default=20)
    parser.add_argument("--repeats", type=count, default=5)
    options = parser.parse_args()
    rows = [
        measure(energy, resolution, chains, name, options.steps, options.repeats)
        for energy in options.energies
        for resolution in options.resolutions
        for chains in options.chains
        for name in options.samplers
    ]
    note = f"{options.steps} steps, median of {options.repeats} repeats"
    harness.report("sampler_throughput", rows, options.out, note)


if __name__ == "__main__":
    quietly(main)
