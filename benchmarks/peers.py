"""The same chains by us and by other libraries: BlackJAX, ebmkit, torchebm and PyTorch alone.

  python benchmarks/peers.py
  python benchmarks/peers.py --works svgd --repeats 9
  python benchmarks/peers.py --torch_python ENVIRONMENT/bin/python

- chains: every sampler that BlackJAX has too, on an MLP and a WRN-10-1 of images.
- svgd: SVGD with the median rule in a Gaussian, by particles and dimensions.
- plane: 1,000 Langevin chains of 100 steps on an MLP of two hidden layers of 128.
- images: 64 chains of 10 SGLD steps on wide ResNets.
- training: steps of configs/jem_digits.py:unconfined as ``training.fit`` runs them, by PyTorch in
  an eager loop. PyTorch's network must give the same logits first.

--torch_python names the Python of an environment with PyTorch, ebmkit and torchebm (pip install
torch==2.13.0 numpy ebmkit torchebm); without it their rows are left out. We and one peer take turns
within each repeat, so that the ratio survives a machine whose speed drifts. Above 1, ours is the
faster. BlackJAX walks under our driver, ``samplers.run_chain``; the others under their own.

A second table says what limits our chains of networks: the operations of their gradients' products,
how fast we are beside this machine's largest product, and how long a program takes that computes
nothing but the convolutions and products of those gradients, from memory to memory. The same is
done where all convolutions are products and their patches are there already.
"""

import argparse
import itertools
import json
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import _chain_limits
import _configured as configured
import _harness as harness
import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import optax
from _chains import compile_chain, log_gaussian, make_image_density, make_log_density
from _torch_process import TorchProcess
from blackjax.vi.svgd import median_heuristic
from flax.traverse_util import flatten_dict

from ebmjax import data, networks, samplers
from ebmjax.recipes.__main__ import quietly
from ebmjax.types import LogDensityFn, PyTree, Sampler

STEP_SIZE = 1e-3
SAMPLERS: dict[str, Callable[[LogDensityFn], Any]] = {
    name: partial(getattr(samplers, name), step_size=STEP_SIZE) for name in ("sgld", "mala", "svgd")
}


class Place(NamedTuple):
    """A state that is only a position."""

    position: jax.Array


def sgld(log_density_fn: LogDensityFn) -> Any:
    """Returns BlackJAX's, which wants a minibatch, of a log density without one."""
    theirs: Any = blackjax.sgld(lambda position, minibatch: jax.grad(log_density_fn)(position))

    def step(key: jax.Array, state: Place) -> Any:
        return Place(theirs.step(key, state.position, (), STEP_SIZE)), None

    return Sampler(Place, step)


def svgd(log_density_fn: LogDensityFn) -> Any:
    """Returns BlackJAX's, whose step takes no key."""
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
JEM = 64, 20, 22
"""Images of a batch, steps of a chain, and training steps in one timing."""


class Work(NamedTuple):
    """A chain of ours, and the same by others."""

    name: str
    ours: Callable[[], Any]
    peers: dict[str, Callable[[], float]]  # run the peers' chains and return the seconds
    mib: dict[str, float]  # what a compiled chain holds at once: "ours", and by peers
    parts: _chain_limits.Parts | None = None  # of a chain of a network


def measure(work: Work, repeats: int) -> Iterator[harness.Row]:
    """Times our chain against that of each peer."""
    for peer, run in work.peers.items():
        times = harness.take_turns(
            {"ours": partial(harness.seconds, work.ours), "theirs": run}, repeats
        )
        yield {
            "work": work.name,
            "peer": peer,
            "ours ms": harness.median_ms(times["ours"]),
            "theirs ms": harness.median_ms(times["theirs"]),
            "ratio": harness.spread_of_ratios(times["theirs"], times["ours"]),
            "MiB": work.mib.get("ours"),
            "theirs": work.mib.get(peer),
        }


