"""Measures what a configuration costs here: the time of a step, an epoch and the run, and memory.

  python benchmarks/run.py configuration --config=configs/jem_cifar10.py --random_examples=1000
  python benchmarks/run.py configuration --config=configs/jem_digits.py --flops --blocks=0

Runs a few blocks of training. --flops counts the operations of a step over the whole batch, loops
included. --random_examples stands in for a data set of tensorflow-datasets that is not at hand.
Further arguments are fields: --config.FIELD=VALUE.
"""

import argparse
import contextlib
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import median
from typing import Any

import _harness as harness
import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import metrics, training
from ebmjax._phases import phase, tell_phases
from ebmjax.recipes.config import command_line
from ebmjax.recipes.config.errors import Config, stop
from ebmjax.recipes.models import build
from ebmjax.recipes.run.run import USER_ERRORS, Run
from ebmjax.training._feed import Feed
from ebmjax.training._sharding import place_state
from ebmjax.training._step import make_block

TAKES_FIELDS = True


@contextlib.contextmanager
def offer_examples(number: int | None = None) -> Iterator[None]:
    """Gives tensorflow-datasets random examples, if any; a mistake ends the program in a line."""
    with contextlib.ExitStack() as stack:
        if number is not None:
            import tensorflow_datasets as tfds

            stack.enter_context(tfds.testing.mock_data(num_examples=number))
        try:
            yield
        except USER_ERRORS as error:
            stop(error)


def build_experiment(config: Config) -> build.Experiment:
    """Returns the experiment of ``config``, as run.py trains it."""
    with tempfile.TemporaryDirectory() as folder:
        return Run(config, folder).build()


def build_jem(
    batch_size: int, num_steps: int, block: int, num_shards: int
) -> tuple[Config, build.Experiment]:
    """Returns JEM on the digits, at settings that PyTorch's step has, too.

    ``batch_size`` counts labelled images, images for p(x), and chains; ``num_steps`` the steps of a
    chain; ``block`` the training steps in one compiled call.
    """
    sizes = "train.batch_size", "train.positive_batch_size", "sampler.num_samples"
    fields = dict.fromkeys(sizes, batch_size) | {
        "sampler.num_steps": num_steps,
        "data.crop_padding": 1,
        "optimizer.learning_rate": 1e-3,
        "mesh.num_shards": num_shards,
        "train.steps_per_dispatch": block,
        "train.max_consecutive_skips": 1_000_000,  # a step that diverges takes as long
    }
    texts = [f"--config.{name}={value}" for name, value in fields.items()]
    config = command_line.read("configs/jem_digits.py:unconfined", texts)
    return config, build_experiment(config)


def make_steps(config: Config, made: build.Experiment) -> tuple[Callable[[], Any], Any, float]:
    """Returns a call of one block as ``training.fit`` runs it, its program, and what that took."""
    mesh = training.make_mesh(made.plan.num_shards)
    plan = replace(made.plan, total_steps=10**9)
    blocks = Feed(made.data, plan, mesh).blocks(0)
    key, state = build.root_keys(config.seed)[1], place_state(made.state, mesh)
    given, step = (next(blocks)[-1], made.numbers), make_block(made.train_step, mesh)
    with tell_phases("stderr"), phase(f"compiling a block of {plan.steps_per_dispatch} steps"):
        started = time.perf_counter()
        program = step.lower(key, state, *given).compile()
        seconds = time.perf_counter() - started

    def steps() -> Any:
        nonlocal state
        state, metrics = program(key, state, next(blocks)[-1], made.numbers)
        return state, metrics

    return steps, program, seconds


def measure(config: Config, num_blocks: int, has_flops: bool) -> Iterator[tuple[str, str]]:
    """Builds it, times it if there are blocks to time, and counts its operations if asked."""
    experiment = build_experiment(config)
    training.digest_data(experiment.data)  # as a run begins: it reads all of them
    plan, seconds = experiment.plan, float("nan")
    if num_blocks:
        steps, program, to_compile = make_steps(config, experiment)
        yield "to compile", f"{to_compile:.3g} s"
        yield "program", f"{harness.memory_mib(program)['peak']:.4g} MiB, as XLA counts them"
        harness.time_call(steps)
        size = plan.steps_per_dispatch
        times = [harness.time_call(steps) / size for _ in range(num_blocks)]
        seconds = median(times)
        per_epoch = len(jax.tree.leaves(experiment.data)[0]) // plan.streams[0]
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # in KiB on Linux
        yield "a step", f"{harness.spread(times, 1e3)} ms"
        yield "an epoch", f"{seconds * per_epoch:.4g} s, {per_epoch} steps"
        yield "the run", f"{seconds * plan.total_steps / 3600:.3g} h, {plan.total_steps} steps"
        yield "process", f"{resident / 2**10:.4g} MiB at its peak"
    if has_flops:
        flops = step_flops(experiment, build.root_keys(config.seed)[1])
        run = f"{flops * plan.total_steps / 1e15:.4g} P in {plan.total_steps} steps"
        rate = f", {flops / seconds / 1e12:.4g} T a second" if num_blocks else ""
        yield "operations", f"{flops / 1e12:.4g} T a step{rate}, {run}"


def step_flops(experiment: build.Experiment, key: jax.Array) -> float:
    """Returns operations of one step over the whole batch, as one device would take it."""
    plan = experiment.plan

    def stream(batch_size: int) -> Any:
        shape = (plan.num_shards, batch_size // plan.num_shards)
        rows = jax.tree.map(lambda leaf: leaf[np.zeros(batch_size, int)], experiment.data)
        return jax.tree.map(lambda leaf: jnp.reshape(leaf, (*shape, *leaf.shape[1:])), rows)

    batches = tuple(map(stream, plan.streams))
    batch = batches if isinstance(plan.batch_size, tuple) else batches[0]
    # A mesh of one device, as an axis: the loops are counted one by one, outside of any mesh.
    step = jax.vmap(experiment.train_step, in_axes=None, axis_name="data", axis_size=1)
    return metrics.compiled_flops(step, key, experiment.state, batch, experiment.numbers)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what this benchmark reads; other arguments are fields."""
    parser.add_argument("--config", required=True, help="configuration file, with :VARIANT")
    parser.add_argument("--random_examples", type=int, help="number of them")
    parser.add_argument("--blocks", type=int, default=5, help="timed, after one more (5)")
    parser.add_argument("--flops", action="store_true", help="count the operations, too")
    parser.set_defaults(parser=parser)


def rows(_: str, options: argparse.Namespace) -> Iterator[harness.Row]:
    """Measures a configuration."""
    config = command_line.read(options.config, options.fields)
    if options.blocks < (0 if options.flops else 1):
        options.parser.error("--blocks must be at least 1, or 0 with --flops for operations alone.")
    with offer_examples(options.random_examples):
        for what, value in measure(config, options.blocks, options.flops):
            yield {"what": what, "value": value}
