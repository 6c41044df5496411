"""Programs for TPUs and GPUs that are not at hand."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

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
def test_the_step_of_a_run_compiles_for_this_machine(tmp_path):
    config = "--config=configs/igebm_digits.py:smoke"
    (row,) = rows_of(tmp_path, config, "--topology=cpu", XLA_FLAGS=quick_flags(""))
    assert row["program"] == "step on 1"
    assert row["collectives"] == 1
    assert row["instructions"] > 100
    assert row["MiB"] >= row["arguments"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(("mib", "code"), [(0, 1), (10_000, 0)])
def test_a_run_that_does_not_fit_is_refused_after_its_table(tmp_path, mib, code):
    program = (
        "import sys; sys.path.insert(0, 'benchmarks'); import compile_for; "
        f"compile_for.MEMORY['cpu'] = {mib} * 2**20; compile_for.main()"
    )
    command = [sys.executable, "-c", program, *COMMAND[2:], "--topology=cpu", f"--out={tmp_path}"]
    environment = ENVIRONMENT | {"XLA_FLAGS": quick_flags("")}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    assert done.returncode == code
    assert ("more than the 0 MiB of a chip" in done.stderr) == bool(code)
    assert (tmp_path / "compile_for.json").exists()


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None, reason="needs the TPU's compiler: libtpu"
)
def test_a_step_compiles_for_eight_chips_with_an_all_reduce(tmp_path):
    fields = ("--config.mesh.num_shards=8", "--config.train.batch_size=48")
    row = rows_of(tmp_path, *fields)[0]
    assert row["program"] == "step on 8"
    assert row["collectives"] >= 1
