"""Steps per second of every sampler, and what a step costs beside the gradient it needs.

  python benchmarks/sampler_throughput.py
  python benchmarks/sampler_throughput.py --chains 64 1024 --resolutions 16 32 --steps 50

Each chain of --steps steps is timed against as many bare jitted gradients of the same energy, one
after the other within each repeat, so that the ratio survives a machine whose speed drifts. A
ratio of 1 means that the sampler costs nothing. Prints one table; with --out also writes it as
text and JSON, with a plot. The same on CPU, GPU and TPU.
"""

import argparse
import datetime
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import networks, samplers
from ebmjax.recipes import samplers as recipes
from ebmjax.recipes.__main__ import quietly
from ebmjax.types import LogDensityFn, Sampler

SAMPLERS = {
    name: entry for name, entry in recipes.PLAIN.items() if hasattr(samplers, f"{name}_step")
}
"""Samplers of the library that one function is enough for, by the table of recipes."""
SETTINGS = {"step_size": 1e-3, "damping": 1.0}
"""Values in place of the table's, for samplers that have the field: no chain runs away."""


def bound(name: str, log_density_fn: LogDensityFn) -> Sampler:
    """The sampler at the table's values, but for ``SETTINGS``."""
    options = recipes.defaults(name)
    options |= {field: value for field, value in SETTINGS.items() if field in options}
    return SAMPLERS[name].make(log_density_fn, **options)


class Row(NamedTuple):
    """One measurement: medians over the repeats.

    Attributes:
      energy: "mlp" or "conv".
      resolution: side of the image in pixels.
      chains: chains, or particles.
      sampler: its name.
      steps_per_second: of all chains together.
      ratio: time of the chain over the time of as many bare gradients.
      ratio_low: smallest ratio of the repeats.
      ratio_high: largest.
      gradient_ms: one bare gradient of all chains.
      compile_seconds: of the chain.
      peak_mib: arguments, results and temporaries of the compiled chain, as XLA counts them.
    """

    energy: str
    resolution: int
    chains: int
    sampler: str
    steps_per_second: float
    ratio: float
    ratio_low: float
    ratio_high: float
    gradient_ms: float
    compile_seconds: float
    peak_mib: float


def log_density(energy: str, resolution: int) -> LogDensityFn:
    """A randomly initialised network over grey images (resolution, resolution, 1)."""
    shape = (resolution, resolution, 1)
    if energy == "mlp":
        network: Any = networks.MLPEnergy(hidden=(1024, 1024))
        params = network.init(jax.random.key(0), jnp.zeros(resolution**2))
        return lambda x: -network.apply(params, x.reshape(-1))
    classifier: Any = networks.WideResNet(depth=10, widen_factor=1, num_classes=10)
    params = classifier.init(jax.random.key(0), jnp.zeros(shape))
    return lambda x: jax.nn.logsumexp(classifier.apply(params, x))


class Chain(NamedTuple):
    """A compiled chain and what it starts from."""

    program: Any
    compile_seconds: float
    key: jax.Array
    state: Any

    def __call__(self) -> Any:
        """The last state."""
        return self.program(self.key, self.state)


def compiled_chain(sampler: Any, name: str, start: jax.Array, steps: int) -> Chain:
    """``steps`` steps of all chains from ``start``, one state a chain or one of all particles."""
    is_particles = SAMPLERS[name].interacting
    init = samplers.start_chain if is_particles else samplers.start_chains
    step = sampler.step if is_particles else samplers.batch_step(sampler.step)

    def chain(key: jax.Array, state: Any) -> Any:
        return samplers.run_chain(key, state, step, steps, burn_in=steps)[0]

    key = jax.random.key(2)
    state = jax.jit(lambda start: init(samplers.start_key(key), sampler, start))(start)
    started = time.perf_counter()
    program = jax.jit(chain).lower(key, state).compile()
    return Chain(program, time.perf_counter() - started, key, state)


def measure(energy: str, resolution: int, chains: int, name: str, steps: int, repeats: int) -> Row:
    """Times one chain against its bare gradients."""
    log_density_fn = log_density(energy, resolution)
    start = jax.random.uniform(jax.random.key(1), (chains, resolution, resolution, 1))
    chain = compiled_chain(bound(name, log_density_fn), name, start, steps)
    gradient = jax.jit(jax.vmap(jax.value_and_grad(log_density_fn))).lower(start).compile()

    def bare() -> Any:
        return [gradient(start) for _ in range(steps)]

    timings = [(seconds(bare), seconds(chain)) for _ in range(repeats + 1)]
    bare_seconds, chain_seconds = np.array(timings[1:]).T  # the first warms up
    ratios = chain_seconds / bare_seconds
    return Row(
        energy,
        resolution,
        chains,
        name,
        steps_per_second=float(steps / np.median(chain_seconds)),
        ratio=float(np.median(ratios)),
        ratio_low=float(ratios.min()),
        ratio_high=float(ratios.max()),
        gradient_ms=float(1e3 * np.median(bare_seconds) / steps),
        compile_seconds=chain.compile_seconds,
        peak_mib=peak_mib(chain.program),
    )


