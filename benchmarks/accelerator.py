"""Measures what needs an accelerator, most valuable first, within a number of minutes.

  python benchmarks/accelerator.py --minutes=9 --out=FOLDER
  python benchmarks/accelerator.py --rehearse

Needs JAX, Flax and Optax only, and no installation: run it from a checkout. Writes accelerator.json
and accelerator.md to --out after each measurement. The same command goes on after the last one that
is there, so a time limit loses one measurement at most. --rehearse runs all of them in tiny sizes.
--cifar names an .npz file with images (N, 32, 32, 3) in uint8, labels, test_images and test_labels;
the time that is left then trains SADA-JEM on it.

Matrix products of 8192 x 8192 give the peak that operations are compared with. Chains are timed
beside as many bare gradients. Each time is the median of --repeats, after one that warms up.
"""

import argparse
import contextlib
import datetime
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the checkout, installed or not

from ebmjax.recipes.__main__ import quietly
from ebmjax.recipes.core.quick_compilation import quick_flags

if "--rehearse" in sys.argv:  # before JAX starts
    os.environ["XLA_FLAGS"] = quick_flags(os.environ.get("XLA_FLAGS", ""))

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ebmjax import data, latent, learning, losses, metrics, networks, samplers, training

PRECISIONS = {"float32": None, "bfloat16": jnp.bfloat16}
Record = dict[str, Any]


class Sizes(NamedTuple):
    """Sizes of all measurements; the published ones are the defaults.

    Attributes:
      matrix: side of the matrices of the peak.
      depth, widen_factor: of the WRN.
      side: of CIFAR's images, in pixels.
      batch: chains of the chain throughput.
      num_steps: of these chains.
      joint_batch: labelled images and chains of SADA-JEM.
      joint_steps: steps of its chains.
      powers: numbers of powers N_t to compare.
      latent_batch: images of the latent EBM.
      latent_steps: steps of its chains, on the prior and on the posterior.
      features: of the generator that makes images of 64 pixels a side.
      particles: of SVGD, and their dimension.
      train_steps: at most, of the training.
    """

    matrix: int = 8192
    depth: int = 28
    widen_factor: int = 10
    side: int = 32
    batch: int = 64
    num_steps: int = 20
    joint_batch: int = 128
    joint_steps: int = 10
    powers: tuple[int, ...] = (10, 30)
    latent_batch: int = 72
    latent_steps: tuple[int, int] = (60, 40)
    features: tuple[int, ...] = (1024, 512, 256, 128)
    particles: tuple[int, int] = (1000, 3072)
    train_steps: int = 200_000


TINY = Sizes(64, 10, 1, 8, 4, 2, 8, 2, (2, 3), 4, (2, 2), (8, 4), (20, 12), 40)


def seconds(function: Callable[[], Any], repeats: int) -> float:
    """Returns the median wall time of a call until the device has finished."""
    times = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        jax.block_until_ready(function())
        times.append(time.perf_counter() - started)
    return median(times[1:])


def compiled(function: Callable[..., Any], *arguments: Any) -> tuple[Any, Record]:
    """Returns the compiled function, and what compiling and its memory cost."""
    started = time.perf_counter()
    program = jax.jit(function).lower(*arguments).compile()
    memory = program.memory_analysis()
    return program, {
        "compile_s": time.perf_counter() - started,
        "temporaries_mib": memory.temp_size_in_bytes / 2**20 if memory else math.nan,
    }


def peak(sizes: Sizes, repeats: int, precision: str) -> Record:
    """Measures the rate of a large matrix product: operations a second."""
    dtype = PRECISIONS[precision] or jnp.float32
    matrix = jnp.ones((sizes.matrix, sizes.matrix), dtype)
    program, cost = compiled(jnp.matmul, matrix, matrix)
    duration = seconds(lambda: program(matrix, matrix), repeats)
    return {"ms": 1e3 * duration, "tflops": 2e-12 * sizes.matrix**3 / duration, **cost}


def log_density(sizes: Sizes, precision: str) -> tuple[Callable[[jax.Array], jax.Array], jax.Array]:
    """Returns a WRN's log p(x) of one image, and images."""
    shape = (sizes.side, sizes.side, 3)
    network: Any = networks.WideResNet(
        sizes.depth, sizes.widen_factor, 10, dtype=PRECISIONS[precision]
    )
    params = jax.jit(network.init)(jax.random.key(0), jnp.zeros(shape))
    images = jax.random.uniform(jax.random.key(1), (sizes.batch, *shape), minval=-1.0)
    return lambda image: jax.nn.logsumexp(network.apply(params, image)), images


