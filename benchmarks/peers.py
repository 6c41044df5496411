"""The same work by us and by other libraries, each at its best.

- chains: 64 chains of 10 SGLD steps on wide ResNets.
- training: steps of configs/jem_digits.py:unconfined as ``training.fit`` runs them.
- plane: 1,000 Langevin chains of 100 steps on an MLP of two hidden layers of 128.
- svgd: 20 steps of SVGD with the median rule in a Gaussian.

We run on one device and on all, one a core: chains are spread over them by a mesh, training in as
many shards. PyTorch runs in eager NCHW, in channels_last and by ``torch.compile``, with a thread a
core. The row names the fastest; the ratio is its time over ours on all devices: above 1 ours is the
faster. All sides take turns within each repeat, and rest before each turn, so that the threads of
the side before sleep. BlackJAX walks under our driver, ``samplers.run_chain``; PyTorch runs in the
Python that EBMJAX_PEERS names, with pip install torch==2.13.0 numpy
"""

import argparse
import contextlib
import json
import math
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import _harness as harness
import configuration as configured
import jax
import jax.numpy as jnp
import numpy as np
import optax
from _chains import compile_chain, log_gaussian, make_image_density

from ebmjax import data, networks, samplers
from ebmjax.recipes.run.machine import num_processors
from ebmjax.types import LogDensityFn, PyTree, Sampler

Call = Callable[[], Any]
Timer = Callable[[], float]
STEP_SIZE = 1e-3
PAUSE = 0.2
"""Seconds of rest before each turn."""
WAYS = ("eager", "channels_last", "compile")
SAMPLERS: dict[str, Callable[[LogDensityFn], Any]] = {
    name: partial(getattr(samplers, name), step_size=STEP_SIZE) for name in ("sgld", "svgd")
}
IMAGES = (((8, 8, 1), 10, 8), ((16, 16, 1), 10, 3), ((28, 28, 1), 10, 1), ((32, 32, 3), 16, 1))
"""Shapes of images, depths of the wide ResNet, and calls in a turn."""
NUM_CHAINS, NUM_STEPS = 64, 10
JEM = 64, 20, 10
"""Images of a batch, steps of a chain, and training steps in a turn."""
PLANE = (1000, 2)
SVGD_SHAPES = ((100, 3072), (500, 784), (1000, 192))


class Place(NamedTuple):
    """A state that is only a position."""

    position: jax.Array


def of_blackjax() -> dict[str, Callable[[LogDensityFn], Any]]:
    """Returns BlackJAX's samplers, as our driver takes them."""
    import blackjax
    from blackjax.vi.svgd import median_heuristic

    def sgld(log_density_fn: LogDensityFn) -> Any:
        theirs: Any = blackjax.sgld(lambda position, minibatch: jax.grad(log_density_fn)(position))

        def step(key: jax.Array, state: Place) -> Any:
            return Place(theirs.step(key, state.position, (), STEP_SIZE)), None

        return Sampler(Place, step)

    def svgd(log_density_fn: LogDensityFn) -> Any:
        theirs: Any = blackjax.svgd(jax.grad(log_density_fn), optax.sgd(STEP_SIZE))

        def init(particles: jax.Array) -> Any:
            return theirs.init(particles, median_heuristic({}, particles))

        return Sampler(init, lambda key, state: (theirs.step(state), None))

    return {"sgld": sgld, "svgd": svgd}


class PeersUnavailableError(Exception):
    """Another library cannot do the work; the message says why."""


