"""Compiles training steps for TPUs and GPUs that are not at hand, and says what they need there.

  python benchmarks/compile_for.py --config=configs/jem_digits.py --topology=cpu
  pip install libtpu
  python benchmarks/compile_for.py --config=configs/jem_cifar10.py --topology=v5e:2x4
  python benchmarks/compile_for.py --config=configs/thermo_celeba.py --topology=v6e:1x1 \\
      --random_examples=1000
  pip install "jax-cuda12-plugin[with-cuda]"
  python benchmarks/compile_for.py --config=configs/jem_digits.py --topology=h100:8

The device's own compiler runs on a CPU, without the device. It compiles the block of steps that
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

import os
import re
import time
from collections import Counter
from importlib import metadata
from typing import Any
from unittest import mock

# Before JAX is imported: libtpu would look for a TPU otherwise.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v5litepod-8")
os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")  # several compilers beside each other
os.environ["XLA_FLAGS"] = "--xla_gpu_autotune_level=0 " + os.environ.get("XLA_FLAGS", "")

import _configured as configured
import _harness as harness
import jax
from jax.experimental import topologies
from jax.sharding import PartitionSpec

from ebmjax.recipes.__main__ import quietly
from ebmjax.recipes.config import command_line
from ebmjax.recipes.config.errors import FAILED, Config, stop
from ebmjax.recipes.models import build
from ebmjax.training._block import make_block
from ebmjax.training._feed import describe_batches, plan_indices
from ebmjax.training._sharding import describe_shapes, make_mesh, state_specs

COLLECTIVE = re.compile(
    r" (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\("
)


CONVOLUTION = re.compile(r' convolution[(]|custom_call_target="__cudnn\$conv')
GPUS = {"h100": (84929347584, 3352320000000), "h200": (150024028160, 4800000000000)}
"""Bytes of memory, and bytes a second from it."""
GPU_TARGET = """
gpu_device_info {{
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048
  shared_memory_per_block: 49152 shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472 registers_per_core_limit: 65536 registers_per_block_limit: 65536
  core_count: 132 fpus_per_core: 128 clock_rate_ghz: 1.98 l2_cache_size: 52428800
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  device_memory_size: {0} memory_bandwidth: {1}
  cuda_compute_capability {{ major: 9 }}
}}
platform_name: "CUDA" device_description_str: "{2}"
dnn_version_info {{ major: 9 minor: 8 }}
runtime_version {{ major: 12 minor: 8 }}
"""
"""Description of a GPU for XLA's compiler, a TargetConfig."""


def chips(topology: str) -> list[Any]:
    """Returns devices of a topology such as "v5e:2x4"; ends the program if there are none.

    Those of "cpu" are this machine's.
    """
    if topology == "cpu":
        return jax.devices("cpu")
    name, _, count = topology.partition(":")
    if name in GPUS:
        return _gpus(topology, name, count)
    try:
        return topologies.get_topology_desc(platform="tpu", topology_name=topology).devices
    except Exception as error:  # without libtpu, or for a name it does not know: many kinds
        stop(
            f"--topology={topology}: no such TPU can be described ({error}). Give a name such as "
            "v5e:2x4 or v6e:1x1, and install libtpu: pip install libtpu."
        )


def _gpus(topology: str, name: str, count: str) -> list[Any]:
    try:
        jax.devices("cpu")  # which looks for plugins, too
        target = GPU_TARGET.format(*GPUS[name], name)
        shape = {"topology": f"1x1x{int(count)}", "target_config": target}
        return topologies.get_topology_desc("", platform="cuda", **shape).devices
    except Exception as error:  # without the plugin, or for no count: many kinds
        stop(
            f"--topology={topology}: no such GPUs can be described ({error}). Give a name such as "
            'h100:8 or h200:1, and pip install "jax-cuda12-plugin[with-cuda]".'
        )