def gradient(sizes: Sizes, repeats: int, precision: str) -> Record:
    """Times bare gradients of all chains, and counts their operations."""
    log_density_fn, images = log_density(sizes, precision)
    function = jax.vmap(jax.value_and_grad(log_density_fn))
    program, cost = compiled(function, images)
    duration = seconds(lambda: program(images), repeats)
    flops = metrics.compiled_flops(function, images)
    return {"ms": 1e3 * duration, "tflops": 1e-12 * flops / duration, **cost}


SAMPLERS: dict[str, Callable[..., Any]] = {
    "sgld": partial(samplers.sgld, step_size=1e-3),
    "psgld": partial(samplers.psgld, step_size=1e-3, damping=1.0),
    "mala": partial(samplers.mala, step_size=1e-3),
    "svgd": partial(samplers.svgd, step_size=1e-3),
}


def chain(sizes: Sizes, repeats: int, precision: str, name: str) -> Record:
    """Times a chain beside as many bare gradients."""
    log_density_fn, images = log_density(sizes, precision)
    sampler = SAMPLERS[name](log_density_fn)
    is_single = name != "svgd"
    init = jax.vmap(sampler.init) if is_single else sampler.init
    step = samplers.batch_step(sampler.step) if is_single else sampler.step

    def run(key: jax.Array, start: jax.Array) -> Any:
        return samplers.run_chain(key, init(start), step, sizes.num_steps, burn_in=sizes.num_steps)[
            0
        ]

    key = jax.random.key(2)
    program, cost = compiled(run, key, images)
    bare = jax.jit(jax.vmap(jax.grad(log_density_fn))).lower(images).compile()
    pairs = [
        (
            seconds(lambda: program(key, images), 1),
            seconds(lambda: [bare(images) for _ in range(sizes.num_steps)], 1),
        )
        for _ in range(repeats)
    ]
    return {
        "ms": 1e3 * median(pair[0] for pair in pairs),
        "steps_a_second": sizes.num_steps / median(pair[0] for pair in pairs),
        "ratio_to_gradients": median(ours / theirs for ours, theirs in pairs),
        **cost,
    }


def view(key: jax.Array, images: jax.Array) -> jax.Array:
    """Returns images as the network sees them, cropped and flipped."""
    crop_key, flip_key = jax.random.split(key)
    images = data.reflect_pad_crop(crop_key, data.to_signed_unit(images), padding=4)
    return data.random_flip(flip_key, images)


def plain(key: jax.Array, images: jax.Array) -> jax.Array:
    """Returns images as the network sees them, without augmentation."""
    del key
    return data.to_signed_unit(images)


def generative_loss(positive: jax.Array, negative: jax.Array, smoothing: jax.Array) -> Any:
    """Contrastive divergence of log densities."""
    return losses.contrastive_divergence_loss(-positive / smoothing, -negative / smoothing)


