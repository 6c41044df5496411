"""Compiles the programs of a run for TPUs and GPUs that are not at hand, and says what they need.

  python benchmarks/compile_for.py --config=configs/jem_digits.py --topology=cpu
  pip install libtpu
  python benchmarks/compile_for.py --config=configs/jem_cifar10.py --topology=v5e:2x4
  python benchmarks/compile_for.py --config=configs/thermo_celeba.py --topology=v6e:2x2 \\
      --random_examples=1000 --only step
  python benchmarks/compile_for.py --config=configs/jem_cifar10.py --topology="v5e:2x4*2"  # slices
  pip install "jax-cuda12-plugin[with-cuda]"
  python benchmarks/compile_for.py --config=configs/jem_digits.py --topology=h100:8

The device's own compiler runs on a CPU, without the device. Further arguments are those of run.py.
Random images stand in for a data set of tensorflow-datasets that is not at hand. --topology=cpu
compiles for this machine.

- step: the block of steps that ``training.fit`` runs, over as many chips as divide
  ``config.mesh.num_shards``. It is one step, unless ``config.train.steps_per_dispatch`` is given.
- monitor, evaluation: each program that they would run, here with constants for its results. So
  what depends on the numbers may be left out.

For each chip: MiB with arguments and temporaries, and beside them, of training's state and data
that lie there meanwhile; 10^9 operations, MiB moved and ms as the compiler counts them, bodies of
loops once; the factors by which loops multiply the last two; collectives held and, behind ">",
sent; convolutions, copies, float64 and instructions in the program; seconds of processors to trace
and to compile. Ends with exit code 1 if a program does not fit into the device's memory.
With the variable JAX_OPTIMIZATION_LEVEL=O1 a wide network's step compiles several times as fast,
to a slower program.
"""

import math
import os
import re
import tempfile
import time
import traceback
import warnings
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
os.environ["XLA_FLAGS"] = "--xla_gpu_autotune_level=0 " + os.environ.get("XLA_FLAGS", "")

import _calls as calls
import _configured as configured
import _harness as harness
import _loops
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, PartitionSpec

from ebmjax._groups import over_devices
from ebmjax.evaluate import _extractors as extractors
from ebmjax.recipes.__main__ import quietly
from ebmjax.recipes.config import command_line
from ebmjax.recipes.config.errors import FAILED, Config, stop
from ebmjax.recipes.models import build
from ebmjax.recipes.run.run import Run
from ebmjax.training._block import make_block
from ebmjax.training._feed import describe_batches, plan_indices
from ebmjax.training._sharding import describe_shapes, make_mesh, state_specs

CONVOLUTION = re.compile(r' convolution[(]|custom_call_target="__cudnn\$conv')
GPUS = {"h100": (84929347584, 3352320000000), "h200": (150024028160, 4800000000000)}
"""Bytes of memory, and bytes a second from it."""
MEMORY = {"TPU v5 lite": 15.75 * 2**30, "TPU v6 lite": 31.25 * 2**30}
MEMORY |= {name: size for name, (size, _) in GPUS.items()}
"""Bytes of a device that programs may use."""
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
        name, _, slices = topology.partition("*")
        options = {"topology_name": name, "num_slices": int(slices or 1)}
        return topologies.get_topology_desc(platform="tpu", **options).devices
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


class Programs:
    """Compiled programs, each described by a row.

    Attributes:
      rows: for the table.
      beside: MiB of training's state and data on a chip.
      part: of the run that calls programs now.
    """

    def __init__(self, devices: list[Any]):
        self.rows: list[harness.Row] = []
        self.beside, self.part = 0.0, "step"
        self._mesh = Mesh(np.array(devices), ("groups",))
        self._known: dict[Any, Any] = {}

    def add(self, name: str, jitted: Any, *arguments: Any, **named: Any) -> Any:
        """Compiles a program; returns the shapes of its results."""
        started = time.process_time()
        lowered = jitted.lower(*arguments, **named)
        traced = time.process_time()
        try:
            program = lowered.compile()
        except jax.errors.JaxRuntimeError as error:
            stop(f"{self.part} {name} does not compile: {error}", FAILED)
        seconds = {"s to trace": traced - started, "to compile": time.process_time() - traced}
        self.rows.append({"program": f"{self.part} {name}".strip(), **describe(program), **seconds})
        self.rows[-1]["beside"] = self.beside
        return lowered.out_info

    def answer(self, jitted: Any, *arguments: Any, **named: Any) -> Any:
        """Compiles a program at its first call; returns constants for its results.

        Rows sum to 1, as probabilities do.
        """

        def shape_of(leaf: Any) -> Any:
            is_array = isinstance(leaf, jax.Array | np.ndarray)
            return describe_shapes(leaf, self._mesh, PartitionSpec()) if is_array else leaf

        given, options = jax.tree.map(shape_of, (arguments, named))
        known = (jitted, str((given, options)))
        if known not in self._known:
            frames = [one for one in traceback.extract_stack() if "/ebmjax/" in one.filename]
            helpers = ("_programs.py", "metrics/_generation.py")
            by = next(one for one in reversed(frames) if not one.filename.endswith(helpers))
            name = f"{Path(by.filename).stem}.{by.name}"
            self._known[known] = self.add(name, jitted, *given, **options)

        def constant(one: Any) -> jax.Array:
            is_float = jnp.issubdtype(one.dtype, jnp.floating)
            return jnp.full(one.shape, 1.0 / max((1, *one.shape)[-1], 1) * is_float, one.dtype)

        return jax.tree.map(constant, self._known[known])