class TorchProcess:
    """A process of the peers' Python that runs ``_torch.py``, and answers lines of JSON."""

    def __init__(self, num_threads: int):
        if not (python := os.environ.get("EBMJAX_PEERS")):
            raise PeersUnavailableError("EBMJAX_PEERS names no Python with PyTorch")
        threads = {"OMP_NUM_THREADS": str(num_threads), "MKL_NUM_THREADS": str(num_threads)}
        self._process = subprocess.Popen(
            [python, Path(__file__).resolve().with_name("_torch.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **threads},
            text=True,
        )
        harness.VERSIONS.update(self._read())

    def ask(self, work: str, **asked: Any) -> Any:
        """Returns the script's answer; raises PeersUnavailableError if it cannot do the work."""
        with contextlib.suppress(BrokenPipeError):  # of a process that has ended
            print(json.dumps({"work": work, **asked}), file=self._process.stdin, flush=True)
        return self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"error": "the process ended"}
        if isinstance(answer, dict) and "error" in answer:
            raise PeersUnavailableError(answer["error"])
        return answer


class Work(NamedTuple):
    """Work of ours by number of devices, and the same by another library in all its ways."""

    name: str
    ours: dict[int, Call]
    library: str
    ways: dict[str, Timer]
    calls: int = 1  # in a turn


def measure(work: Work, repeats: int) -> harness.Row:
    """Times us and the other library in turn; ways that fail say why."""
    ours = {
        f"{n} device{'s' * (n > 1)}": partial(harness.time_call, call, work.calls)
        for n, call in work.ours.items()
    }
    *_, last = ours
    works, others = {}, []
    for way, timer in work.ways.items():
        try:
            timer()  # which also compiles
            works[way] = timer
        except (PeersUnavailableError, ModuleNotFoundError) as error:
            others.append(f"{way} fails: {error}")
    clocks = harness.take_turns({**ours, **works}, repeats, PAUSE)
    fastest = sorted(works, key=lambda way: median(clocks[way]))
    row: harness.Row = {"work": work.name, "peer": " ".join([work.library, *fastest[:1]])}
    row |= {f"{side} ms": harness.spread(clocks[side], 1e3) for side in ours}
    row |= {"peer ms": math.nan, "ratio": math.nan}
    for way in fastest[:1]:
        row["peer ms"] = harness.spread(clocks[way], 1e3)
        row["ratio"] = harness.spread_of_ratios(clocks[way], clocks[last])
    others += [f"{way} {1e3 * median(clocks[way]):.4g} ms" for way in fastest[1:]]
    return row | {"its other ways": "; ".join(others) or "-"}


torch = cache(lambda: TorchProcess(num_processors()))
"""The one process of PyTorch."""


def ask(work: str, calls: int, **asked: Any) -> Timer:
    """Returns a timer of a call in the process of PyTorch."""
    return lambda: torch().ask(work, calls=calls, **asked)


def on_devices(make: Callable[[int], Any], size: int) -> dict[int, Any]:
    """Returns what ``make`` returns for one device, and for the most that divide ``size``."""
    most = max(n for n in range(1, jax.device_count() + 1) if size % n == 0)
    return {n: make(n) for n in sorted({1, most})}


def beside_blackjax(
    text: str, sampler: str, density: LogDensityFn, start: jax.Array, steps: int, calls: int = 1
) -> Work:
    """Returns ``sampler`` by us and by BlackJAX. Particles of SVGD stay on one device."""
    is_svgd = sampler == "svgd"

    def make(find: Callable[[], dict[str, Any]], num_devices: int) -> Call:
        return compile_chain(find()[sampler](density), start, steps, is_svgd, num_devices)

    ours_of, theirs_of = partial(make, lambda: SAMPLERS), cache(partial(make, of_blackjax))
    ours = on_devices(ours_of, 1 if is_svgd else len(start))
    # The first call compiles, and fails without BlackJAX.
    theirs = {f"on {n}": lambda n=n: harness.time_call(theirs_of(n), calls) for n in ours}
    return Work(f"{text}, {steps} steps", ours, "BlackJAX", theirs, calls)


def chains() -> Iterator[Work]:
    """Yields SGLD of wide ResNets."""
    for shape, depth, calls in IMAGES:
        density, sizes = make_image_density(shape, depth), (NUM_CHAINS, *shape)
        start = jax.random.uniform(jax.random.key(1), sizes)
        sampler = SAMPLERS["sgld"](density)
        ours = on_devices(partial(compile_chain, sampler, start, NUM_STEPS, False), NUM_CHAINS)
        asked = {"shape": sizes, "steps": NUM_STEPS, "depth": depth}
        ways = {way: ask("images", calls, way=way, **asked) for way in WAYS}
        text = f"WRN-{depth}-1 {'x'.join(map(str, shape))}, {NUM_CHAINS} x {NUM_STEPS} steps"
        yield Work(text, ours, "PyTorch", ways, calls)


def plane() -> Iterator[Work]:
    """Yields Langevin chains in the plane."""
    network: Any = networks.MLPEnergy(hidden=(128, 128))
    params = network.init(jax.random.key(0), jnp.zeros(2))
    start, steps, calls = jax.random.normal(jax.random.key(1), PLANE), 100, 5

    def density(x: jax.Array) -> Any:
        return -network.apply(params, x)

    yield beside_blackjax(f"plane {PLANE}", "sgld", density, start, steps, calls)


def svgd() -> Iterator[Work]:
    """Yields SVGD in a Gaussian."""
    for shape in SVGD_SHAPES:
        start, steps = jax.random.normal(jax.random.key(1), shape), 20
        yield beside_blackjax(f"svgd {shape}", "svgd", log_gaussian, start, steps)


def training() -> Iterator[Work]:
    """Yields training steps of JEM on the digits."""
    batch_size, num_steps, block = JEM
    shards = math.gcd(batch_size, 10_000)  # which divide the batch and the buffer's slots
    made = on_devices(partial(configured.build_jem, *JEM), shards)
    ours = {n: configured.make_steps(*both)[0] for n, both in made.items()}
    config, experiment = made[1]
    load = cache(partial(load_jem, config, experiment.state.params))

    def time_steps(way: str) -> float:
        load(torch())
        return block * ask("train", block, way=way)()  # ours is a block

    ways = {way: partial(time_steps, way) for way in WAYS}
    text = f"{block} JEM steps of {batch_size} images, chains of {num_steps} steps"
    yield Work(text, ours, "PyTorch", ways)


def load_jem(config: Any, params: PyTree, process: Any) -> None:
    """Makes PyTorch's JEM; ends the program unless it has as many parameters as ours."""
    train = data.load_digits("train")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "jem.npz"
        np.savez(file, settings=json.dumps(config.to_dict()), **train._asdict())
        theirs = process.ask("load", file=str(file))["num_params"]
    ours = sum(leaf.size for leaf in jax.tree.leaves(params))
    if theirs != ours:
        raise SystemExit(f"PyTorch has {theirs} parameters, ebmjax {ours}.")


WORKS = {one.__name__: one for one in (chains, training, plane, svgd)}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what these benchmarks read."""
    parser.add_argument("--repeats", type=int, default=7, help="timings of each side (7)")


def rows(name: str, options: argparse.Namespace) -> Iterator[harness.Row]:
    """Yields the rows of one of ``WORKS``."""
    for work in WORKS[name]():
        yield measure(work, options.repeats)
