"""Measures what needs an accelerator, most valuable first, within a number of minutes.

  python benchmarks/accelerator.py --minutes=9 --out=FOLDER
  python benchmarks/accelerator.py --rehearse

Needs JAX, Flax and Optax only, and no installation: run it from a checkout. Writes accelerator.json
and accelerator.md to --out after each measurement. The same command goes on after the last one that
is there, so a time limit loses one measurement at most. --rehearse runs all of them in tiny sizes.
--cifar names an .npz file with images (N, 32, 32, 3) in uint8, labels, test_images and test_labels;
the time that is left then trains SADA-JEM on it.

Matrix products of 8192 x 8192 give the peak that operations are compared with. Chains are timed
beside as many bare gradients, as sampler_throughput.py times them; steps as joint_training.py does.
Each time is the median of --repeats, after one that warms up.
"""

import datetime
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the checkout, installed or not

from ebmjax.recipes.__main__ import quietly
from ebmjax.recipes.run.quick_compilation import quick_flags

if "--rehearse" in sys.argv:  # before JAX starts
    os.environ["XLA_FLAGS"] = quick_flags(os.environ.get("XLA_FLAGS", ""))

import _chain_limits
import _chains
import _harness as harness
import jax
import jax.numpy as jnp
import numpy as np
import repeats as latent_step
from _jem_step import time_blocks
from _sadajem import make_sadajem, train

from ebmjax import data, latent, metrics, samplers

PRECISIONS = {"float32": None, "bfloat16": jnp.bfloat16}
TRAINING = "SADA-JEM on CIFAR-10"
SAMPLERS: dict[str, Callable[..., Any]] = {
    "sgld": partial(samplers.sgld, step_size=1e-3),
    "psgld": partial(samplers.psgld, step_size=1e-3, damping=1.0),
    "mala": partial(samplers.mala, step_size=1e-3),
    "svgd": partial(samplers.svgd, step_size=1e-3),
}


class Sizes(NamedTuple):
    """Sizes of all measurements; the published ones are the defaults."""

    matrix: int = 8192  # side of the matrices of the peak
    depth: int = 28  # of the WRN
    widen_factor: int = 10  # of the WRN
    side: int = 32  # of CIFAR's images, in pixels
    batch: int = 64  # chains that are timed beside their gradients
    num_steps: int = 20  # of these chains
    joint_batch: int = 128  # labelled images and chains of SADA-JEM
    joint_steps: int = 10  # of its chains
    powers: tuple[int, ...] = (10, 30)  # numbers of powers N_t to compare
    latent_batch: int = 72  # images of the latent EBM
    latent_steps: tuple[int, int] = (60, 40)  # of its chains on the prior and on the posterior
    features: tuple[int, ...] = (1024, 512, 256, 128)  # of the generator: 64 pixels a side
    particles: tuple[int, int] = (1000, 3072)  # of SVGD, and their dimension
    train_steps: int = 200_000  # of the training, at most


TINY = Sizes(64, 10, 1, 8, 4, 2, 8, 2, (2, 3), 4, (2, 2), (8, 4), (20, 12), 40)


def record(time_ms: float, program: Any, compile_seconds: float, **more: float) -> harness.Row:
    """Returns a time with what compiling and its memory cost."""
    cost = {"compile_s": compile_seconds, "temporaries_mib": harness.memory_mib(program)["temp"]}
    return {"ms": time_ms, **more, **cost}


def time_product(sizes: Sizes, repeats: int, precision: str) -> harness.Row:
    """Measures the rate of a large matrix product: operations a second."""
    dtype = PRECISIONS[precision] or jnp.float32
    times, *compiled = _chain_limits.time_product(sizes.matrix, repeats, dtype)
    tflops = 2e-9 * sizes.matrix**3 / harness.median_ms(times)
    return record(harness.median_ms(times), *compiled, tflops=tflops)


def make_density(sizes: Sizes, precision: str) -> tuple[Callable[[jax.Array], Any], jax.Array]:
    """Returns a WRN's log p(x) of one image, and images."""
    shape = (sizes.side, sizes.side, 3)
    images = jax.random.uniform(jax.random.key(1), (sizes.batch, *shape), minval=-1.0)
    dtype = PRECISIONS[precision]
    return _chains.make_image_density(shape, sizes.depth, sizes.widen_factor, dtype=dtype), images


def time_gradient(sizes: Sizes, repeats: int, precision: str) -> harness.Row:
    """Times bare gradients of all chains, and counts their operations."""
    log_density_fn, images = make_density(sizes, precision)
    function = jax.vmap(jax.value_and_grad(log_density_fn))
    program, compile_seconds = harness.compile_program(function, images)
    time_ms = harness.median_ms(harness.time_in_turn({"": lambda: program(images)}, repeats)[""])
    tflops = 1e-9 * metrics.compiled_flops(function, images) / time_ms
    return record(time_ms, program, compile_seconds, tflops=tflops)