def beside_blackjax(
    text: str,
    name: str,
    log_density_fn: LogDensityFn,
    start: jax.Array,
    steps: int,
    peers: dict[str, Callable[[], float]],
) -> Work:
    """Returns the sampler ``name`` by us, by BlackJAX, and by further ``peers``."""
    ours, theirs = (
        compile_chain(made[name](log_density_fn), start, steps, interacting=name == "svgd")
        for made in (SAMPLERS, PEERS)
    )
    both = {"BlackJAX": partial(harness.seconds, theirs), **peers}
    programs = {"ours": ours.program, "BlackJAX": theirs.program}
    mib = {name: harness.memory_mib(program)["peak"] for name, program in programs.items()}
    return Work(text, ours, both, mib)


def ask_torch(torch: TorchProcess | None, work: str, *names: str, **asked: Any) -> dict[str, Any]:
    """Returns timers of the libraries ``names``, if there is a Python that has them."""
    if torch is None:
        return {}
    return {name: partial(torch.ask, work, library=name, **asked) for name in names}


def chains(torch: TorchProcess | None, options: argparse.Namespace) -> Iterator[Work]:
    """Yields every sampler of BlackJAX on networks of images."""
    del torch
    for energy, side in itertools.product(options.energies, options.resolutions):
        log_density_fn, shape = make_log_density(energy, side)
        for num, name in itertools.product(options.chains, options.samplers):
            start = jax.random.uniform(jax.random.key(1), (num, *shape))
            text = f"{name} {energy} {side}x{side}x1, {num} chains, {options.steps} steps"
            yield beside_blackjax(text, name, log_density_fn, start, options.steps, {})


def svgds(torch: TorchProcess | None, options: argparse.Namespace) -> Iterator[Work]:
    """Yields SVGD in a Gaussian."""
    for shape in SVGD_SHAPES:
        start = jax.random.normal(jax.random.key(1), shape)
        theirs = ask_torch(torch, "svgd", "ebmkit", shape=shape, steps=options.steps)
        text = f"svgd {shape}, {options.steps} steps"
        yield beside_blackjax(text, "svgd", log_gaussian, start, options.steps, theirs)


def planes(torch: TorchProcess | None, options: argparse.Namespace) -> Iterator[Work]:
    """Yields Langevin chains in the plane."""
    del options
    network: Any = networks.MLPEnergy(hidden=(128, 128))
    params = network.init(jax.random.key(0), jnp.zeros(2))
    start = jax.random.normal(jax.random.key(1), PLANE)

    def log_density_fn(x: jax.Array) -> Any:
        return -network.apply(params, x)

    theirs = ask_torch(torch, "plane", "ebmkit", "torchebm", shape=PLANE, steps=PLANE_STEPS)
    text = f"plane {PLANE}, {PLANE_STEPS} steps"
    work = beside_blackjax(text, "sgld", log_density_fn, start, PLANE_STEPS, theirs)
    parts = _chain_limits.parts(log_density_fn, log_density_fn, start, PLANE_STEPS)
    yield work._replace(parts=parts)


def images(torch: TorchProcess | None, options: argparse.Namespace) -> Iterator[Work]:
    """Yields SGLD of wide ResNets."""
    del options
    for shape, depth in IMAGES:
        log_density_fn = make_image_density(shape, depth)
        with_products = make_image_density(shape, depth, lowering="matmul")
        start = jax.random.uniform(jax.random.key(1), (IMAGE_CHAINS, *shape))
        asked = {"shape": start.shape, "steps": IMAGE_STEPS, "depth": depth}
        text = f"WRN-{depth}-1 {'x'.join(map(str, shape))}, {IMAGE_CHAINS} x {IMAGE_STEPS} steps"
        chain = compile_chain(SAMPLERS["sgld"](log_density_fn), start, IMAGE_STEPS, False)
        theirs = ask_torch(torch, "images", "PyTorch", **asked)
        parts = _chain_limits.parts(log_density_fn, with_products, start, IMAGE_STEPS)
        yield Work(text, chain, theirs, {"ours": harness.memory_mib(chain.program)["peak"]}, parts)


