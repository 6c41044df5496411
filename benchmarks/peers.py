"""Steps per second of the samplers that BlackJAX has too, beside its own on the same energy.

  python benchmarks/peers.py
  python benchmarks/peers.py --energies mlp --chains 64 1024 --steps 50

Both walk under the same driver, ``samplers.run_chain``, with the same step size, one after the
other within each repeat, so that the ratio survives a machine whose speed drifts. Above 1, ours is
the faster. SVGD is both times with the median rule for the bandwidth.
"""

import argparse
import datetime
import platform
from collections.abc import Callable
from typing import Any, NamedTuple

import blackjax
import jax
import numpy as np
import optax
from blackjax.vi.svgd import median_heuristic
from sampler_throughput import at_least_one, compiled_chain, log_density, peak_mib, seconds

from ebmjax import samplers
from ebmjax.types import LogDensityFn, Sampler

STEP_SIZE = 1e-3
SAMPLERS: dict[str, Callable[[LogDensityFn], Sampler]] = {
    "sgld": lambda f: samplers.sgld(f, step_size=STEP_SIZE),
    "mala": lambda f: samplers.mala(f, step_size=STEP_SIZE),
    "svgd": lambda f: samplers.svgd(f, step_size=STEP_SIZE),
}


class Place(NamedTuple):
    """A state that is only a position."""

    position: jax.Array


def sgld(log_density_fn: LogDensityFn) -> Any:
    """BlackJAX's, which wants a minibatch, of a log density without one."""
    theirs: Any = blackjax.sgld(lambda position, minibatch: jax.grad(log_density_fn)(position))

    def step(key: jax.Array, state: Place) -> Any:
        return Place(theirs.step(key, state.position, (), STEP_SIZE)), None

    return Sampler(Place, step)


def svgd(log_density_fn: LogDensityFn) -> Any:
    """BlackJAX's, whose step takes no key."""
    theirs: Any = blackjax.svgd(jax.grad(log_density_fn), optax.sgd(STEP_SIZE))

    def init(particles: jax.Array) -> Any:
        return theirs.init(particles, median_heuristic({}, particles))

    def step(key: jax.Array, state: Any) -> Any:
        del key
        return theirs.step(state), None

    return Sampler(init, step)


PEERS: dict[str, Callable[[LogDensityFn], Any]] = {
    "sgld": sgld,
    "mala": lambda f: blackjax.mala(f, step_size=STEP_SIZE),
    "svgd": svgd,
}


class Row(NamedTuple):
    """One comparison: medians over the repeats.

    Attributes:
      energy: "mlp" or "conv".
      resolution: side of the image in pixels.
      chains: chains, or particles.
      sampler: its name.
      ours: steps per second of all chains together.
      theirs: BlackJAX's.
      ratio: their time over ours.
      ratio_low: smallest ratio of the repeats.
      ratio_high: largest.
      our_mib: what the compiled chain holds at once, as XLA counts it.
      their_mib: BlackJAX's.
    """

    energy: str
    resolution: int
    chains: int
    sampler: str
    ours: float
    theirs: float
    ratio: float
    ratio_low: float
    ratio_high: float
    our_mib: float
    their_mib: float


def measure(energy: str, resolution: int, chains: int, name: str, steps: int, repeats: int) -> Row:
    """Times our chain against BlackJAX's."""
    log_density_fn = log_density(energy, resolution)
    start = jax.random.uniform(jax.random.key(1), (chains, resolution, resolution, 1))
    ours, theirs = (
        compiled_chain(samplers_of[name](log_density_fn), name, start, steps)
        for samplers_of in (SAMPLERS, PEERS)
    )
    timings = [(seconds(ours), seconds(theirs)) for _ in range(repeats + 1)]
    our_seconds, their_seconds = np.array(timings[1:]).T  # the first warms up
    ratios = their_seconds / our_seconds
    return Row(
        energy,
        resolution,
        chains,
        name,
        ours=float(steps / np.median(our_seconds)),
        theirs=float(steps / np.median(their_seconds)),
        ratio=float(np.median(ratios)),
        ratio_low=float(ratios.min()),
        ratio_high=float(ratios.max()),
        our_mib=peak_mib(ours.program),
        their_mib=peak_mib(theirs.program),
    )


def table(rows: list[Row]) -> str:
    """The rows as aligned text."""
    header = (
        f"{'energy':6} {'pixels':>6} {'chains':>6} {'sampler':7} {'steps/s':>9} {'BlackJAX':>9} "
        f"{'ratio':>6} {'(min-max)':>13} {'MiB':>8} {'BlackJAX':>9}"
    )
    lines = [
        f"{r.energy:6} {r.resolution:6d} {r.chains:6d} {r.sampler:7} {r.ours:9.1f} {r.theirs:9.1f} "
        f"{r.ratio:6.2f} {f'({r.ratio_low:.2f}-{r.ratio_high:.2f})':>13} {r.our_mib:8.1f} "
        f"{r.their_mib:9.1f}"
        for r in rows
    ]
    return "\n".join([header, "-" * len(header), *lines])


def main() -> None:
    """Measures every combination and reports."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--energies", nargs="+", default=["mlp", "conv"], choices=["mlp", "conv"])
    parser.add_argument("--resolutions", nargs="+", type=at_least_one, default=[16])
    parser.add_argument("--chains", nargs="+", type=at_least_one, default=[16, 64])
    parser.add_argument("--samplers", nargs="+", default=list(SAMPLERS), choices=list(SAMPLERS))
    parser.add_argument("--steps", type=at_least_one, default=20)
    parser.add_argument("--repeats", type=at_least_one, default=5)
    options = parser.parse_args()
    print(
        f"{datetime.date.today()}  {jax.devices()[0].device_kind}  jax {jax.__version__}  "
        f"BlackJAX {blackjax.__version__}  python {platform.python_version()}  "
        f"{options.steps} steps, median of {options.repeats} repeats"
    )
    rows = [
        measure(energy, resolution, chains, name, options.steps, options.repeats)
        for energy in options.energies
        for resolution in options.resolutions
        for chains in options.chains
        for name in options.samplers
    ]
    print(table(rows))


if __name__ == "__main__":
    main()