def seconds(function: Callable[[], Any]) -> float:
    """Wall time until the device has finished."""
    started = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - started


def peak_mib(compiled: Any) -> float:
    """Memory that the compiled program holds at once, in MiB."""
    memory = compiled.memory_analysis()
    total = memory.argument_size_in_bytes + memory.output_size_in_bytes
    return (total + memory.temp_size_in_bytes) / 2**20


def table(rows: list[Row]) -> str:
    """The rows as aligned text."""
    header = (
        f"{'energy':6} {'pixels':>6} {'chains':>6} {'sampler':17} {'steps/s':>9} "
        f"{'ratio':>6} {'(min-max)':>13} {'grad ms':>8} {'compile s':>9} {'peak MiB':>9}"
    )
    lines = [
        f"{r.energy:6} {r.resolution:6d} {r.chains:6d} {r.sampler:17} {r.steps_per_second:9.1f} "
        f"{r.ratio:6.2f} {f'({r.ratio_low:.2f}-{r.ratio_high:.2f})':>13} {r.gradient_ms:8.2f} "
        f"{r.compile_seconds:9.2f} {r.peak_mib:9.1f}"
        for r in rows
    ]
    return "\n".join([header, "-" * len(header), *lines])


def machine(options: argparse.Namespace) -> str:
    """Date, device and versions, for the head of the table."""
    device = jax.devices()[0]
    return (
        f"{datetime.date.today()}  {device.device_kind} x{len(jax.devices())}  jax "
        f"{jax.__version__}  python {platform.python_version()}  {options.steps} steps, median of "
        f"{options.repeats} repeats"
    )


def plot(rows: list[Row], path: Path, title: str) -> None:
    """Ratio to bare gradients, a group of bars for each setting."""
    from ebmjax.recipes.core.plots import figure, legend

    settings = sorted({(r.energy, r.resolution, r.chains) for r in rows})
    names = [name for name in SAMPLERS if any(r.sampler == name for r in rows)]
    with figure(path, size=(2.6 + 1.5 * len(settings), 4)) as ((axes,),):
        for i, name in enumerate(names):
            found = {(r.energy, r.resolution, r.chains): r.ratio for r in rows if r.sampler == name}
            places = np.arange(len(settings)) + (i - len(names) / 2) * 0.8 / len(names)
            heights = [found.get(setting, np.nan) for setting in settings]
            axes.bar(places, heights, 0.8 / len(names), label=name, align="edge")
        axes.axhline(1.0, color="black", lw=0.8)
        axes.axhline(1.1, color="black", lw=0.8, ls=":")
        labels = [f"{energy}\n{pixels} px, {chains}" for energy, pixels, chains in settings]
        axes.set_xticks(range(len(settings)), labels)
        axes.set(ylabel="time / bare gradients", title=title)
        legend(axes.figure)


def at_least_one(text: str) -> int:
    """An argument that counts something."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, got {text!r}")
    return int(text)


def main() -> None:
    """Measures every combination and reports."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--energies", nargs="+", default=["mlp", "conv"], choices=["mlp", "conv"])
    parser.add_argument("--resolutions", nargs="+", type=at_least_one, default=[8, 16])
    parser.add_argument("--chains", nargs="+", type=at_least_one, default=[64, 256])
    parser.add_argument("--samplers", nargs="+", default=list(SAMPLERS), choices=list(SAMPLERS))
    parser.add_argument("--steps", type=at_least_one, default=20)
    parser.add_argument("--repeats", type=at_least_one, default=5)
    parser.add_argument("--out", type=Path, help="folder for the table, the JSON and the plot")
    options = parser.parse_args()

    rows = [
        measure(energy, resolution, chains, name, options.steps, options.repeats)
        for energy in options.energies
        for resolution in options.resolutions
        for chains in options.chains
        for name in options.samplers
    ]
    head = machine(options)
    print(head + "\n" + table(rows))
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        stem = options.out / "sampler_throughput"
        stem.with_suffix(".txt").write_text(head + "\n" + table(rows) + "\n")
        payload = {"machine": head, "rows": [row._asdict() for row in rows]}
        stem.with_suffix(".json").write_text(json.dumps(payload, indent=1) + "\n")
        plot(rows, stem.with_suffix(".png"), head)


if __name__ == "__main__":
    quietly(main)
