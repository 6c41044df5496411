"""Compiles the step of a configuration for TPUs and GPUs not at hand, and says what it needs.

  python benchmarks/compile_for.py --config=configs/jem_digits.py --topology=cpu
  pip install libtpu
  python benchmarks/compile_for.py --config=configs/jem_cifar10.py --topology=v5e:2x4
  python benchmarks/compile_for.py --config=configs/thermo_celeba.py --topology=v6e:2x2 \\
      --random_examples=1000
  pip install jax[cuda12]
  python benchmarks/compile_for.py --config=configs/lebm_svhn.py --topology=h100 \\
      --random_examples=1000

The device's own compiler runs on a CPU, without the device; --topology=cpu compiles for this
machine. Further arguments are those of run.py. Random images stand in for a data set of
tensorflow-datasets that is not at hand. The program is the block that ``training.fit`` runs, over
as many chips as divide ``config.mesh.num_shards``: one step, unless
``config.train.steps_per_dispatch`` is given. For each chip: MiB with arguments and temporaries;
10^9 operations, MiB moved and ms as the compiler counts them, bodies of loops once; seconds of
processors to trace and to compile. JAX_OPTIMIZATION_LEVEL=O1 compiles a wide network faster.
"""

import importlib
import math
import os
import time
from typing import Any
from unittest import mock

# Before JAX is imported: libtpu would look for a TPU otherwise.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v5litepod-8")
os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")  # several compilers beside each other
# Kernels cannot be timed without the GPU.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_autotune_level=0"
os.environ["XLA_FLAGS"] += " --xla_gpu_enable_triton_gemm=false"

import _harness as harness
import configuration as configured
import jax
from jax.experimental import topologies
from jax.sharding import PartitionSpec

from ebmjax.recipes.__main__ import quietly
from ebmjax.recipes.config import command_line
from ebmjax.recipes.config.errors import Config, stop
from ebmjax.recipes.models import build
from ebmjax.training._sharding import STATE_SPECS, describe_batches, describe_shapes, make_mesh
from ebmjax.training._step import make_block

# As XLA describes the device to itself, in protobuf text.
H100 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152
  shared_memory_per_core: 233472 threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000 l2_cache_size: 52428800 clock_rate_ghz: 1.98
  device_memory_size: 84929347584 shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 } registers_per_core_limit: 65536
  registers_per_block_limit: 65536
}
platform_name: "CUDA" dnn_version_info { major: 9 minor: 7 }
runtime_version { major: 12 minor: 8 } device_description_str: "NVIDIA H100 80GB HBM3"
"""


def find_devices(topology: str) -> list[Any]:
    """Returns devices of "v5e:2x4", "h100" or "cpu"; ends the program without their compiler."""
    if topology == "cpu":
        return jax.devices("cpu")
    try:
        if topology == "h100":
            importlib.import_module("jax_plugins.xla_cuda12").initialize()
            found = topologies.get_topology_desc("", "cuda", topology="1x1x1", target_config=H100)
            return [*found.devices]
        return [*topologies.get_topology_desc(topology, "tpu").devices]
    except Exception as error:  # without libtpu, or for a name it does not know: many kinds
        stop(
            f"--topology={topology} needs pip install libtpu and a name such as v5e:2x4, or "
            f"pip install jax[cuda12] and h100: {error}"
        )


def compile_step(config: Config, devices: list[Any]) -> harness.Row:
    """Compiles a run's step for as many of ``devices`` as it can use, and describes it."""
    experiment = configured.build_experiment(config)
    plan = experiment.plan
    mesh = make_mesh(plan.num_shards, devices)
    num_examples = len(jax.tree.leaves(experiment.data)[0])
    indices = plan.indices(0, plan.steps_per_dispatch, num_examples)
    started = time.process_time()
    # Networks choose their convolutions by the backend.
    with mock.patch.object(jax, "default_backend", return_value=devices[0].platform):
        lowered = make_block(experiment.train_step, mesh).lower(
            describe_shapes(build.root_keys(config.seed)[1], mesh, PartitionSpec()),
            describe_shapes(experiment.state, mesh, STATE_SPECS),
            describe_batches(experiment.data, indices, mesh),
            experiment.numbers,
        )
        traced = time.process_time()
        program = lowered.compile()
    mib, cost = harness.memory_mib(program), program.cost_analysis() or {}
    return {
        "program": f"step on {mesh.size}",
        **{"MiB": mib["peak"], "arguments": mib["argument"], "temporaries": mib["temp"]},
        "10^9": cost.get("flops", math.nan) / 1e9,
        "moved": cost.get("bytes accessed", math.nan) / 2**20,
        "ms": 1e3 * cost.get("optimal_seconds", math.nan),  # below 0 without an estimate
        "s to trace": traced - started,
        "to compile": time.process_time() - traced,
    }


def main() -> None:
    """Compiles one configuration."""
    parser = harness.make_parser(__doc__)
    parser.add_argument("--config", required=True, help="configuration file, with :VARIANT")
    parser.add_argument("--random_examples", type=int, help="number of them")
    parser.add_argument("--topology", default="v5e:2x4", help="TPU as libtpu calls it, or h100")
    options, rest = parser.parse_known_args()
    config = command_line.read(options.config, ["--config.train.steps_per_dispatch=1", *rest])
    devices = find_devices(options.topology)
    with configured.offer_examples(options.random_examples):
        row = compile_step(config, devices)
    harness.VERSIONS["device"] = f"{options.topology}, {devices[0].device_kind} x{len(devices)}"
    harness.report("compile_for", [row], options.out)


if __name__ == "__main__":
    quietly(main)