def compile_step(config: Config, devices: list[Any]) -> dict[str, str]:
    """Compiles the block of steps of ``config`` for as many of ``devices`` as it can use."""
    experiment = configured.build_experiment(config)
    plan = experiment.plan
    mesh = make_mesh(plan.num_shards, devices)
    num_examples = len(jax.tree.leaves(experiment.data)[0])
    indices = plan_indices(plan, 0, plan.steps_per_dispatch, num_examples)
    arguments = (
        describe_shapes(build.train_key(config), mesh, PartitionSpec()),
        describe_shapes(experiment.state, mesh, state_specs()),
        describe_batches(experiment.data, indices, mesh),
    )
    started = time.process_time()
    # Networks choose their convolutions by the backend.
    with mock.patch.object(jax, "default_backend", return_value=devices[0].platform):
        lowered = make_block(experiment.train_step, mesh).lower(*arguments)
    traced = time.process_time()
    program = lowered.compile()
    return {
        "chips": str(mesh.size),
        **describe(program),
        "to trace": f"{traced - started:.3g} s of processors",
        "to compile": f"{time.process_time() - traced:.3g} s of processors",
    }


def describe(program: jax.stages.Compiled) -> dict[str, str]:
    """Returns the numbers of a compiled step by what they are of."""
    mib, cost = harness.memory_mib(program), program.cost_analysis() or {}
    try:
        text = program.as_text() or ""
    except jax.errors.JaxRuntimeError:  # JAX 0.10.2 cannot write every program for v6e
        text = ""
    collectives = Counter(COLLECTIVE.findall(text))
    of_program = {
        "collectives": ", ".join(f"{n} {name}" for name, n in collectives.items()) or "none",
        "convolutions": f"{len(re.findall(CONVOLUTION, text))} in the program",
        "copies": f"{len(re.findall(r' copy(?:-start)?[(]', text))} in the program",
        "float64": f"{len(re.findall(r' = f64', text))} in the program",
        "instructions": f"{len(re.findall(r'^ +(?:ROOT )?%', text, re.MULTILINE))} in the program",
    }
    found = {
        "memory": f"{mib['peak']:.4g} MiB a chip: arguments {mib['argument']:.4g}, results not in "
        f"their place {mib['output'] - mib['alias']:.4g}, temporaries {mib['temp']:.4g}",
    }
    if "flops" in cost:  # which XLA does not count for a GPU
        moved = f"{cost['bytes accessed'] / 2**20:.4g} MiB moved"
        found["operations"] = f"{cost['flops'] / 1e9:.4g} G, {moved}; bodies of loops once"
    if cost.get("optimal_seconds", -1) > 0:  # below 0 where the compiler has no estimate
        found["estimate"] = f"{1e3 * cost['optimal_seconds']:.4g} ms; bodies of loops once"
    return found | (of_program if text else dict.fromkeys(of_program, "unknown"))


def main() -> None:
    """Compiles one configuration."""
    parser = configured.make_parser(__doc__)
    parser.add_argument("--topology", default="v5e:2x4", help="TPU as libtpu calls it, or h100:8")
    options, rest = parser.parse_known_args()
    if not any(argument.startswith("--config.train.steps_per_dispatch") for argument in rest):
        rest.append("--config.train.steps_per_dispatch=1")
    config = command_line.read(options.config, rest)
    devices = chips(options.topology)
    try:
        with configured.offer_examples(options.random_examples):
            rows = harness.as_rows(compile_step(config, list(devices)))
    except jax.errors.JaxRuntimeError as error:
        stop(f"it does not compile: {error}", FAILED)
    package = {"tpu": "libtpu", "gpu": "jax-cuda12-pjrt"}.get(devices[0].platform)
    compiler = f"{package} {metadata.version(package)}" if package else ""
    chip = f"{options.topology}, {devices[0].device_kind} x{len(devices)}"
    asked = " ".join([options.config, *rest])
    harness.report("compile_for", rows, options.out, asked, chip, compiler)


if __name__ == "__main__":
    quietly(main)