def compile_run(
    config: Config, folder: Path, devices: list[Any], only: str | None
) -> list[harness.Row]:
    """Compiles the programs of a run, the step for as many of ``devices`` as it can use."""
    programs, experiment = Programs(devices), Run(config, folder).build()
    (folder / "plots").mkdir()
    (folder / "metrics.jsonl").touch()
    # Networks choose their convolutions by the backend.
    with mock.patch.object(jax, "default_backend", return_value=devices[0].platform):
        _compile_step(config, experiment, programs, devices)
        if only == "step":
            return programs.rows
        if build.placement(config) == "device":
            leaves = jax.tree.leaves(experiment.data)
            programs.beside = sum(leaf.nbytes for leaf in leaves) / 2**20
        programs.rows[0]["beside"] = programs.beside
        programs.beside += programs.rows[0]["arguments"]
        unread = mock.patch.object(extractors, "_read_cached", _stand_in)
        in_place = mock.patch("ebmjax.recipes.evaluators.image_model.on_devices", lambda x: x)
        calls.Jitted.compiler = programs
        with over_devices(devices), unread, in_place:
            state, step = experiment.state, experiment.plan.monitor_every
            programs.part = "monitor"
            experiment.monitor(state, step)
            programs.part = "evaluation"
            warnings.simplefilter("ignore")  # of numbers that constants cannot have
            if experiment.evaluate is not None:
                experiment.evaluate(state)
        calls.Jitted.compiler = None
    return programs.rows


def _stand_in(path: Any, network: Any, train: Any) -> Any:
    """Stands in for a trained extractor, which has the same programs."""
    images = jnp.zeros((2, *train.images.shape[1:]))
    shapes = jax.eval_shape(network.init, jax.random.key(0), images)["params"]
    return jax.tree.map(lambda one: np.zeros(one.shape, one.dtype), shapes)


def _compile_step(config: Config, experiment: Any, programs: Programs, devices: list[Any]) -> None:
    plan = experiment.plan
    mesh = make_mesh(plan.num_shards, devices)
    num_examples = len(jax.tree.leaves(experiment.data)[0])
    indices = plan_indices(plan, 0, plan.steps_per_dispatch, num_examples)
    programs.add(
        "",
        make_block(experiment.train_step, mesh),
        describe_shapes(build.train_key(config), mesh, PartitionSpec()),
        describe_shapes(experiment.state, mesh, state_specs()),
        describe_batches(experiment.data, indices, mesh),
    )
    programs.rows[0]["program"] += f" on {mesh.size}"


def describe(program: jax.stages.Compiled) -> harness.Row:
    """Returns the numbers of a compiled program by what they are of."""
    mib, cost = harness.memory_mib(program), program.cost_analysis() or {}
    try:
        text = program.as_text() or ""
    except jax.errors.JaxRuntimeError:  # JAX 0.10.2 cannot write every program for v6e
        text = ""
    found: harness.Row = {"MiB": mib["peak"], "arguments": mib["argument"]}
    found |= {"temporaries": mib["temp"], "beside": 0.0}
    if "flops" in cost:  # which XLA does not count for a GPU
        found |= {"10^9": cost["flops"] / 1e9, "moved": cost["bytes accessed"] / 2**20}
    if cost.get("optimal_seconds", -1) > 0:  # below 0 where the compiler has no estimate
        found["ms"] = 1e3 * cost["optimal_seconds"]
    if not text:
        return found
    counts = _loops.count(text)
    sent = [f"{n}>{counts.sent[name]} {name}" for name, n in counts.held.items()]
    return found | {
        "times moved": counts.bytes,
        "times ms": counts.time,
        "collectives": ", ".join(sent) or "none",
        "convolutions": len(re.findall(CONVOLUTION, text)),
        "copies": len(re.findall(r" copy(?:-start)?[(]", text)),
        "float64": len(re.findall(r" = f64", text)),
        "instructions": len(re.findall(r"^ +(?:ROOT )?%", text, re.MULTILINE)),
    }


def main() -> None:
    """Compiles one configuration."""
    parser = configured.make_parser(__doc__)
    parser.add_argument("--topology", default="v5e:2x4", help="TPU as libtpu calls it, or h100:8")
    parser.add_argument("--only", choices=["step"], help="leaves out monitor and evaluation")
    options, rest = parser.parse_known_args()
    if not any(argument.startswith("--config.train.steps_per_dispatch") for argument in rest):
        rest.append("--config.train.steps_per_dispatch=1")
    config = command_line.read(options.config, rest)
    devices = list(chips(options.topology))
    with (
        configured.offer_examples(options.random_examples),
        tempfile.TemporaryDirectory() as folder,
    ):
        rows = compile_run(config, Path(folder), devices, options.only)
    package = {"tpu": "libtpu", "gpu": "jax-cuda12-pjrt"}.get(devices[0].platform)
    compiler = f"{package} {metadata.version(package)}" if package else ""
    chip = f"{options.topology}, {devices[0].device_kind} x{len(devices)}"
    asked = " ".join([options.config, *rest])
    harness.report("compile_for", rows, options.out, asked, chip, compiler)
    limit = MEMORY.get(devices[0].device_kind, math.inf) / 2**20
    large = [row["program"] for row in rows if row["MiB"] + row["beside"] > limit]
    if large:
        stop(f"more than the {limit:,.0f} MiB of a chip, with what lies beside: {large}", FAILED)


if __name__ == "__main__":
    quietly(main)
