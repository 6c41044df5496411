"""Compiles training steps for TPUs that are not at hand, and says what they need there.

  python benchmarks/compile_for.py --config=configs/jem_digits.py --topology=cpu
  pip install libtpu
  python benchmarks/compile_for.py --config=configs/jem_cifar10.py --topology=v5e:2x4
  python benchmarks/compile_for.py --config=configs/thermo_celeba.py --topology=v6e:1x1 \\
      --random_examples=1000

The TPU's own compiler runs on a CPU; no TPU is needed. It compiles the block of steps that
``training.fit`` runs, over as many chips as divide ``config.mesh.num_shards``. Further arguments
are those of run.py. Random images stand in for a data set of tensorflow-datasets that is not at
hand. The block is one step, unless ``config.train.steps_per_dispatch`` is given.

Prints, for each chip: memory (arguments, results, temporaries; without the data set, which
``config.data.placement`` keeps there or not), operations and bytes of a step as the compiler counts
them, its estimate of a step's time, collectives, the size of the program, and the seconds of
processors to trace and to compile it. --topology=cpu compiles for this machine. With the variable
JAX_OPTIMIZATION_LEVEL=O1 a wide network's step compiles several times as fast, to a slower program.
XLA counts the body of a loop once: operations, bytes and estimate leave out all but one step of a
chain whose loop is not unrolled.
"""

import argparse
import datetime
import math
import os
import re
import tempfile
import time
from collections import Counter
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

# Before JAX is imported: libtpu would look for a TPU, and JAX compiles other programs otherwise.
os.environ.setdefault("JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS", "true")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v5litepod-8")
os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")  # several compilers beside each other

import jax
import jax.numpy as jnp
from configuration import examples
from jax.experimental import topologies
from jax.sharding import PartitionSpec
from sampler_throughput import at_least_one

from ebmjax.recipes.__main__ import quietly
from ebmjax.recipes.core import build, command_line, explain, families
from ebmjax.recipes.core.fields import FAILED, Config, stop
from ebmjax.training._block import make_block
from ebmjax.training._feed import describe_batches
from ebmjax.training._sharding import describe_shapes, make_mesh, state_specs

COLLECTIVE = re.compile(
    r" (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\("
)
UNKNOWN = "unknown"


def chips(topology: str) -> list[Any]:
    """Returns the devices of a topology such as "v5e:2x4"; ends the program if there are none.

    Those of "cpu" are this machine's.
    """
    if topology == "cpu":
        return jax.devices("cpu")
    try:
        return topologies.get_topology_desc(platform="tpu", topology_name=topology).devices
    except (
        Exception
    ) as error:  # libtpu is missing, or does not know the name: JAX raises many kinds
        stop(
            f"--topology={topology}: no such TPU can be described ({error}). Give a name such as "
            "v5e:2x4 or v6e:1x1, and install libtpu: pip install libtpu."
        )


class Compiled(NamedTuple):
    """A compiled step.

    Attributes:
      program: as JAX compiled it.
      num_chips: chips that it uses.
      trace_seconds: of processors, to trace and to lower it.
      compile_seconds: of processors, to compile it.
    """

    program: jax.stages.Compiled
    num_chips: int
    trace_seconds: float
    compile_seconds: float


def compile_step(config: Config, devices: list[Any]) -> Compiled:
    """Compiles the block of steps of ``config`` for as many of ``devices`` as it can use."""
    with tempfile.TemporaryDirectory() as folder:
        make = partial(families.build, config, Path(folder))
        experiment = explain.build_or_explain(config, make)
    plan = experiment.plan
    mesh = make_mesh(plan.num_shards, devices)
    shapes = [
        (plan.steps_per_dispatch, plan.num_shards, size // plan.num_shards) for size in plan.streams
    ]
    indices = tuple(jnp.zeros(shape, jnp.int32) for shape in shapes)
    arguments = (
        describe_shapes(build.train_key(config), mesh, PartitionSpec()),
        describe_shapes(experiment.state, mesh, state_specs()),
        describe_batches(
            experiment.data, indices if isinstance(plan.batch_size, tuple) else indices[0], mesh
        ),
    )
    started = time.process_time()
    # Networks choose their convolutions by the backend.
    with mock.patch.object(jax, "default_backend", return_value=devices[0].platform):
        lowered = make_block(experiment.train_step, mesh).lower(*arguments)
    traced = time.process_time()
    program = lowered.compile()
    return Compiled(program, mesh.size, traced - started, time.process_time() - traced)


def report(compiled: Compiled) -> str:
    """Returns the numbers of a compiled step, a line each."""
    memory = compiled.program.memory_analysis()
    cost = compiled.program.cost_analysis() or {}
    try:
        text = compiled.program.as_text() or ""
    except jax.errors.JaxRuntimeError:  # JAX 0.10.2 cannot write every program for v6e
        text = ""
    found = Counter(COLLECTIVE.findall(text))
    collectives = ", ".join(f"{number} {name}" for name, number in found.items()) or "none"
    convolutions = len(re.findall(r" convolution[(]", text))
    instructions = len(re.findall(r"^ +(?:ROOT )?%", text, re.MULTILINE))
    mib = {
        name: getattr(memory, f"{name}_size_in_bytes") / 2**20
        for name in ("argument", "output", "temp", "alias")
    }
    total = mib["argument"] + mib["output"] + mib["temp"] - mib["alias"]
    lines = [
        f"chips         {compiled.num_chips}",
        f"memory        {total:.4g} MiB a chip: arguments {mib['argument']:.4g}, results not in "
        f"their place {mib['output'] - mib['alias']:.4g}, temporaries {mib['temp']:.4g}",
        f"collectives   {collectives if text else UNKNOWN}",
        f"operations    {cost.get('flops', math.nan) / 1e9:.4g} G, "
        f"{cost.get('bytes accessed', math.nan) / 2**20:.4g} MiB moved; bodies of loops once",
        f"convolutions  {convolutions if text else UNKNOWN} in the program",
        f"instructions  {instructions if text else UNKNOWN} in the program",
        f"to trace      {compiled.trace_seconds:.3g} s of processors",
        f"to compile    {compiled.compile_seconds:.3g} s of processors",
    ]
    if cost.get("optimal_seconds", -1) > 0:  # below 0 where the compiler has no estimate
        lines.insert(
            4, f"estimate      {1e3 * cost['optimal_seconds']:.4g} ms; bodies of loops once"
        )
    return "\n".join(lines)


def main() -> None:
    """Compiles one configuration."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", required=True, help="configuration file, with :VARIANT")
    parser.add_argument("--topology", default="v5e:2x4", help="TPU, by the name that libtpu knows")
    parser.add_argument("--random_examples", type=at_least_one, help="so many, of its shapes")
    options, rest = parser.parse_known_args()
    if not any(argument.startswith("--config.train.steps_per_dispatch") for argument in rest):
        rest.append("--config.train.steps_per_dispatch=1")
    config = command_line.read(options.config, rest)
    devices = chips(options.topology)
    print(
        f"{datetime.date.today()}  {' '.join([options.config, *rest])}  {options.topology}, "
        f"{devices[0].device_kind} x{len(devices)}  jax {jax.__version__}  "
        f"{'' if options.topology == 'cpu' else 'libtpu ' + metadata.version('libtpu')}",
        flush=True,
    )
    try:
        with examples(options.random_examples):
            compiled = compile_step(config, list(devices))
    except explain.USER_ERRORS as error:
        stop(error)
    except jax.errors.JaxRuntimeError as error:
        stop(f"it does not compile: {error}", FAILED)
    print(report(compiled))


if __name__ == "__main__":
    quietly(main)
