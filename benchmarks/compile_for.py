"""Compiles the programs of a run for TPUs that are not at hand, and says what they need.

  python benchmarks/compile_for.py --config=configs/jem_digits.py --topology=cpu
  pip install libtpu
  python benchmarks/compile_for.py --config=configs/jem_cifar10.py --topology=v5e:2x4
  python benchmarks/compile_for.py --config=configs/thermo_celeba.py --topology=v6e:2x2 \\
      --random_examples=1000
  python benchmarks/compile_for.py --config=configs/jem_cifar10.py --topology="v5e:2x4*2"  # slices

The device's own compiler runs on a CPU, without the device. Further arguments are those of run.py.
Random images stand in for a data set of tensorflow-datasets that is not at hand. --topology=cpu
compiles for this machine.

Compiles the block of steps that ``training.fit`` runs, over as many chips as divide
``config.mesh.num_shards``. It is one step, unless ``config.train.steps_per_dispatch`` is given. For
each chip: MiB with arguments and temporaries; 10^9 operations, MiB moved and ms as the compiler
counts them, bodies of loops once; seconds of processors to trace and to compile. Ends with exit
code 1 if the program does not fit into the device's memory. With the variable
JAX_OPTIMIZATION_LEVEL=O1 a wide network's step compiles several times as fast, to a slower program.
"""

import math
import os
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest import mock

# Before JAX is imported: libtpu would look for a TPU otherwise.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v5litepod-8")
os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")  # several compilers beside each other

import _harness as harness
import configuration as configured
import jax
from jax.experimental import topologies
from jax.sharding import PartitionSpec

from ebmjax.recipes.__main__ import quietly
from ebmjax.recipes.config import command_line
from ebmjax.recipes.config.errors import FAILED, Config, stop
from ebmjax.recipes.models import build
from ebmjax.recipes.run.run import Run
from ebmjax.training._block import make_block
from ebmjax.training._feed import describe_batches, plan_indices
from ebmjax.training._sharding import describe_shapes, make_mesh, state_specs

MEMORY = {"TPU v5 lite": 15.75 * 2**30, "TPU v6 lite": 31.25 * 2**30}
"""Bytes of a device that programs may use."""


def chips(topology: str) -> list[Any]:
    """Returns devices of a topology such as "v5e:2x4"; ends the program if there are none.

    Those of "cpu" are this machine's.
    """
    if topology == "cpu":
        return jax.devices("cpu")
    try:
        name, _, slices = topology.partition("*")
        options = {"topology_name": name, "num_slices": int(slices or 1)}
        return topologies.get_topology_desc(platform="tpu", **options).devices
    except Exception as error:  # without libtpu, or for a name it does not know: many kinds
        stop(
            f"--topology={topology}: no such TPU can be described ({error}). Give a name such as "
            "v5e:2x4 or v6e:1x1, and install libtpu: pip install libtpu."
        )


def compile_step(config: Config, folder: Path, devices: list[Any]) -> harness.Row:
    """Compiles a run's step for as many of ``devices`` as it can use, and describes it."""
    experiment = Run(config, folder).build()
    plan = experiment.plan
    mesh = make_mesh(plan.num_shards, devices)
    num_examples = len(jax.tree.leaves(experiment.data)[0])
    indices = plan_indices(plan, 0, plan.steps_per_dispatch, num_examples)
    started = time.process_time()
    # Networks choose their convolutions by the backend.
    with mock.patch.object(jax, "default_backend", return_value=devices[0].platform):
        lowered = make_block(experiment.train_step, mesh).lower(
            describe_shapes(build.root_keys(config.seed)[1], mesh, PartitionSpec()),
            describe_shapes(experiment.state, mesh, state_specs()),
            describe_batches(experiment.data, indices, mesh),
            experiment.numbers,
        )
        traced = time.process_time()
        try:
            program = lowered.compile()
        except jax.errors.JaxRuntimeError as error:
            stop(f"the step does not compile: {error}", FAILED)
    seconds = {"s to trace": traced - started, "to compile": time.process_time() - traced}
    return {"program": f"step on {mesh.size}", **describe(program), **seconds}


def describe(program: jax.stages.Compiled) -> harness.Row:
    """Returns the numbers of a compiled program by what they are of."""
    mib, cost = harness.memory_mib(program), program.cost_analysis() or {}
    found: harness.Row = {"MiB": mib["peak"], "arguments": mib["argument"]}
    found |= {"temporaries": mib["temp"]}
    if "flops" in cost:
        found |= {"10^9": cost["flops"] / 1e9, "moved": cost["bytes accessed"] / 2**20}
    if cost.get("optimal_seconds", -1) > 0:  # below 0 where the compiler has no estimate
        found["ms"] = 1e3 * cost["optimal_seconds"]
    return found


def main() -> None:
    """Compiles one configuration."""
    parser = harness.make_parser(__doc__)
    parser.add_argument("--config", required=True, help="configuration file, with :VARIANT")
    parser.add_argument("--random_examples", type=int, help="number of them")
    parser.add_argument("--topology", default="v5e:2x4", help="TPU as libtpu calls it")
    options, rest = parser.parse_known_args()
    if not any(argument.startswith("--config.train.steps_per_dispatch") for argument in rest):
        rest.append("--config.train.steps_per_dispatch=1")
    config = command_line.read(options.config, rest)
    devices = list(chips(options.topology))
    with (
        configured.offer_examples(options.random_examples),
        tempfile.TemporaryDirectory() as folder,
    ):
        row = compile_step(config, Path(folder), devices)
    if devices[0].platform == "tpu":
        harness.VERSIONS["libtpu"] = metadata.version("libtpu")
    harness.VERSIONS["device"] = f"{options.topology}, {devices[0].device_kind} x{len(devices)}"
    harness.report("compile_for", [row], options.out)
    limit = MEMORY.get(devices[0].device_kind, math.inf) / 2**20
    if row["MiB"] > limit:
        stop(f"more than the {limit:,.0f} MiB of a chip: {row['MiB']:,.0f}", FAILED)


if __name__ == "__main__":
    quietly(main)
