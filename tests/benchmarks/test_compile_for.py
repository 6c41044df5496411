"""Programs for TPUs and GPUs that are not at hand."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
# libtpu does not know the flags that tests give to XLA.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
COMMAND = [sys.executable, "benchmarks/compile_for.py", "--config=configs/toy_samplers.py:smoke"]


def output(*arguments, env=ENVIRONMENT):
    command = [*COMMAND, *arguments]
    return subprocess.run(command, cwd=REPOSITORY, env=env, capture_output=True, text=True)


def read_values(printed):
    return dict(re.split(r"\s{2,}", line, maxsplit=1) for line in printed.splitlines()[3:])


def test_an_unknown_topology_is_refused():
    done = output("--topology=v5e:no")
    assert done.returncode == 2
    assert "--topology=v5e:no" in done.stderr
    assert "libtpu" in done.stderr


@pytest.mark.parametrize("topology", ["h100:many", "h200:8"])
def test_a_gpu_needs_a_number_and_its_compiler(topology):
    if topology == "h200:8" and importlib.util.find_spec("jax_cuda12_plugin"):
        pytest.skip("its compiler is there")
    done = output(f"--topology={topology}")
    assert done.returncode == 2
    assert f"--topology={topology}: no such GPUs" in done.stderr
    assert "jax-cuda12-plugin" in done.stderr


def test_a_step_compiles_for_this_machine():
    done = output("--topology=cpu", env=os.environ)
    assert done.returncode == 0, done.stderr
    lines = read_values(done.stdout)
    assert lines["chips"] == "1"
    assert lines["collectives"] == "1 all-reduce"
    assert int(lines["instructions"].split()[0]) > 100


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None, reason="needs the TPU's compiler: libtpu"
)
def test_a_step_compiles_for_eight_chips_with_an_all_reduce():
    done = output("--config.mesh.num_shards=8", "--config.train.batch_size=48")
    assert done.returncode == 0, done.stderr
    lines = read_values(done.stdout)
    assert lines["chips"] == "8"
    assert "all-reduce" in lines["collectives"]
    assert "MiB a chip" in lines["memory"]


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("jax_cuda12_plugin") is None, reason="needs the GPU's compiler"
)
def test_a_step_compiles_for_eight_gpus():
    done = output("--topology=h100:8", "--config.mesh.num_shards=8", "--config.train.batch_size=48")
    assert done.returncode == 0, done.stderr
    lines = read_values(done.stdout)
    assert lines["chips"] == "8"
    assert "all-reduce" in lines["collectives"]
    assert lines["float64"] == "0 in the program"