def time_chain(sizes: Sizes, repeats: int, precision: str, name: str) -> harness.Row:
    """Times a chain beside as many bare gradients."""
    log_density_fn, images = make_density(sizes, precision)
    sampler = SAMPLERS[name](log_density_fn)
    chain = _chains.compile_chain(sampler, images, sizes.num_steps, interacting=name == "svgd")
    gradient = _chains.compile_gradient(log_density_fn, images)
    ours, bare = _chains.beside_gradients(chain, gradient, sizes.num_steps, repeats)
    time_ms = harness.median_ms(ours)
    return record(
        time_ms,
        chain.program,
        chain.compile_seconds,
        steps_a_second=1e3 * sizes.num_steps / time_ms,
        ratio_to_gradients=harness.spread_of_ratios(ours, bare).median,
    )


def time_svgd(sizes: Sizes, repeats: int) -> harness.Row:
    """Times steps of SVGD on a Gaussian."""
    start, num_steps = jax.random.normal(jax.random.key(0), sizes.particles), 20
    sampler = samplers.svgd(_chains.log_gaussian, step_size=1e-2)
    chain = _chains.compile_chain(sampler, start, num_steps, interacting=True)
    time_ms = harness.median_ms(harness.time_in_turn({"": chain}, repeats)[""]) / num_steps
    more = {"steps_a_second": 1e3 / time_ms}
    return record(time_ms, chain.program, chain.compile_seconds, **more)


def time_steps(
    step: Any, state: Any, examples: Any, batch_size: Any, block: int, repeats: int, **more: int
) -> harness.Row:
    """Times training steps under ``training.fit``."""
    (times, _), result = time_blocks(step, state, examples, batch_size, block, repeats)
    time_ms = harness.median_ms(times) / block
    skipped, compiled = int(result.state.skipped), result.compile_seconds
    rate = {"ms": time_ms, "steps_a_second": 1e3 / time_ms}
    return {**rate, "skipped_steps": skipped, "compile_s": compiled, **more}


def time_sadajem(sizes: Sizes, repeats: int, precision: str) -> harness.Row:
    """Times SADA-JEM's training steps on random pixels; an epoch has 50,000 images."""
    dtype, batch_size = PRECISIONS[precision], sizes.joint_batch
    wrn = (sizes.depth, sizes.widen_factor, sizes.side)
    step, state, _ = make_sadajem(*wrn, batch_size, sizes.joint_steps, dtype)
    rng, number = np.random.default_rng(0), 8 * batch_size
    images = rng.integers(0, 256, (number, sizes.side, sizes.side, 3), dtype=np.uint8)
    examples = data.ImageData(images, rng.integers(0, 10, number).astype(np.int32))
    found = time_steps(step, state, examples, (batch_size,) * 2, 10, repeats)
    return {**found, "epoch_s": found["ms"] * (50_000 // batch_size) / 1e3}


def time_latent(sizes: Sizes, repeats: int, num_powers: int) -> harness.Row:
    """Times steps of the latent EBM of thermo_celeba, with all powers in parallel."""
    step, first_state, shape = latent_step.make_step(
        latent.LatentChains(
            80,
            prior_sampler=partial(samplers.sgld, step_size=0.08),
            prior_steps=sizes.latent_steps[0],
            posterior_sampler=partial(samplers.sgld, step_size=0.005),
            posterior_steps=sizes.latent_steps[1],
        ),
        hidden=(200, 200),
        features=sizes.features,
        channels=3,
        observe=data.to_signed_unit,
        num_powers=num_powers,
        learning_rate=1e-4,
        axis_name="data",
    )
    number = 4 * sizes.latent_batch
    images = np.random.default_rng(0).integers(0, 256, (number, *shape), dtype=np.uint8)
    state, side = first_state(jax.random.key(0)), shape[0]
    return time_steps(step, state, images, sizes.latent_batch, 2, repeats, image_side=side)


def list_measurements(sizes: Sizes) -> dict[str, Callable[[int], harness.Row]]:
    """Returns every measurement by its name, most valuable first.

    A rehearsal leaves out float32 where both precisions run the same code.
    """
    precisions = ("bfloat16",) if sizes is TINY else ("bfloat16", "float32")
    found: dict[str, Callable[..., harness.Row]] = {}
    wrn = f"WRN-{sizes.depth}-{sizes.widen_factor}"
    for each in PRECISIONS:
        found[f"matrix product, {each}"] = partial(time_product, precision=each)
        found[f"gradient, {wrn}, {each}"] = partial(time_gradient, precision=each)
    for each in precisions:
        found[f"SADA-JEM step, {wrn}, {each}"] = partial(time_sadajem, precision=each)
    for each in precisions:
        for name in SAMPLERS:
            row = f"{name}, {sizes.num_steps} steps, {wrn}, {each}"
            found[row] = partial(time_chain, precision=each, name=name)
    for number in sizes.powers:
        found[f"latent EBM step, N_t {number}"] = partial(time_latent, num_powers=number)
    found[f"SVGD step, {sizes.particles}"] = time_svgd
    return {name: partial(measure, sizes) for name, measure in found.items()}


def describe_device() -> harness.Row:
    """Returns date, device and versions."""
    return {
        "date": str(datetime.date.today()),
        "device": f"{jax.devices()[0].device_kind} x{jax.device_count()}",
        "jax": jax.__version__,
        "python": platform.python_version(),
    }


def add_fractions(records: dict[str, harness.Row]) -> dict[str, harness.Row]:
    """Adds the fraction of the matrix product's rate in the same precision."""
    for name, found in records.items():
        reference = records.get(f"matrix product, {name.rpartition(', ')[2]}", {})
        if "tflops" in found and "tflops" in reference:
            found["fraction_of_peak"] = found["tflops"] / reference["tflops"]
    return records


def save(folder: Path, about: harness.Row, records: dict[str, harness.Row]) -> None:
    """Writes all records as JSON and as a Markdown table."""
    folder.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"machine": about, "records": records}, indent=1)
    (folder / "accelerator.json").write_text(content + "\n")
    lines = [", ".join(map(str, about.values())), "", "| what | numbers |", "|---|---|"]
    for name, found in records.items():
        numbers = ", ".join(
            f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
            for key, value in found.items()
        )
        lines.append(f"| {name} | {numbers} |")
    (folder / "accelerator.md").write_text("\n".join(lines) + "\n")