def trainings(torch: TorchProcess | None, options: argparse.Namespace) -> Iterator[Work]:
    """Yields training steps of JEM on the digits."""
    del options
    if torch is None:
        return
    config, experiment = configured.build_jem(*JEM)
    _, num_steps, block = JEM
    load_jem(torch, config, experiment.state.params)
    text = f"{block} JEM train steps, chains of {num_steps} steps"
    steps, theirs = configured.make_steps(config, experiment), partial(torch.ask, "train")
    yield Work(text, steps, {"PyTorch": partial(theirs, calls=block)}, {})


def load_jem(torch: TorchProcess, config: Any, params: PyTree) -> None:
    """Gives PyTorch the same parameters; ends the program unless it computes the same logits."""
    train = data.load_digits("train")
    probe = data.to_signed_unit(jnp.asarray(train.images[:4]))
    flat = flatten_dict(params, sep="/")
    arrays: dict[str, Any] = {f"params/{name}": np.asarray(leaf) for name, leaf in flat.items()}
    settings = json.dumps(config.to_dict())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "jem.npz"
        np.savez(file, **arrays, settings=settings, probe=probe, **train._asdict())
        found = torch.ask("load", file=str(file))
    network = networks.WideResNet(
        config.model.depth, config.model.widen_factor, config.data.num_classes
    )
    check_agreement(found, params, network.apply({"params": params}, probe))


def check_agreement(found: dict[str, Any], params: PyTree, logits: Any) -> None:
    """Ends the program unless PyTorch's network is ours."""
    num_params = sum(leaf.size for leaf in jax.tree.leaves(params))
    if found["num_params"] != num_params:
        raise SystemExit(f"PyTorch has {found['num_params']} parameters, ebmjax {num_params}.")
    # Sums of up to 576 products, in another order: at most 576 eps, 7e-5, of their magnitude.
    difference, scale = np.abs(found["logits"] - np.asarray(logits)), np.abs(logits).max()
    if not difference.max() <= 1e-4 * scale:
        raise SystemExit(f"Logits of PyTorch and ebmjax differ by up to {difference.max():.1e}.")


WORKS = {
    "chains": chains,
    "svgd": svgds,
    "plane": planes,
    "images": images,
    "training": trainings,
}


def main() -> None:
    """Measures every combination and reports."""
    parser = harness.make_parser(
        __doc__,
        resolutions=([16], "of chains: pixels a side"),
        chains=([16, 64], "of chains: how many side by side"),
        steps=(20, "of chains and of SVGD"),
        repeats=(5, "timings"),
    )
    energies, names = ["mlp", "conv"], list(SAMPLERS)
    parser.add_argument("--works", nargs="+", default=list(WORKS), choices=list(WORKS))
    parser.add_argument("--torch_python", type=Path, help="a Python that has the other libraries")
    parser.add_argument("--energies", nargs="+", default=energies, choices=energies)
    parser.add_argument("--samplers", nargs="+", default=names, choices=names)
    options = parser.parse_args()
    torch = TorchProcess(options.torch_python) if options.torch_python else None
    versions = {"BlackJAX": blackjax.__version__, **(torch.about if torch else {})}
    rows, limits, peak = [], [], None
    for work in (work for name in options.works for work in WORKS[name](torch, options)):
        rows += measure(work, options.repeats)
        if work.parts:
            peak = peak or _chain_limits.product_rate(2048, options.repeats)
            args = (work.name, work.ours, work.parts, options.repeats, peak)
            limits.append(_chain_limits.measure_limit(*args))
    if torch:
        torch.close()
    more = ""
    if peak:
        best = f"The largest product: {peak / 1e9:.0f} 10⁹ operations a second"
        more = f"\n{best}\n{harness.format_table(limits)}"
    asked = "  ".join(f"{name} {version}" for name, version in versions.items())
    note = f"median of {options.repeats} repeats"
    harness.report("peers", rows, options.out, asked, note, more=more)


if __name__ == "__main__":
    quietly(main)