def sadajem(sizes: Sizes, precision: str, learning_rate: float = 0.1) -> tuple[Any, ...]:
    """Returns SADA-JEM's step on one shard, its first state and its network.

    WRN with batch normalisation, K SGLD steps within the box of the images, SAM with rho 0.2, plain
    images for p(x).
    """
    shape = (sizes.side, sizes.side, 3)
    network = networks.from_linen(
        networks.WideResNet(
            sizes.depth, sizes.widen_factor, 10, norm="batch", dtype=PRECISIONS[precision]
        )
    )
    sampler = partial(samplers.clamp(samplers.sgld, -1.0, 1.0), step_size=1.0, noise_scale=0.01)
    plan = learning.ChainPlan(
        kinds={"sgld": learning.ChainKind(sampler=sampler, num_steps=sizes.joint_steps)},
        num_samples=sizes.joint_batch,
        law=samplers.uniform_law(shape, -1.0, 1.0),
        reinit_prob=0.05,
    )
    params, statistics = jax.jit(network.init)(jax.random.key(0), jnp.zeros((2, *shape)))
    carry = learning.init_carry(
        jax.random.key(1),
        plan,
        num_shards=1,
        buffer_size=max(10_000 // (32 // sizes.side) ** 4, sizes.joint_batch),
        statistics=statistics,
        smoothing=1.0,
    )
    gradient_fn = learning.make_joint_gradient_fn(
        network,
        learning.JointObjective(generative_loss=generative_loss, rho=0.2),
        classified_view=view,
        positive_view=plain,
        plan=plan,
    )
    optimizer = optax.chain(optax.add_decayed_weights(5e-4), optax.sgd(learning_rate, 0.9))
    step = training.make_train_step(gradient_fn, optimizer, max_abs_loss=1e8)
    return step, training.init_state(params, optimizer, carry), network


class Clock:
    """Notes, as a monitor of ``fit``, when each block is done."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def __call__(self, state: training.TrainState, step: int) -> Record:
        jax.block_until_ready(state)
        self.times.append(time.perf_counter())
        return {}


def steps(
    step: Any, state: Any, examples: Any, batch_size: Any, repeats: int, block: int = 10
) -> Record:
    """Times training steps under ``training.fit``."""
    clock = Clock()
    plan = training.Plan(
        total_steps=block * (repeats + 2),
        batch_size=batch_size,
        steps_per_dispatch=block,
        monitor_every=block,
        max_consecutive_skips=block * (repeats + 3),
    )
    result = training.fit(
        jax.random.key(3), state, step, examples, plan, monitor=clock, devices=jax.devices()[:1]
    )
    durations = np.diff(clock.times[2:]).tolist()
    return {
        "ms": 1e3 * median(durations) / block,
        "steps_a_second": block / median(durations),
        "skipped_steps": int(result.state.skipped),
        "compile_s": result.compile_seconds,
    }


def random_images(number: int, side: int) -> data.ImageData:
    """Returns images of random pixels, with labels."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (number, side, side, 3), dtype=np.uint8)
    return data.ImageData(images, rng.integers(0, 10, number).astype(np.int32))


def joint_step(sizes: Sizes, repeats: int, precision: str) -> Record:
    """Times SADA-JEM's training steps; an epoch has 50,000 images."""
    step, state, _ = sadajem(sizes, precision)
    batches = (sizes.joint_batch, sizes.joint_batch)
    examples = random_images(8 * sizes.joint_batch, sizes.side)
    found = steps(step, state, examples, batches, repeats)
    return {**found, "epoch_s": found["ms"] * (50_000 // sizes.joint_batch) / 1e3}


def latent_step(sizes: Sizes, repeats: int, num_powers: int) -> Record:
    """Times steps of the latent EBM of thermo_celeba, with all powers in parallel."""
    energy = networks.LatentEnergy(hidden=(200, 200))
    generator = networks.ConvGenerator(features=sizes.features, channels=3)
    z = jnp.zeros(80)
    shape = jax.eval_shape(generator.init_with_output, jax.random.key(0), z)[0].shape
    gradient_fn = learning.make_latent_gradient_fn(
        latent.LatentModel(energy.apply, generator.apply),
        latent.LatentChains(
            80,
            prior_sampler=partial(samplers.sgld, step_size=0.08),
            prior_steps=sizes.latent_steps[0],
            posterior_sampler=partial(samplers.sgld, step_size=0.005),
            posterior_steps=sizes.latent_steps[1],
        ),
        observe=data.to_signed_unit,
        powers=latent.power_schedule(num_powers, 6.0),
        loss_fn=latent.tempered_loss,
    )
    params = latent.LatentParams(
        energy.init(jax.random.key(0), z), generator.init(jax.random.key(1), z)
    )
    optimizer = optax.adam(1e-4)
    step = training.make_train_step(gradient_fn, optimizer)
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (4 * sizes.latent_batch, *shape), dtype=np.uint8)
    state = training.init_state(params, optimizer)
    found = steps(step, state, images, sizes.latent_batch, repeats, block=2)
    return {**found, "image_side": shape[0]}


def svgd(sizes: Sizes, repeats: int) -> Record:
    """Times steps of SVGD on a Gaussian."""
    num, dim = sizes.particles
    start = jax.random.normal(jax.random.key(0), (num, dim))
    sampler = samplers.svgd(lambda x: -0.5 * jnp.sum(x * x), step_size=1e-2)

    def run(key: jax.Array, particles: jax.Array) -> Any:
        state = sampler.init(particles)
        return samplers.run_chain(key, state, sampler.step, 20, burn_in=20)[0]

    key = jax.random.key(1)
    program, cost = compiled(run, key, start)
    duration = seconds(lambda: program(key, start), repeats) / 20
    return {"ms": 1e3 * duration, "steps_a_second": 1 / duration, **cost}


def measurements(sizes: Sizes) -> dict[str, Callable[[int], Record]]:
    """Returns every measurement by its name, most valuable first.

    A rehearsal leaves out float32 where both precisions run the same code.
    """
    precisions = ("bfloat16",) if sizes is TINY else ("bfloat16", "float32")
    found: dict[str, Callable[[int], Record]] = {}
    wrn = f"WRN-{sizes.depth}-{sizes.widen_factor}"
    for precision in PRECISIONS:
        found[f"matrix product, {precision}"] = partial(peak, sizes, precision=precision)
        found[f"gradient, {wrn}, {precision}"] = partial(gradient, sizes, precision=precision)
    for precision in precisions:
        found[f"SADA-JEM step, {wrn}, {precision}"] = partial(
            joint_step, sizes, precision=precision
        )
    for precision in precisions:
        for name in SAMPLERS:
            found[f"{name}, {sizes.num_steps} steps, {wrn}, {precision}"] = partial(
                chain, sizes, precision=precision, name=name
            )
    for number in sizes.powers:
        found[f"latent EBM step, N_t {number}"] = partial(latent_step, sizes, num_powers=number)
    found[f"SVGD step, {sizes.particles}"] = partial(svgd, sizes)
    return found


def train(sizes: Sizes, file: Path, deadline: float) -> Record:
    """Trains SADA-JEM in bfloat16 until ``deadline``, and measures the test accuracy."""
    with np.load(file) as arrays:
        labels, test_labels = (arrays[name].astype(np.int32) for name in ("labels", "test_labels"))
        examples, test_images = data.ImageData(arrays["images"], labels), arrays["test_images"]
    sizes = sizes._replace(side=examples.images.shape[1])
    step, state, network = sadajem(sizes, "bfloat16")
    block = 20

    class Deadline:
        """Ends the training when the time is over."""

        def __call__(self, state: training.TrainState, step: int) -> Record:
            jax.block_until_ready(state)
            if time.monotonic() > deadline:
                raise TimeoutError
            kept[:] = [jax.tree.map(jnp.copy, state)]
            return {}

    kept: list[Any] = [state]
    plan = training.Plan(
        total_steps=sizes.train_steps,
        batch_size=(sizes.joint_batch, sizes.joint_batch),
        steps_per_dispatch=block,
        monitor_every=block,
    )
    with contextlib.suppress(TimeoutError):
        training.fit(jax.random.key(4), state, step, examples, plan, monitor=Deadline())
    state = kept[0]
    statistics = jax.tree.map(lambda leaf: leaf[0], state.shards.statistics)
    logits = jax.jit(
        lambda images: network.apply(state.params, statistics, data.to_signed_unit(images))[0]
    )
    batches = np.array_split(test_images, max(len(test_images) // 500, 1))
    predicted = np.concatenate([np.argmax(logits(batch), -1) for batch in batches])
    return {
        "steps": int(state.step),
        "epochs": int(state.step) * sizes.joint_batch / len(examples.labels),
        "test_accuracy": float(np.mean(predicted == test_labels)),
        "chance": float(np.max(np.bincount(test_labels)) / len(test_labels)),
        "skipped_steps": int(state.skipped),
    }


def machine() -> Record:
    """Returns date, device and versions."""
    device = jax.devices()[0]
    return {
        "date": str(datetime.date.today()),
        "device": f"{device.device_kind} x{jax.device_count()}",
        "jax": jax.__version__,
        "python": platform.python_version(),
    }


def with_fractions(records: dict[str, Record]) -> dict[str, Record]:
    """Adds the fraction of the matrix product's rate in the same precision."""
    for name, record in records.items():
        reference = records.get(f"matrix product, {name.rpartition(', ')[2]}", {})
        if "tflops" in record and "tflops" in reference:
            record["fraction_of_peak"] = record["tflops"] / reference["tflops"]
    return records


def table(about: Record, records: dict[str, Record]) -> str:
    """Returns the records as a Markdown table."""
    lines = [", ".join(map(str, about.values())), "", "| what | numbers |", "|---|---|"]
    for name, record in records.items():
        numbers = ", ".join(
            f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
            for key, value in record.items()
        )
        lines.append(f"| {name} | {numbers} |")
    return "\n".join(lines) + "\n"


def save(folder: Path, about: Record, records: dict[str, Record]) -> None:
    """Writes both files."""
    folder.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"machine": about, "records": records}, indent=1)
    (folder / "accelerator.json").write_text(content + "\n")
    (folder / "accelerator.md").write_text(table(about, records))


def earlier(folder: Path, about: Record) -> dict[str, Record]:
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--minutes", type=float, default=9.0, help="time for all, compiling included"
    )
    parser.add_argument("--out", type=Path, default=Path("accelerator"), help="folder of the files")
    parser.add_argument("--repeats", type=int, default=5, help="timings of each")
    parser.add_argument("--cifar", type=Path, help="images to train on in the time that is left")
    parser.add_argument("--rehearse", action="store_true", help="tiny sizes, to try the command")
    options = parser.parse_args(argv)
    if options.minutes <= 0 or options.repeats < 1:
        parser.error("--minutes must be above 0 and --repeats at least 1.")
    if options.cifar and not options.cifar.exists():
        parser.error(f"--cifar: there is no file {options.cifar}.")
    deadline = time.monotonic() + 60 * options.minutes
    sizes, about = TINY if options.rehearse else Sizes(), machine()
    records = earlier(options.out, about)
    for name, measure in measurements(sizes).items():
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
        save(options.out, about, with_fractions(records))
        print(f"{name}: {records[name]}  [{time.perf_counter() - started:.0f} s]", flush=True)
    if options.cifar and "SADA-JEM on CIFAR-10" not in records:
        records["SADA-JEM on CIFAR-10"] = train(sizes, options.cifar, deadline)
        save(options.out, about, records)
    print((options.out / "accelerator.md").read_text())


if __name__ == "__main__":
    quietly(main)