def read_earlier(folder: Path, about: harness.Row) -> dict[str, harness.Row]:
    """Returns the records of an earlier call on the same device and versions."""
    file = folder / "accelerator.json"
    if not file.exists():
        return {}
    found = json.loads(file.read_text())
    for name in ("device", "jax"):
        if found["machine"][name] != about[name]:
            raise SystemExit(
                f"{file} was measured with {name} {found['machine'][name]}, but this machine has "
                f"{about[name]}. Give another --out."
            )
    return found["records"]


def main(argv: Sequence[str] | None = None) -> None:
    """Measures until everything is measured or the time is over."""
    parser = harness.make_parser(__doc__, out=Path("accelerator"))
    whole = "time for all, compiling included"
    parser.add_argument("--minutes", type=float, default=9.0, help=whole)
    parser.add_argument("--repeats", type=harness.at_least_one, default=5, help="timings of each")
    parser.add_argument("--cifar", type=Path, help="images to train on in the time that is left")
    parser.add_argument("--rehearse", action="store_true", help="tiny sizes, to try the command")
    options = parser.parse_args(argv)
    if not options.minutes > 0:
        parser.error("--minutes must be above 0.")
    if options.cifar and not options.cifar.exists():
        parser.error(f"--cifar: there is no file {options.cifar}.")
    deadline = time.monotonic() + 60 * options.minutes
    sizes, about = TINY if options.rehearse else Sizes(), describe_device()
    records = read_earlier(options.out, about)
    for name, measure in list_measurements(sizes).items():
        if name in records:
            continue
        if time.monotonic() > deadline:
            print("The time is over. The same command goes on.")
            return
        started = time.perf_counter()
        try:
            records[name] = measure(options.repeats)
        except jax.errors.JaxRuntimeError as error:  # out of memory, say: the others go on
            records[name] = {"failed": str(error).splitlines()[0]}
        stats = jax.devices()[0].memory_stats() or {}
        if "peak_bytes_in_use" in stats:
            records[name]["peak_gib_so_far"] = stats["peak_bytes_in_use"] / 2**30
        save(options.out, about, add_fractions(records))
        print(f"{name}: {records[name]}  [{time.perf_counter() - started:.0f} s]", flush=True)
    if options.cifar and TRAINING not in records:
        records[TRAINING] = train(
            *(sizes.depth, sizes.widen_factor, sizes.joint_batch, sizes.joint_steps),
            *(options.cifar, sizes.train_steps, deadline),
        )
        save(options.out, about, records)
    print((options.out / "accelerator.md").read_text())


if __name__ == "__main__":
    quietly(main)
