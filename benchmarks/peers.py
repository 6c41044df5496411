"""The same chains by us and by other libraries: BlackJAX, ebmkit, torchebm and PyTorch alone.

  python benchmarks/peers.py
  python benchmarks/peers.py --works svgd --repeats 9
  python benchmarks/peers.py --torch_python ENVIRONMENT/bin/python

- chains: every sampler that BlackJAX has too, on an MLP and a WRN-10-1 of images.
- svgd: SVGD with the median rule in a Gaussian, by particles and dimensions.
- plane: 1,000 Langevin chains of 100 steps on an MLP of two hidden layers of 128.
- images: 64 chains of 10 SGLD steps on wide ResNets.

--torch_python names the Python of an environment with PyTorch, ebmkit and torchebm (pip install
torch==2.13.0 ebmkit torchebm); without it their rows are left out. We and one peer take turns
within each repeat, so that the ratio survives a machine whose speed drifts. Above 1, ours is the
faster. BlackJAX walks under our driver, ``samplers.run_chain``; the others under their own.

A second table says what limits our chains of networks: the operations of their gradients' products,
how fast we are beside this machine's largest product, and how long a program takes that computes
nothing but the convolutions and products of those gradients, from memory to memory. The same is
done where all convolutions are products and their patches are there already.
"""

import argparse
import datetime
import json
import platform
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import _chain_limits
import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import optax
from _chain_limits import Parts, parts
from _torch_process import TorchProcess
from blackjax.vi.svgd import median_heuristic
from sampler_throughput import (
    Chain,
    at_least_one,
    compiled_chain,
    log_density,
    peak_mib,
    seconds,
)

from ebmjax import networks, samplers
from ebmjax.recipes.__main__ import quietly
from ebmjax.types import LogDensityFn, Sampler

STEP_SIZE = 1e-3
WORKS = ("chains", "svgd", "plane", "images")
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


SVGD_SHAPES = ((100, 3072), (500, 784), (1000, 192))
PLANE = (1000, 2)
PLANE_STEPS = 100
IMAGES = (((8, 8, 1), 10), ((16, 16, 1), 10), ((28, 28, 1), 10), ((32, 32, 3), 16))
"""Shapes of images and depths of the wide ResNet."""
IMAGE_CHAINS = 64
IMAGE_STEPS = 10


class Row(NamedTuple):
    """One comparison: medians over the repeats.

    Attributes:
      work: what was done.
      peer: the other library.
      ours: milliseconds of the whole chain.
      theirs: the peer's.
      ratio: their time over ours.
      ratio_low: smallest ratio of the repeats.
      ratio_high: largest.
      our_mib: what the compiled chain holds at once, as XLA counts it.
      their_mib: BlackJAX's; None for the others.
    """

    work: str
    peer: str
    ours: float
    theirs: float
    ratio: float
    ratio_low: float
    ratio_high: float
    our_mib: float
    their_mib: float | None


class Work(NamedTuple):
    """A chain of ours, and the same by others.

    Attributes:
      name: says what it is.
      ours: the compiled chain.
      peers: name to a function that runs the peer's and returns the seconds.
      their_mib: name to what the peer's compiled chain holds at once.
      parts: of a chain whose gradients are those of a network.
    """

    name: str
    ours: Chain
    peers: dict[str, Callable[[], float]]
    their_mib: dict[str, float]
    parts: Parts | None = None


def measure(work: Work, repeats: int) -> Iterator[Row]:
    """Times our chain against that of each peer."""
    for peer, run in work.peers.items():
        timings = [(seconds(work.ours), run()) for _ in range(repeats + 1)]
        ours, theirs = np.array(timings[1:]).T  # the first warms up
        ratios = theirs / ours
        yield Row(
            work.name,
            peer,
            ours=float(1e3 * np.median(ours)),
            theirs=float(1e3 * np.median(theirs)),
            ratio=float(np.median(ratios)),
            ratio_low=float(ratios.min()),
            ratio_high=float(ratios.max()),
            our_mib=peak_mib(work.ours.program),
            their_mib=work.their_mib.get(peer),
        )


def beside_blackjax(
    text: str,
    name: str,
    log_density_fn: LogDensityFn,
    start: jax.Array,
    steps: int,
    peers: dict[str, Callable[[], float]],
) -> Work:
    """The sampler ``name`` by us, by BlackJAX, and by further ``peers``."""
    ours, theirs = (
        compiled_chain(samplers_of[name](log_density_fn), name, start, steps)
        for samplers_of in (SAMPLERS, PEERS)
    )
    both = {"BlackJAX": lambda: seconds(theirs), **peers}
    return Work(text, ours, both, {"BlackJAX": peak_mib(theirs.program)})


def of_torch(torch: TorchProcess | None, names: Sequence[str], **asked: Any) -> dict[str, Any]:
    """The chains of the libraries ``names``, if there is a Python that has them."""
    if torch is None:
        return {}
    return {
        name: lambda name=name: torch.ask(json.dumps({"library": name, **asked}))  # pyright: ignore
        for name in names
    }


def chains(options: argparse.Namespace) -> Iterator[Work]:
    """Every sampler of BlackJAX on networks of images."""
    for energy in options.energies:
        for side in options.resolutions:
            log_density_fn = log_density(energy, side)
            for num in options.chains:
                start = jax.random.uniform(jax.random.key(1), (num, side, side, 1))
                for name in options.samplers:
                    text = f"{name} {energy} {side}x{side}x1, {num} chains, {options.steps} steps"
                    yield beside_blackjax(text, name, log_density_fn, start, options.steps, {})


