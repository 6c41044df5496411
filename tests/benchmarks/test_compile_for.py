"""Programs for TPUs and GPUs that are not at hand."""

import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from ebmjax.recipes.run.compilation import quick_flags

REPOSITORY = Path(__file__).resolve().parents[2]
# libtpu does not know the flags that tests give to XLA.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
COMMAND = [sys.executable, "benchmarks/compile_for.py", "--config=configs/toy_samplers.py:smoke"]


def output(*arguments, **variables):
    environment = ENVIRONMENT | variables
    command = [*COMMAND, *arguments]
    return subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)


def rows_of(folder, *arguments, **variables):
    done = output(f"--out={folder}", *arguments, **variables)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "compile_for.json").read_text())["rows"]


def test_an_unknown_topology_is_refused():
    done = output("--topology=v5e:no")
    assert done.returncode == 2
    assert "--topology=v5e:no" in done.stderr
    assert "libtpu" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("topology", ["h100:many", "h200:8"])
def test_a_gpu_needs_a_number_and_its_compiler(topology):
    if topology == "h200:8" and importlib.util.find_spec("jax_cuda12_plugin"):
        pytest.skip("its compiler is there")
    done = output(f"--topology={topology}")
    assert done.returncode == 2
    assert f"--topology={topology}: no such GPUs" in done.stderr
    assert "jax-cuda12-plugin" in done.stderr


@pytest.mark.slow
def test_the_programs_of_a_run_compile_for_this_machine(tmp_path):
    config = "--config=configs/igebm_digits.py:smoke"
    rows = rows_of(tmp_path, config, "--topology=cpu", XLA_FLAGS=quick_flags(""))
    assert rows[0]["program"] == "step on 1"
    assert rows[0]["collectives"] == "1>1 all-reduce"
    assert rows[0]["instructions"] > 100
    chains = [row for row in rows if row["program"] == "evaluation chains.fresh_chains"]
    assert len(chains) == 2  # short ones, and long ones
    assert chains[0]["times moved"] < chains[1]["times moved"]
    assert any(row["program"].startswith("monitor") for row in rows)
    # Training's state lies beside them.
    assert all(row["beside"] >= rows[0]["arguments"] for row in rows[1:])


@pytest.mark.slow
def test_a_run_that_does_not_fit_is_refused_after_its_table(tmp_path):
    program = (
        "import sys; sys.path.insert(0, 'benchmarks'); import compile_for; "
        "compile_for.MEMORY['cpu'] = float(sys.argv.pop(1)) * 2**20; compile_for.main()"
    )

    def compile_with(mib):
        asked = [*COMMAND[2:], "--topology=cpu", "--only=step", f"--out={tmp_path}"]
        command = [sys.executable, "-c", program, str(mib), *asked]
        environment = ENVIRONMENT | {"XLA_FLAGS": quick_flags("")}
        done = subprocess.run(
            command, cwd=REPOSITORY, env=environment, capture_output=True, text=True
        )
        (row,) = json.loads((tmp_path / "compile_for.json").read_text())["rows"]
        return done, row["MiB"] + row["beside"]

    done, needed = compile_with(0)
    assert done.returncode == 1
    assert "more than the 0 MiB of a chip" in done.stderr
    assert "step on 1" in done.stderr
    assert compile_with(needed)[0].returncode == 0


def test_loops_count_as_often_as_they_run(load):
    """A body holds a product and an all-reduce, and is a branch of a loop inside a loop."""
    mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))

    def body(x, _):
        return jax.lax.psum(x @ x, "x"), None

    def many(x):
        inner = lambda x, _: jax.lax.scan(body, x, length=5)  # noqa: E731
        return jax.lax.scan(inner, x, length=7)[0]

    part = jax.sharding.PartitionSpec("x")
    spread = jax.shard_map(many, mesh=mesh, in_specs=part, out_specs=part, check_vma=False)
    program = jax.jit(spread).lower(jnp.ones((8 * 64, 64))).compile()
    counts = load("_loops").count(program.as_text())
    assert (counts.held["all-reduce"], counts.sent["all-reduce"]) == (1, 35)
    assert 17 < counts.bytes < 36
    assert math.isnan(counts.time)


def test_a_slice_of_a_loop_counts_as_a_slice(load):
    """A loop over the rows of a large array reads it once, as often as what stands beside it."""

    def sums(x):
        return 2 * x, jax.lax.scan(lambda total, row: (total + row, None), x[0], x)[0]

    program = jax.jit(sums).lower(jnp.ones((1000, 256))).compile()
    assert 1.5 < load("_loops").count(program.as_text()).bytes < 5


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None, reason="needs the TPU's compiler: libtpu"
)
def test_a_step_compiles_for_eight_chips_with_an_all_reduce(tmp_path):
    fields = ("--config.mesh.num_shards=8", "--config.train.batch_size=48")
    row = rows_of(tmp_path, *fields, "--only=step")[0]
    assert row["program"] == "step on 8"
    assert "all-reduce" in row["collectives"]
    assert row["times ms"] >= 1


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("jax_cuda12_plugin") is None, reason="needs the GPU's compiler"
)
def test_a_step_compiles_for_eight_gpus(tmp_path):
    fields = ("--config.mesh.num_shards=8", "--config.train.batch_size=48")
    row = rows_of(tmp_path, "--topology=h100:8", *fields, "--only=step")[0]
    assert row["program"] == "step on 8"
    assert "all-reduce" in row["collectives"]
    assert row["float64"] == 0