def svgds(torch: TorchProcess | None, steps: int) -> Iterator[Work]:
    """SVGD in a Gaussian."""
    for shape in SVGD_SHAPES:
        start = jax.random.normal(jax.random.key(1), shape)
        theirs = of_torch(torch, ["ebmkit"], work="svgd", shape=shape, steps=steps)
        text = f"svgd {shape}, {steps} steps"
        yield beside_blackjax(text, "svgd", lambda x: -0.5 * jnp.sum(x**2), start, steps, theirs)


def planes(torch: TorchProcess | None) -> Iterator[Work]:
    """Langevin chains in the plane."""
    network: Any = networks.MLPEnergy(hidden=(128, 128))
    params = network.init(jax.random.key(0), jnp.zeros(2))
    start = jax.random.normal(jax.random.key(1), PLANE)

    def log_density_fn(x: jax.Array) -> Any:
        return -network.apply(params, x)

    asked = {"work": "plane", "shape": PLANE, "steps": PLANE_STEPS}
    theirs = of_torch(torch, ["ebmkit", "torchebm"], **asked)
    text = f"plane {PLANE}, {PLANE_STEPS} steps"
    work = beside_blackjax(text, "sgld", log_density_fn, start, PLANE_STEPS, theirs)
    yield work._replace(parts=parts(log_density_fn, log_density_fn, start, PLANE_STEPS))


def images(torch: TorchProcess | None) -> Iterator[Work]:
    """SGLD of wide ResNets."""
    for shape, depth in IMAGES:
        network: Any = networks.WideResNet(depth=depth, widen_factor=1, num_classes=10)
        params = network.init(jax.random.key(0), jnp.zeros(shape))

        def energy_of(x: jax.Array, network: Any, params: Any = params) -> Any:
            return jax.nn.logsumexp(network.apply(params, x))

        log_density_fn = partial(energy_of, network=network)
        with_products = partial(energy_of, network=network.clone(lowering="matmul"))
        start = jax.random.uniform(jax.random.key(1), (IMAGE_CHAINS, *shape))
        asked = {"work": "images", "shape": start.shape, "steps": IMAGE_STEPS, "depth": depth}
        text = f"WRN-{depth}-1 {'x'.join(map(str, shape))}, {IMAGE_CHAINS} x {IMAGE_STEPS} steps"
        chain = compiled_chain(SAMPLERS["sgld"](log_density_fn), "sgld", start, IMAGE_STEPS)
        theirs = of_torch(torch, ["PyTorch"], **asked)
        of_gradients = parts(log_density_fn, with_products, start, IMAGE_STEPS)
        yield Work(text, chain, theirs, {}, of_gradients)


def table(rows: list[Row]) -> str:
    """The rows as aligned text."""
    header = (
        f"{'work':42} {'peer':9} {'ours ms':>9} {'theirs ms':>10} {'ratio':>6} {'(min-max)':>13} "
        f"{'MiB':>8} {'theirs':>8}"
    )
    lines = [
        f"{r.work:42} {r.peer:9} {r.ours:9.2f} {r.theirs:10.2f} {r.ratio:6.2f} "
        f"{f'({r.ratio_low:.2f}-{r.ratio_high:.2f})':>13} {r.our_mib:8.1f} "
        f"{'-' if r.their_mib is None else f'{r.their_mib:.1f}':>8}"
        for r in rows
    ]
    return "\n".join([header, "-" * len(header), *lines])


def main() -> None:
    """Measures every combination and reports."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--works", nargs="+", default=list(WORKS), choices=WORKS)
    parser.add_argument("--torch_python", type=Path)
    of_chains = parser.add_argument_group("chains")
    of_chains.add_argument(
        "--energies", nargs="+", default=["mlp", "conv"], choices=["mlp", "conv"]
    )
    of_chains.add_argument("--resolutions", nargs="+", type=at_least_one, default=[16])
    of_chains.add_argument("--chains", nargs="+", type=at_least_one, default=[16, 64])
    of_chains.add_argument("--samplers", nargs="+", default=list(SAMPLERS), choices=list(SAMPLERS))
    parser.add_argument("--steps", type=at_least_one, default=20)
    parser.add_argument("--repeats", type=at_least_one, default=5)
    options = parser.parse_args()
    torch = TorchProcess(options.torch_python, "_torch_peers.py") if options.torch_python else None
    versions = {"jax": jax.__version__, "BlackJAX": blackjax.__version__}
    versions |= {"python": platform.python_version(), **(torch.about if torch else {})}
    print(
        f"{datetime.date.today()}  {jax.devices()[0].device_kind}  "
        f"{'  '.join(f'{name} {version}' for name, version in versions.items())}  "
        f"median of {options.repeats} repeats"
    )
    makers: dict[str, Callable[[], Iterator[Work]]] = {
        "chains": lambda: chains(options),
        "svgd": lambda: svgds(torch, options.steps),
        "plane": lambda: planes(torch),
        "images": lambda: images(torch),
    }
    rows, limits = [], []
    for work in (work for name in options.works for work in makers[name]()):
        rows += measure(work, options.repeats)
        if work.parts:
            limits.append(_chain_limits.limit(work.name, work.ours, work.parts, options.repeats))
    print(table(rows))
    if limits:
        peak = _chain_limits.fastest_product(options.repeats)
        print("\n" + _chain_limits.table(limits, peak))
    if torch:
        torch.close()


if __name__ == "__main__":
    quietly(main)
